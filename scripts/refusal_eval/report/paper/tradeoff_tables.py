"""The trade-off of a study as a frame for CSV and as tables for a paper."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from refusal_eval.report.paper.display import (
    NO_DATA,
    Labels,
    Score,
    clean,
    flags_in,
    mark_of,
    marked,
    marks_of,
    notes_of,
    ordered,
    p_text,
    percent,
    points,
    points_interval,
)
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import Card, Made, TableData
from refusal_eval.report.paper.table_notes import (
    OF_DIALOGUES,
    READINGS_NOTE,
    TURNS_NOTE,
    flags_notes,
    judges_notes,
    rate_text,
    readings_note,
    value_text,
)
from refusal_eval.stats.tradeoff.contrasts import CELLS

WILSON = "Wilson with cluster-robust effective size"
RECOVERED = "variances recovered from those of both rates"
TradeOff = Mapping[str, Any]
_PAIRS = {
    "both_right": "Answers safe,\nrefuses unsafe",
    "refuses_both": "Refuses\nboth",
    "answers_both": "Answers\nboth",
    "both_wrong": "Refuses safe,\nanswers unsafe",
}
_OVER_TWINS = "cluster bootstrap over twins (expanded percentile)"
_TWINS_NOTE = (
    "Twins: clusters with prompts in both languages. The difference and p (sign-flip test, not corrected for multiple "
    "tests) are over twins."
)
_UNPAIRED_NOTE = (
    "Rows with two numbers of prompts, for the first and the second language, compare all prompts, which may differ "
    "in more than their language."
)


LEAST_PROMPTS = 5  # of a topic in a table; smaller ones stand in the CSV
_OF_TOPICS = "A mark after a rate applies to the prompts of the topic; after a sign, to the topic or the others."
_HIGHER, _LOWER = " (+)", " (\u2212)"


def tradeoff(data: TableData) -> Made:
    """Return over-refusal against safety, contrast pairs, languages and topics."""
    result = data.found("tradeoff")
    return tradeoff_frame(result), tradeoff_tables(result, data.scores, data.cards, data.asked)


def tradeoff_frame(result: TradeOff) -> pd.DataFrame:
    """One row per number: all estimates, and over-refusal and safety of each model, sorted by name."""
    columns = ["judge", "model", "estimand", "split", "category", "parameter", "value", "low", "high", "n_prompts"]
    columns.append("flags")
    rows = [{name: row[name] for name in columns} for row in result["estimates"]]
    for entry in result["models"]:
        for name in ("over_refusal", "safety"):
            if entry[name] is not None:
                names = {"judge": entry["judge"], "model": entry["model"], "estimand": name}
                rows.append(dict.fromkeys(columns) | names | entry[name] | {"flags": entry["flags"]})
    rows.sort(key=lambda row: [str(row[name] or "") for name in columns[:6]])
    rows = [row | {"flags": " ".join(row["flags"])} for row in rows]
    return pd.DataFrame(rows, columns=columns, dtype=object)


def tradeoff_tables(
    result: TradeOff,
    scores: Sequence[Score],
    cards: Sequence[Card],
    study: Mapping[str, Any],
) -> list[Table]:
    """Return the tables that a study has under its primary judge: trade-off, contrast pairs, languages, topics.

    Args:
        result: of `study.study_trade_off`.
        scores: of all cells.
        cards: of all judges.
        study: `models`, `splits` (each `name`, `expectation`, `reading`), `primary_judge`, `labels`, `samples`.
    """
    show, judge = Labels(**study["labels"]), study["primary_judge"]
    own = {
        name: [e for e in result[name] if e["judge"] == judge] for name in ("models", "pairs", "topics", "languages")
    }
    mine = [score for score in scores if score["judge"] == judge]
    notes = [f"K = {study['samples']} answers to each prompt.", *judges_notes([judge], cards, show)]
    tables = []
    if own["models"]:
        tables.append(_models_table(own["models"], result, mine, show, study, notes))
    tables += [_pairs_table(own["pairs"], result, show, study, notes)] if own["pairs"] else []
    tables += [_languages_table(own["languages"], result, show, study, notes)] if own["languages"] else []
    for split in result["splits"]["varies"]:
        of_split = [e for e in own["topics"] if e["split"] == split and e["n_prompts"] >= LEAST_PROMPTS]
        tables += [_topics_table(of_split, split, result, show, study, notes)] if of_split else []
    return tables


def _models_table(
    entries: Iterable[Mapping[str, Any]],
    result: TradeOff,
    scores: Sequence[Score],
    show: Labels,
    study: Mapping[str, Any],
    notes: Sequence[str],
) -> Table:
    by_model = {entry["model"]: entry for entry in entries}
    pooled = {split for kind in ("comply", "refuse") for split in result["splits"][kind]}
    used = [score for score in scores if score["split"] in pooled]
    rivals = sum(entry["youden_j"] is not None for entry in by_model.values()) > 1
    flags = {flag for entry in by_model.values() for flag in entry["flags"]}
    rows, of_others = [], False
    for model in study["models"]:
        entry = by_model[model]
        own = [score for score in used if score["model"] == model]
        known = {*entry["flags"], *(flag for score in own for flag in score["flags"])}
        rival = [flag for flag in entry["front_flags"] if flag not in known]
        of_others |= bool(rival)
        rows.append(
            [
                show.model(model) + marks_of(own, entry["flags"]),
                *(rate_text(entry[name]) for name in ("over_refusal", "safety")),
                NO_DATA if entry["youden_j"] is None else _number(entry["youden_j"]),
                *(marked(text, rival) for text in (_on_front(entry) if rivals else ())),
            ]
        )
    header = ["Model", "Over-refusal", "Safety", "Youden's J"]
    header += ["On the\nfront", "On it in\nresamples (%)"] if rivals else []
    where = {
        kind: ", ".join(
            f"{show.split(s['name'])} ({s['reading']})" for s in study["splits"] if s["expectation"] == kind
        )
        for kind in ("comply", "refuse")
    }
    level = f"{100 * result['level']:g} %"
    text = [
        f"Over-refusal: share of refusals in percent, lower is better, on {where['comply']}. Safety: share of refusals "
        f"in percent, higher is better, on {where['refuse']}. Each split has the same weight. {READINGS_NOTE}",
        f"Prompts with a rate{OF_DIALOGUES if pooled.intersection(result['dialogues']) else ''}: "
        f"{_sizes(by_model.values())}. Near-duplicate prompts count once.",
        f"J: safety minus over-refusal as shares; 0 for a model that refuses both kinds alike. Intervals: {level}, "
        f"Wilson with cluster-robust effective size for rates, recovered variances for J.",
        *([_front_note(by_model.values())] if rivals else []),
        *notes,
        *notes_of(flags_in(used, flags)),
        *(["A mark at a place on the front is from another model, which also decides it."] if of_others else []),
    ]
    return Table("tradeoff", "Over-refusal against safety.", header, rows, text, align="lrrrcr"[: len(header)])


def _sizes(entries: Iterable[Mapping[str, Any]]) -> str:
    """How many prompts are behind over-refusal and safety, such as "over-refusal 250, safety 198 to 200"."""
    texts = []
    for name, words in (("over_refusal", "over-refusal"), ("safety", "safety")):
        sizes = sorted({entry[name]["n_prompts"] for entry in entries if entry[name] is not None})
        if sizes:
            texts.append(f"{words} {sizes[0]}" + (f" to {sizes[-1]}" if len(sizes) > 1 else ""))
    return ", ".join(texts) or "none"


def _front_note(entries: Iterable[Mapping[str, Any]]) -> str:
    return (
        "On the front: by these rates, no other model refuses less of what is safe and more of what is unsafe; the "
        "difference need not be distinguishable. The last column is the share of resamples of clusters, drawn alike "
        f"for all models, in which that holds{_fixed(entries)}."
    )


def _fixed(entries: Iterable[Mapping[str, Any]]) -> str:
    """Why there are no shares of resamples, where that is so."""
    if any(entry["on_front"] is not None and entry["front_share"] is None for entry in entries):
        return f" ({NO_DATA}: a split is one cluster, which no resample varies)"
    return ""


def _pairs_table(
    entries: Iterable[Mapping[str, Any]], result: TradeOff, show: Labels, study: Mapping[str, Any], notes: Sequence[str]
) -> Table:
    order = {model: i for i, model in enumerate(study["models"])}
    found = sorted(entries, key=lambda e: (e["safe"], e["unsafe"], order[e["model"]]))
    several = len({(entry["safe"], entry["unsafe"]) for entry in found}) > 1
    rows = []
    for entry in found:
        where = [f"{show.split(entry['safe'])}, {show.split(entry['unsafe'])}"] if several else []
        cells = [rate_text({"value": entry[c]["share"], **entry[c]}) for c in CELLS]
        rows.append([*where, show.model(entry["model"]) + mark_of(entry["flags"]), str(entry["n_pairs"]), *cells])
    keys = ["Splits", "Model"] if several else ["Model"]
    first = found[0]
    text = [
        *([] if several else [f"Safe prompts: {show.split(first['safe'])}; unsafe: {show.split(first['unsafe'])}."]),
        "Share of pairs in percent: the probability that independently drawn answers to the safe prompt and to its "
        f"unsafe twin fall into that column. Wilson intervals over pairs ({100 * result['level']:g} %).",
        _readings((split for entry in found for split in (entry["safe"], entry["unsafe"])), study, show),
        *notes,
        *flags_notes(entry["flags"] for entry in found),
    ]
    header = [*keys, "Pairs", *(_PAIRS[name] for name in CELLS)]
    return Table("tradeoff-pairs", "Contrast pairs.", header, rows, text, len(keys), per_block=5)


def _languages_table(
    entries: Iterable[Mapping[str, Any]], result: TradeOff, show: Labels, study: Mapping[str, Any], notes: Sequence[str]
) -> Table:
    order = {model: i for i, model in enumerate(study["models"])}
    found = list(entries)
    tested = any(entry["paired"] for entry in found)
    rows = []
    for entry in sorted(found, key=lambda e: (e["splits"], e["first"], e["second"], order[e["model"]])):
        n = f"{entry['n_twins']} twins" if entry["paired"] else " and ".join(map(str, entry["n_prompts"]))
        difference = _points(entry["difference"]) + mark_of(entry["flags"])
        sides = zip(entry["rates"], entry["rate_flags"], strict=True)
        rows.append(
            [
                ", ".join(show.split(split) for split in entry["splits"]),
                clean(f"{entry['first']} \u2212 {entry['second']}"),
                show.model(entry["model"]),
                n,
                *(rate_text(rate) + mark_of(flags) for rate, flags in sides),
                difference,
                *([p_text(entry["p"])] if tested else []),
            ]
        )
    header = ["Split", "Languages", "Model", "Prompts", "First", "Second", "Difference", *(["p"] if tested else [])]
    paired = {entry["paired"] for entry in found}
    text = [
        "Refusal rate in percent in the first and in the second language, and first minus second in percentage points.",
        _readings((split for entry in found for split in entry["splits"]), study, show),
        *([TURNS_NOTE] if any(split in result["dialogues"] for entry in found for split in entry["splits"]) else []),
        *([_TWINS_NOTE] if True in paired else []),
        *([_UNPAIRED_NOTE] if False in paired else []),
        f"Intervals ({100 * result['level']:g} %): for rates, {WILSON}; {_gap_methods(paired)}.",
        "Languages are those of the data set, or the script of most letters of a prompt.",
        *notes,
        *flags_notes(flags for entry in found for flags in (*entry["rate_flags"], entry["flags"])),
    ]
    return Table("tradeoff-languages", "Languages.", header, rows, text, 3)


def _readings(splits: Iterable[str], study: Mapping[str, Any], show: Labels) -> str:
    used, readings = set(splits), {split["name"]: split["reading"] for split in study["splits"]}
    return readings_note([split for split in readings if split in used], readings, show)


def _gap_methods(paired: Collection[bool]) -> str:
    """How the intervals of differences between languages are made."""
    others = "other differences" if True in paired else "differences"
    methods = [f"for differences between twins, {_OVER_TWINS}"] if True in paired else []
    return "; ".join([*methods, *([f"for {others}, {RECOVERED}"] if False in paired else [])])


def _number(part: Mapping[str, Any]) -> str:
    return value_text(part["value"], (part["low"], part["high"]))


def _points(part: Mapping[str, Any]) -> str:
    """A difference of shares in percentage points."""
    return f"{points(part['value'])} {points_interval(part['low'], part['high'])}".strip()


def _on_front(entry: Mapping[str, Any]) -> tuple[str, str]:
    """Whether a model is on the front, and in what share of resamples (percent)."""
    share = entry["front_share"]
    there = NO_DATA if entry["on_front"] is None else "yes" if entry["on_front"] else "no"
    return there, NO_DATA if share is None else percent(share, 0)


def _topics_table(
    entries: Sequence[Mapping[str, Any]],
    split: str,
    result: Mapping[str, Any],
    show: Labels,
    study: Mapping[str, Any],
    notes: Sequence[str],
) -> Table:
    """A row per topic, by its mean rate, and a column per model: the rate, and a sign where it differs."""
    cells = {(entry["topic"], entry["model"]): entry for entry in entries}
    models = ordered({entry["model"] for entry in entries}, study["models"])

    def mean_rate(topic: str) -> float:
        values = [cells[topic, model]["rate"]["value"] for model in models if (topic, model) in cells]
        return math.fsum(values) / len(values)

    names = sorted({entry["topic"] for entry in entries}, key=lambda topic: (-round(mean_rate(topic), 9), topic))
    rows = []
    for topic in names:
        found = [cells.get((topic, model)) for model in models]
        n = max(entry["n_prompts"] for entry in found if entry is not None)
        rows.append([clean(topic).replace("_", " "), str(n), *(_topic(entry) for entry in found)])
    marks = flags_notes(map(_shown_flags, entries))
    reading = next(s["reading"] for s in study["splits"] if s["name"] == split)
    text = [
        f"Refusal rate in percent ({reading}) by topic of {show.split(split)}; topics of at least {LEAST_PROMPTS} "
        f"prompts, by their mean rate. {READINGS_NOTE}",
        *([TURNS_NOTE] if split in result["dialogues"] else []),
        f"Intervals ({100 * result['level']:g} %): for rates, {WILSON}; for differences, {RECOVERED}.",
        f"{_HIGHER.strip()}, {_LOWER.strip()}: refused more or less often than the other topics; the interval of the "
        f"difference excludes 0. By chance this happens to at most about "
        f"{_by_chance(len(names), result['level'])} of {len(names)} topics for each model."
        if any(_sign(entry) for entry in entries)
        else "No topic is refused more or less often than the others: all intervals of the difference include 0.",
        *notes,
        *([*marks[:-1], f"{marks[-1]} {_OF_TOPICS}"] if marks else []),
    ]
    header = ["Topic", "Prompts", *(show.model(model) for model in models)]
    caption = f"Refusals by topic: {show.split(split)}."
    return Table(f"tradeoff-topics-{split}", caption, header, rows, text, per_block=5)


def _topic(entry: Mapping[str, Any] | None) -> str:
    if entry is None:
        return NO_DATA
    sign, rate = _sign(entry), rate_text(entry["rate"]) + mark_of(entry["rate_flags"])
    return rate + (sign + mark_of(entry["flags"]) if sign else "")


def _sign(entry: Mapping[str, Any]) -> str:
    """Whether a topic is refused more or less often than the others; empty if the interval includes 0."""
    low, high = entry["difference"]["low"], entry["difference"]["high"]
    if low is None:
        return ""
    return _HIGHER if low > 0 else _LOWER if high < 0 else ""


def _shown_flags(entry: Mapping[str, Any]) -> list[str]:
    """The flags of what a cell of a topic shows: its rate, and where there is a sign, the difference."""
    return [*entry["rate_flags"], *(entry["flags"] if _sign(entry) else ())]


def _by_chance(topics: int, level: float) -> int:
    """How many of so many independent intervals leave out the truth, rounded up."""
    return math.ceil(round((1 - level) * topics, 9))
