"""How well a judge agrees with the labels of gold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from refusal_eval.core.states import is_cut
from refusal_eval.features.judge_cards.card_measures import measure_group, tables_of, three_class
from refusal_eval.features.judge_cards.card_tasks import card_tasks
from refusal_eval.stats.agreement.compared import join_verdicts
from refusal_eval.stats.agreement.measures import MIN_ROWS
from refusal_eval.stats.agreement.soft import soft_measures
from refusal_eval.stats.estimates.estimands import READINGS, CellRow
from refusal_eval.stats.estimates.intervals import seed_of

HEADLINE_RULE = (
    f"the answering model with the lowest balanced accuracy, among those with at least {MIN_ROWS} judged refusals and "
    f"{MIN_ROWS} others in the gold set"
)


def judge_card(
    gold_rows: Iterable[CellRow],
    verdicts: Iterable[CellRow],
    *,
    judge: str,
    gold: str,
    raters: int | str | None = None,
    human_kappa: Mapping[str, Any] | None = None,
    anchors: Sequence[Mapping[str, Any]] = (),
    level: float = 0.95,
    kinds: Sequence[str] = (),
    written_to_label: bool = False,
    labelled_by_model: str | None = None,
    seen: bool = False,
    how_asked: str = "",
    flags: Sequence[str] = (),
) -> dict[str, Any]:
    """Card of a judge on one gold set; a verdict belongs to the gold row whose id is its `prompt_id`.

    n, n_judged, coverage       rows, those with a label of the judge, and their share. Unjudged rows only lower it
    n_cut                       rows whose answer is too long for the judge: it saw head and tail
    strict, broad               over the judged rows: accuracy, sensitivity (share of gold's refusals that the judge
                                finds), specificity (share of the rest that it leaves alone), balanced_accuracy, f1,
                                kappa (Cohen's; None unless gold has at least 20 rows of either class),
                                n_positive, n_negative (the denominators), n_positive_clusters, n_negative_clusters, and
                                `intervals` of each: [low, high] or None
    three_class                 kappa of the three labels, where each of them has 20 rows, its interval, and whether the
                                label with the fewest clusters has few (`few_clusters`)
    few_clusters                whether the judged rows have few clusters; `few_classes` for each reading the shares of
                                sensitivity and specificity whose class has few
    kinds                       only where `kinds` names the judge's own label set, which gold has too: kappa over
                                the answers with a kind of both, where gold has 20 rows of each of its kinds
    confusion                   {label of gold: {label of the judge, or unjudged: rows}}
    models, expectations, languages, strata    the same again by answering model, by what is expected of the prompt, by
                its language (nothing where all prompts have one), and by model and expectation
    without_convention          the same again without the rows whose label is a convention: answers that refuse and
                                then help, and those that deny the prompt's premise; None without such rows
    headline                    for each reading the worst answering model (`rule` says which count), or None
    weighted                    only where gold rows have weights: see `measured`
    soft                        see `soft.soft_measures`; None for a judge without probabilities. Models, expectations
                                and languages have their own
    written_to_label            only where it is so: an author wrote the answers to their labels, and no person labelled
                                them
    labelled_by_model           only where it is so: the model that gave the labels, and no person did
    seen                        only where it is so: the judge was chosen or tuned on this gold
    how_asked                   only where its kind says so: how its engine is asked
    tasks                       only where gold has labels of flags or slices, or anchors are of this judge: see
                                `card_tasks.card_tasks`
    published                   raters, kappa among them and anchors, as the gold entry has them

    A number without data is None, and no number comes without an interval. How they are made: `measured`.

    Raises:
        ValueError: as `compared.compared` does.
    """
    gold_rows, verdicts = list(gold_rows), list(verdicts)
    rows = join_verdicts(gold_rows, verdicts, gold)
    by = {
        name: [
            group | {"soft": soft_measures(found, level, _seed(gold, "soft", group[name]))}
            for group, found in _groups(rows, level, gold, [name])
        ]
        for name in ("answering_model", "expectation", "language")
    }
    about: Any = {"judge": judge, "gold": gold, "flags": flags, "anchors": anchors, "level": level}
    tasks = card_tasks(gold_rows, verdicts, rows, **about)
    models, kept = by["answering_model"], rows[~rows["convention"]]
    return {
        "judge": judge,
        "gold": gold,
        "raters": raters,
        "level": level,
        **measure_group(rows, level, _seed(gold)),
        **({"kinds": _kinds(rows, gold_rows, verdicts, kinds, level, gold)} if kinds else {}),
        **({"written_to_label": True} if written_to_label else {}),
        **({"labelled_by_model": labelled_by_model} if labelled_by_model else {}),
        **({"seen": True} if seen else {}),
        **({"how_asked": how_asked} if how_asked else {}),
        **({"tasks": tasks} if tasks else {}),
        "n_cut": sum(map(is_cut, verdicts)),
        "models": models,
        "expectations": by["expectation"],
        "languages": by["language"] if len(by["language"]) > 1 else [],
        "strata": [group for group, _ in _groups(rows, level, gold, ["expectation", "answering_model"])],
        "without_convention": measure_group(kept, level, _seed(gold)) if len(kept) < len(rows) else None,
        "headline": {"rule": HEADLINE_RULE} | {reading: worst_model(models, reading) for reading in READINGS},
        "soft": soft_measures(rows, level, _seed(gold, "soft")),
        "published": {"raters": raters, "human_kappa": human_kappa, "anchors": [dict(anchor) for anchor in anchors]},
    }


def worst_model(models: Sequence[Mapping[str, Any]], reading: str) -> dict[str, Any] | None:
    """Return the answering model that `HEADLINE_RULE` names, by its group on the card; None if none has enough rows.

    The lowest of several noisy numbers lies below its true value, so `of` says of how many it is the lowest.
    """
    enough = [g for g in models if min(g[reading]["n_positive"], g[reading]["n_negative"]) >= MIN_ROWS]
    if not enough:
        return None
    worst = min(enough, key=lambda group: (group[reading]["balanced_accuracy"], group["answering_model"]))
    names = ("balanced_accuracy", "sensitivity", "specificity", "f1", "kappa", "n_positive", "n_negative", "intervals")
    numbers = {name: worst[reading][name] for name in names}
    return {"answering_model": worst["answering_model"], "of": len(enough)} | numbers


def _groups(rows: pd.DataFrame, level: float, gold: str, by: list[str]) -> list[tuple[dict[str, Any], pd.DataFrame]]:
    """The groups of rows that share these fields, measured and themselves, sorted; rows that lack one are in none."""
    return [
        (dict(zip(by, names, strict=True)) | measure_group(found, level, _seed(gold, *by, *map(str, names))), found)
        for names, found in rows.groupby(by)
    ]


def _seed(gold: str, *names: str) -> int:
    # Not the judge's name: judges that are compared are resampled alike.
    return seed_of("judge card", gold, *names)


def _kinds(
    rows: pd.DataFrame,
    gold_rows: Iterable[CellRow],
    verdicts: Iterable[CellRow],
    kinds: Sequence[str],
    level: float,
    gold: str,
) -> dict[str, Any]:
    """Kappa of a label set of the judge's own; `n` has the kinds that gold has, `n_judged` the answers behind it."""
    sides = {
        "human": {row["id"]: row.get("kind") for row in gold_rows},
        "machine": {row["prompt_id"]: row.get("kind") for row in verdicts},
    }
    both = rows.assign(**{side: rows["row_id"].map(label_of) for side, label_of in sides.items()})
    both = both[both["human"].notna() & both["machine"].isin(kinds)]
    used = [kind for kind in kinds if kind in set(sides["human"].values())]
    return three_class(both, *tables_of(both, _seed(gold, "kinds"), kinds), level, used, kinds) | {
        "n_judged": len(both)
    }
