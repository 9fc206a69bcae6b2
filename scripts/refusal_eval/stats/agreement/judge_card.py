"""How well a judge agrees with people, on answers that people labelled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from refusal_eval.core.states import is_cut
from refusal_eval.stats.agreement.compared import Compared, compared
from refusal_eval.stats.agreement.measured_agreement import MIN_ROWS, UNJUDGED, measured
from refusal_eval.stats.agreement.soft import soft_measures
from refusal_eval.stats.estimates.estimands import READINGS, Row
from refusal_eval.stats.estimates.intervals import seed_of

__all__ = ["UNJUDGED", "judge_card"]

HEADLINE_RULE = (
    f"the answering model with the lowest balanced accuracy, among those with at least {MIN_ROWS} judged refusals and "
    f"{MIN_ROWS} others in the gold set"
)


def judge_card(
    gold_rows: Iterable[Row],
    verdicts: Iterable[Row],
    *,
    judge: str,
    gold: str,
    raters: int | str | None = None,
    human_kappa: Mapping[str, Any] | None = None,
    anchors: Sequence[Mapping[str, Any]] = (),
    level: float = 0.95,
) -> dict[str, Any]:
    """Card of a judge on one gold set; a verdict belongs to the gold row whose id is its `prompt_id`.

    n, n_judged, coverage       rows, those with a label of the judge, and their share. Unjudged rows only lower it
    n_cut                       rows whose answer is too long for the judge: it saw head and tail
    strict, broad               over the judged rows: accuracy, sensitivity (share of people's refusals that the judge
                                finds), specificity (share of the rest that it leaves alone), balanced_accuracy, f1,
                                kappa (Cohen's; None unless people labelled at least 20 rows as either class),
                                n_positive, n_negative (the denominators), and `intervals` of each: [low, high] or None
    three_class                 kappa of the three labels, where each of them has 20 rows, and its interval
    confusion                   {label of people: {label of the judge, or unjudged: rows}}
    models, expectations, strata    the same again by answering model, by what is expected of the prompt, and by both
    headline                    for each reading the worst answering model (`rule` says which count), or None
    weighted                    only where gold rows have weights: see `judge_card.measured.measured`
    soft                        see `judge_card.soft.soft_measures`; None for a judge without probabilities. Models have
                                their own
    people                      raters, published kappa among people and published anchors, as the gold entry has them

    A number without data is None, and no number comes without an interval. How they are made: `judge_card.measured`.

    Raises:
        ValueError: as `judge_card.compared.compared` does.
    """
    verdicts = list(verdicts)
    rows = compared(gold_rows, verdicts, gold)
    models = [
        group | {"soft": soft_measures(found, level, _seed(gold, "soft", group["answering_model"]))}
        for group, found in _groups(rows, level, gold, ("answering_model",))
    ]
    return {
        "judge": judge,
        "gold": gold,
        "raters": raters,
        "level": level,
        **measured(rows, level, _seed(gold)),
        "n_cut": sum(map(is_cut, verdicts)),
        "models": models,
        "expectations": [group for group, _ in _groups(rows, level, gold, ("expectation",))],
        "strata": [group for group, _ in _groups(rows, level, gold, ("expectation", "answering_model"))],
        "headline": {"rule": HEADLINE_RULE} | {reading: worst_model(models, reading) for reading in READINGS},
        "soft": soft_measures(rows, level, _seed(gold, "soft")),
        "people": {"raters": raters, "human_kappa": human_kappa, "anchors": [dict(anchor) for anchor in anchors]},
    }


def worst_model(models: Sequence[Mapping[str, Any]], reading: str) -> dict[str, Any] | None:
    """Return the answering model that `HEADLINE_RULE` names, by its group on the card; None where none has the rows.

    The lowest of several noisy numbers lies below its true value, so `of` says among how many it is the lowest.
    """
    enough = [g for g in models if min(g[reading]["n_positive"], g[reading]["n_negative"]) >= MIN_ROWS]
    if not enough:
        return None
    worst = min(enough, key=lambda group: (group[reading]["balanced_accuracy"], group["answering_model"]))
    part = worst[reading]
    names = ("balanced_accuracy", "sensitivity", "specificity", "f1", "kappa", "n_positive", "n_negative")
    return {
        "answering_model": worst["answering_model"],
        "of": len(enough),
        **{name: part[name] for name in names},
        "intervals": part["intervals"],
    }


def _groups(
    rows: Sequence[Compared], level: float, gold: str, by: tuple[str, ...]
) -> list[tuple[dict[str, Any], list[Compared]]]:
    """The groups of rows that share these fields, measured and themselves, sorted; rows that lack one are in none."""
    found: dict[tuple[str, ...], list[Compared]] = {}
    for row in rows:
        names = tuple(getattr(row, name) for name in by)
        if None not in names:
            found.setdefault(names, []).append(row)
    return [
        (dict(zip(by, names, strict=True)) | measured(found[names], level, _seed(gold, *by, *names)), found[names])
        for names in sorted(found)
    ]


def _seed(gold: str, *names: str) -> int:
    # Not the judge's name: judges that are compared are resampled alike.
    return seed_of("judge card", gold, *names)
