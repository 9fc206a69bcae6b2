"""The trade-off of a study as a frame for CSV and as tables for a paper."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from refusal_eval.features.tradeoff.attack_tradeoff import FAILED
from refusal_eval.features.tradeoff.contrasts import CELLS
from refusal_eval.features.tradeoff.tradeoff_rows import KINDS, ModelRows, model_rows, other_axes
from refusal_eval.report.paper.display import (
    NO_DATA,
    add_marks,
    clean,
    flags_in,
    mark_of,
    marks_of,
    notes_of,
    number,
    order_names,
    p_text,
    percent,
)
from refusal_eval.report.paper.filled_notes import filled_notes
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import TableData, TableParts
from refusal_eval.report.paper.table_kind import OF_PRIMARY, StudyTable
from refusal_eval.report.paper.table_notes import flags_notes, points_text, rate_text, value_text
from refusal_eval.report.results.cells import has_turns
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.intervals import CLUSTER_SIZE, RATE_INTERVAL
from refusal_eval.stats.estimates.model_alone import MODEL_ALONE, as_user_meets_it, of_model_alone

RATES = f"{RATE_INTERVAL} with {CLUSTER_SIZE}"
RECOVERED = "variances recovered from those of both rates"
_PAIRS = {
    "both_right": "Answers safe,\nrefuses unsafe",
    "refuses_both": "Refuses\nboth",
    "answers_both": "Answers\nboth",
    "both_wrong": "Refuses safe,\nanswers unsafe",
}
_OWN = (
    "youden_j",
    "tradeoff_",
    "pareto_",
    "pairs_",
    "topic_",
    "language_",
    "attack_",
    FAILED,
)  # how its estimands begin
LEAST_PROMPTS = 5  # of a topic in a table; smaller ones are only in the CSV
_HIGHER, _LOWER = " (+)", " (\u2212)"


def tradeoff(data: TableData) -> TableParts:
    """Return both kinds of refusal, contrast pairs, languages and topics."""
    return tradeoff_frame(data.results, data.asked["splits"]), tradeoff_tables(data)


def tradeoff_frame(results: Iterable[Estimate], splits: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """One row per number, under every judge, with both rates of each model, sorted by name."""
    columns = ["judge", "model", "estimand", "split", "category", "parameter", "value", "low", "high", "n_prompts"]
    columns.append("flags")
    results = list(results)
    rows = [[getattr(row, name) for name in columns] for row in results if row.estimand.startswith(_OWN)]
    for of, ending in ((results, ""), (of_model_alone(results), MODEL_ALONE)):
        for own in model_rows(of, splits).values():
            for name, row in (("over_refusal", own.over_refusal), ("safety", own.safety)):
                if row is not None:
                    ends = [row.value, row.low, row.high, row.n_prompts]
                    rows.append([row.judge, row.model, name + ending, None, None, None, *ends, own.youden_j.flags])
    rows.sort(key=lambda row: [str(value or "") for value in row[:6]])
    return pd.DataFrame(rows, columns=columns, dtype=object)


def tradeoff_tables(data: TableData) -> list[Table]:
    """Return the tables that a study has under its primary judge: trade-off, contrast pairs, languages, topics."""
    judge = data.asked["primary_judge"]
    every = [row for row in data.results if row.judge == judge]
    rows, alone = as_user_meets_it(every), of_model_alone(every)
    models, models_alone = (
        {str(model): own for (_, model), own in model_rows(of, data.asked["splits"]).items()} for of in (rows, alone)
    )
    said = {
        "level": f"{100 * data.asked['level']:g} %",
        "readings": {split["name"]: split["reading"] for split in data.asked["splits"]},
        "of_turns": {score["split"] for score in data.scores if has_turns([score])},
        **{"rate_method": RATES, "recovered": RECOVERED},
        **{"judge": judge, "cards": data.cards, "samples": data.asked["samples"]},
    }
    tables = [_models_table(models, data, said)] if models else []
    tables += [_models_table(models_alone, data, said, alone=True)] if models_alone else []
    attacked = {str(model): own for (_, model), own in model_rows(rows, data.asked["splits"], attacks=True).items()}
    tables += [_attacks_table(attacked, data, said)] if attacked else []
    pairs = [row for row in rows if row.estimand.startswith("pairs_")]
    tables += [_pairs_table(pairs, data, said)] if pairs else []
    spoken = [row for row in rows if row.estimand.startswith("language_")]
    tables += [_languages_table(spoken, data, said)] if spoken else []
    for split in (split["name"] for split in data.asked["splits"] if split["expectation"] == "varies"):
        of_split = _topics(rows, split, said["readings"][split])
        tables += [_topics_table(of_split, split, data, said)] if of_split else []
    return tables


def _models_table(
    models: Mapping[str, ModelRows], data: TableData, said: Mapping[str, Any], alone: bool = False
) -> Table:
    show, splits = data.labels, data.asked["splits"]
    pooled = {split["name"] for split in splits if split["expectation"] in KINDS.values()}
    used = [score for score in data.scores if score["split"] in pooled]
    rivals = sum(own.front is not None for own in models.values()) > 1
    rows, of_others = [], False
    for model in data.order("models"):
        found = models[model]
        own, j = [score for score in used if score["model"] == model and not alone], found.youden_j
        known = {*j.flags, *(flag for score in own for flag in score["flags"])}
        rival = [flag for flag in (found.front.flags if rivals and found.front else ()) if flag not in known]
        of_others |= bool(rival)
        rows.append(
            [
                show.model(model) + marks_of(own, j.flags),
                *(rate_text(None if row is None else row.row()) for row in (found.over_refusal, found.safety)),
                NO_DATA if j.value is None else value_text(j.value, (j.low, j.high)),
                *(add_marks(text, rival) for text in (_on_front(found) if rivals else ())),
            ]
        )
    header = ["Model", "Refusal of what\nshould be answered", "Refusal of what\nshould be declined", "Youden's J"]
    header += ["On the\nfront", "On it in\nresamples (%)"] if rivals else []
    placed = [own for own in models.values() if own.front is not None]
    sizes = {
        "should be answered": [own.over_refusal.n_prompts or 0 for own in placed if own.over_refusal],
        "should be declined": [own.safety.n_prompts or 0 for own in placed if own.safety],
    }
    notes = filled_notes(
        "tradeoff/models",
        show,
        **said,
        where={
            kind: [f"{show.split(s['name'])} ({s['reading']})" for s in splits if s["expectation"] == kind]
            for kind in KINDS.values()
        },
        pooled=pooled,
        spoken=[(show.split(name), map(clean, own)) for name, own in data.found("tradeoff")["spoken"].items() if own],
        sizes=[(words, min(numbers), max(numbers)) for words, numbers in sizes.items() if numbers],
        other_axes=other_axes(data.found("tradeoff"), show),
        rivals=rivals,
        fixed=any(own.front_share is not None and own.front_share.value is None for own in placed),
        marks=notes_of(
            flags_in([] if alone else used, {flag for own in models.values() for flag in own.youden_j.flags})
        ),
        of_others=of_others,
        model_alone=alone,
    )
    return Table(
        "tradeoff-model-alone" if alone else "tradeoff",
        f"Refusal of what should be answered, and of what should be declined{', by the model alone' * alone}.",
        header,
        rows,
        notes,
        align="lrrrcr"[: len(header)],
    )


def _attacks_table(models: Mapping[str, ModelRows], data: TableData, said: Mapping[str, Any]) -> Table:
    show, splits, attacks = data.labels, data.asked["splits"], data.found("tradeoff", "attacks")["attacks"]
    rivals = sum(own.front is not None for own in models.values()) > 1
    rows = []
    for model in (name for name in data.order("models") if name in models):
        found = models[model]
        rates = [rate_text(None if row is None else row.row()) for row in (found.over_refusal, found.safety)]
        rows.append([show.model(model) + mark_of(found.youden_j.flags), *rates, *(_on_front(found) if rivals else ())])
    header = ["Model", "Refusal of what\nshould be answered", "Attacks that fail\n(1 \u2212 ASR)"]
    header += ["On the\nfront", "On it in\nresamples (%)"] if rivals else []
    notes = filled_notes(
        "tradeoff/attacks",
        show,
        **said,
        comply=[f"{show.split(s['name'])} ({s['reading']})" for s in splits if s["expectation"] == "comply"],
        attacked=[show.split(name) for name in attacks["splits"]],
        harm=attacks["judge"],
        succeeds=[clean(kind).replace("_", " ") for kind in attacks["succeeds"]],
        sizes=[own.safety.n_prompts or 0 for own in models.values() if own.safety],
        rivals=rivals,
        marks=notes_of({flag for own in models.values() for flag in own.youden_j.flags}),
    )
    title = "Refusal of what should be answered, and attacks that fail."
    return Table("tradeoff-attacks", title, header, rows, notes, align="lrrcr"[: len(header)])


def _pairs_table(pairs: Iterable[Estimate], data: TableData, said: Mapping[str, Any]) -> Table:
    show, order = data.labels, {model: i for i, model in enumerate(data.order("models"))}
    found: dict[tuple[str, str, str], dict[str, Estimate]] = {}
    for row in pairs:
        place = (str(row.split), str(row.parameter), str(row.model))
        found.setdefault(place, {})[row.estimand.removeprefix("pairs_")] = row
    places = sorted(found, key=lambda place: (place[0], place[1], order[place[2]]))
    several = len({(safe, unsafe) for safe, unsafe, _ in places}) > 1
    rows = []
    for safe, unsafe, model in places:
        cells = [found[safe, unsafe, model][name] for name in CELLS]
        where = [f"{show.split(safe)}, {show.split(unsafe)}"] if several else []
        name = show.model(model) + mark_of(cells[0].flags)
        rows.append([*where, name, str(cells[0].n_clusters), *(rate_text(cell.row()) for cell in cells)])
    keys = ["Splits", "Model"] if several else ["Model"]
    shown = [{"safe": safe, "unsafe": unsafe} for safe, unsafe, _ in places]
    marks = flags_notes(cell.flags for cells in found.values() for cell in cells.values())
    notes = filled_notes("tradeoff/pairs", show, **said, pairs=shown, several=several, marks=marks)
    header = [*keys, "Pairs", *(_PAIRS[name] for name in CELLS)]
    return Table("tradeoff-pairs", "Contrast pairs.", header, rows, notes, len(keys), per_block=5)


def _languages_table(found: Sequence[Estimate], data: TableData, said: Mapping[str, Any]) -> Table:
    show, order = data.labels, {model: i for i, model in enumerate(data.order("models"))}
    by_key = {(row.estimand, row.split, row.parameter, row.model): row for row in found}
    tested = any(row.estimand == "language_difference_p" for row in found)
    rates = [row for row in found if row.estimand == "language_rate"]
    places = {
        (tuple(str(row.split).split("+")), row.parameter, other.parameter, str(row.model)): (row, other, by_key[key])
        for row in rates
        for other in rates
        if (key := ("language_difference", row.split, f"{row.parameter} - {other.parameter}", row.model)) in by_key
        if (other.split, other.model) == (row.split, row.model)
    }
    rows, paired = [], []
    for (splits, first, second, model), own in sorted(
        places.items(), key=lambda item: (*item[0][:3], order[item[0][3]])
    ):
        *sides, gap = own
        p = by_key.get(("language_difference_p", gap.split, gap.parameter, model))
        paired.append(p is not None)
        rows.append(
            [
                ", ".join(show.split(split) for split in splits),
                clean(f"{first} \u2212 {second}"),
                show.model(model),
                " and ".join(str(side.n_prompts) for side in sides) if p is None else f"{gap.n_clusters} twins",
                *(rate_text(side.row()) + mark_of(side.flags) for side in sides),
                points_text(gap.row()) + mark_of(gap.flags),
                *([p_text(None if p is None else p.value)] if tested else []),
            ]
        )
    header = ["Split", "Languages", "Model", "Prompts", "First", "Second", "Difference", *(["p"] if tested else [])]
    notes = filled_notes(
        "tradeoff/languages",
        show,
        **said,
        used=[split for splits, *_ in places for split in splits],
        paired=paired,
        marks=flags_notes(row.flags for own in places.values() for row in own),
    )
    return Table("tradeoff-languages", "Languages.", header, rows, notes, 3)


def _on_front(own: ModelRows) -> tuple[str, str]:
    """Whether a model is on the front, and in what share of resamples (percent)."""
    share = None if own.front_share is None else own.front_share.value
    there = NO_DATA if own.on_front is None else "yes" if own.on_front else "no"
    return there, NO_DATA if share is None else percent(share, 0)


def _topics(rows: Iterable[Estimate], split: str, reading: str) -> dict[tuple[str, str], tuple[Estimate, Estimate]]:
    """The rate and the difference of each topic of a split and model that has enough prompts."""
    found: dict[tuple[str, str], dict[str, Estimate]] = {}
    for row in rows:
        if (row.split, row.reading) == (split, reading) and row.category is not None:
            found.setdefault((row.category, str(row.model)), {})[row.estimand] = row
    return {
        place: (own["refusal_rate"], own["topic_difference"])
        for place, own in found.items()
        if "topic_difference" in own and (own["topic_difference"].n_prompts or 0) >= LEAST_PROMPTS
    }


def _topics_table(
    cells: Mapping[tuple[str, str], tuple[Estimate, Estimate]], split: str, data: TableData, said: Mapping[str, Any]
) -> Table:
    """A row per topic, by its mean rate, and a column per model: the rate, and a sign where it differs."""
    show, models = data.labels, order_names({model for _, model in cells}, data.order("models"))

    def mean_rate(topic: str) -> float:
        values = [cells[topic, model][0].value or 0.0 for model in models if (topic, model) in cells]
        return math.fsum(values) / len(values)

    names = sorted({topic for topic, _ in cells}, key=lambda topic: (-round(mean_rate(topic), 9), topic))
    rows = []
    for topic in names:
        found = [cells.get((topic, model)) for model in models]
        n = max(gap.n_prompts or 0 for _, gap in filter(None, found))
        rows.append([clean(topic).replace("_", " "), str(n), *(_topic(cell) for cell in found)])
    marks = [[*rate.flags, *(gap.flags if _sign(gap) else ())] for rate, gap in cells.values()]
    notes = filled_notes(
        "tradeoff/topics",
        show,
        **said,
        name=split,
        least=LEAST_PROMPTS,
        signs=any(_sign(gap) for _, gap in cells.values()),
        by_chance=number((1 - data.asked["level"]) * len(names), 1),
        topics=len(names),
        marks=flags_notes(marks),
    )
    header = ["Topic", "Prompts", *(show.model(model) for model in models)]
    caption = f"Refusals by topic: {show.split(split)}."
    return Table(f"tradeoff-topics-{split}", caption, header, rows, notes, per_block=5)


def _topic(cell: tuple[Estimate, Estimate] | None) -> str:
    if cell is None:
        return NO_DATA
    rate, gap = cell
    sign = _sign(gap)
    return rate_text(rate.row()) + mark_of(rate.flags) + (sign + mark_of(gap.flags) if sign else "")


def _sign(gap: Estimate) -> str:
    """Whether a topic is refused more or less often than the others; empty if the interval includes 0."""
    if gap.low is None or gap.high is None:
        return ""
    return _HIGHER if gap.low > 0 else _LOWER if gap.high < 0 else ""


class TradeOffTable(StudyTable):
    """Refusal of what should be answered against refusal of what should be declined."""

    name = "tradeoff"
    of_analysis = "tradeoff"
    needs = ("results", "tradeoff", "estimates", "cards")
    shows = (*OF_PRIMARY, "samples")
    report = ("Trade-off", "Trade-off by model")
    make = staticmethod(tradeoff)
