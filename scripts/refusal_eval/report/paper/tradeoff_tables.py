"""The trade-off of a study as a frame for CSV and as tables for a paper."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from refusal_eval.report.paper.display import (
    NO_DATA,
    Labels,
    Score,
    clean,
    joined,
    mark_notes,
    mark_of,
    marked,
    marks_of,
    p_text,
    percent,
    points,
    points_interval,
)
from refusal_eval.report.paper.frames import Card
from refusal_eval.report.paper.judge_card_words import value_text
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_notes import OF_DIALOGUES, READINGS_NOTE
from refusal_eval.report.paper.topics_table import LEAST_PROMPTS, topics_table
from refusal_eval.report.paper.tradeoff_words import RECOVERED, TURNS_NOTE, WILSON, flags_notes, judge_notes, rate_text
from refusal_eval.stats.estimates.scores import score_flags
from refusal_eval.stats.tradeoff.contrasts import CELLS

TradeOff = Mapping[str, Any]
_PAIRS = {
    "both_right": "Answers safe,\nrefuses unsafe",
    "refuses_both": "Refuses\nboth",
    "answers_both": "Answers\nboth",
    "both_wrong": "Refuses safe,\nanswers unsafe",
}
_OVER_TWINS = "of twins cluster bootstrap over twins (expanded percentile)"
_TWINS_NOTE = (
    "Twins: clusters with prompts in both; the difference is over them, p of a sign-flip test over them, not corrected "
    "for several tests."
)
_UNPAIRED_NOTE = (
    "With two numbers of prompts, of the first and the second language, the difference is that of all prompts, which "
    "may differ in more than their language."
)


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
    notes = judge_notes(judge, cards, show, study["samples"])
    tables = []
    if own["models"]:
        tables.append(_models_table(own["models"], result, mine, show, study, notes))
    tables += [_pairs_table(own["pairs"], result, show, study, notes)] if own["pairs"] else []
    tables += [_languages_table(own["languages"], result, show, study, notes)] if own["languages"] else []
    for split in result["splits"]["varies"]:
        of_split = [e for e in own["topics"] if e["split"] == split and e["n_prompts"] >= LEAST_PROMPTS]
        tables += [topics_table(of_split, split, result, show, study, notes)] if of_split else []
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
        known = {*entry["flags"], *(flag for score in own for flag in score_flags(score))}
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
        *(f"{note}." for note in mark_notes(used, flags)),
        *(["A mark at a place on the front is that of another model, which decides it too."] if of_others else []),
    ]
    return Table("tradeoff", "Over-refusal against safety.", header, rows, "lrrrcr"[: len(header)], text)


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
        "On the front: no other model refuses less of what is safe and more of what is not; beside it in what share of "
        f"resamples of clusters, drawn alike for all models, that is so{_fixed(entries)}."
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
        "Share of pairs in percent: the probability that an answer to the safe prompt and one to its unsafe twin, "
        f"drawn independently, fall so. Wilson intervals over pairs ({100 * result['level']:g} %).",
        _readings((split for entry in found for split in (entry["safe"], entry["unsafe"])), study, show),
        *notes,
        *flags_notes(entry["flags"] for entry in found),
    ]
    header = [*keys, "Pairs", *(_PAIRS[name] for name in CELLS)]
    align = "l" * len(keys) + "r" * (len(header) - len(keys))
    return Table("tradeoff-pairs", "Contrast pairs.", header, rows, align, text, len(keys), per_block=5)


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
        f"Intervals ({100 * result['level']:g} %): of rates {WILSON}; of differences {_gap_methods(paired)}.",
        "Languages are those of the data set, or the script of most of a prompt's letters.",
        *notes,
        *flags_notes(flags for entry in found for flags in (*entry["rate_flags"], entry["flags"])),
    ]
    return Table("tradeoff-languages", "Languages.", header, rows, "lll" + "r" * (len(header) - 3), text, 3)


def _readings(splits: Iterable[str], study: Mapping[str, Any], show: Labels) -> str:
    """Which reading counts on which of these splits, and what the readings are."""
    used = set(splits)
    where: dict[str, list[str]] = {}
    for split in study["splits"]:
        if split["name"] in used:
            where.setdefault(split["reading"], []).append(show.split(split["name"]))
    told = "; ".join(f"{reading} on {joined(where[reading])}" for reading in sorted(where))
    return f"Headline readings: {told}. {READINGS_NOTE}"


def _gap_methods(paired: Collection[bool]) -> str:
    """How the intervals of differences between languages are made."""
    methods = [*([_OVER_TWINS] if True in paired else []), *([RECOVERED] if False in paired else [])]
    return "; of others ".join(methods)


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
