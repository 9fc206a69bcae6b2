"""The trade-off of a study as a frame for CSV and as tables for a paper."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from refusal_eval.display import (
    NO_DATA,
    Labels,
    Score,
    clean,
    interval,
    mark_notes,
    marks,
    ordered,
    percent,
)
from refusal_eval.frames import NOT_MEASURED, Card, agreement_texts
from refusal_eval.judge_card.words import value_text
from refusal_eval.markup import Table
from refusal_eval.table_notes import READINGS_NOTE
from refusal_eval.tradeoff.pairs import CELLS

TradeOff = Mapping[str, Any]
_PAIRS = {
    "both_right": "Answers safe,\nrefuses unsafe",
    "refuses_both": "Refuses\nboth",
    "answers_both": "Answers\nboth",
    "both_wrong": "Refuses safe,\nanswers unsafe",
}
_LEAST_PROMPTS = 5  # of a topic in a table; smaller ones stand in the CSV
_HIGHER, _LOWER = " (+)", " (\u2212)"


def tradeoff_frame(result: TradeOff) -> pd.DataFrame:
    """One row per number: all estimates, and over-refusal and safety of each model, sorted by name."""
    columns = ["judge", "model", "estimand", "split", "category", "parameter", "value", "low", "high", "n_prompts"]
    rows = [{name: row[name] for name in columns} for row in result["estimates"]]
    for entry in result["models"]:
        for name in ("over_refusal", "safety"):
            if entry[name] is not None:
                names = {"judge": entry["judge"], "model": entry["model"], "estimand": name}
                rows.append(dict.fromkeys(columns) | names | entry[name])
    rows.sort(key=lambda row: [str(row[name] or "") for name in columns[:6]])
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
        of_split = [e for e in own["topics"] if e["split"] == split and e["n_prompts"] >= _LEAST_PROMPTS]
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
    rows = []
    for model in study["models"]:
        entry = by_model[model]
        mark = "".join(dict.fromkeys("".join(marks(score) for score in used if score["model"] == model)))
        rows.append(
            [
                show.model(model) + mark,
                *(_percent(entry[name]) for name in ("over_refusal", "safety")),
                NO_DATA if entry["youden_j"] is None else _number(entry["youden_j"]),
                *(_on_front(entry) if rivals else ()),
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
        f"J: safety minus over-refusal as shares; 0 for a model that refuses both kinds alike. Intervals: {level}, "
        f"Wilson with cluster-robust effective size for rates, recovered variances for J.",
        *([_front_note(by_model.values())] if rivals else []),
        *notes,
        *(f"{note}." for note in mark_notes(used)),
    ]
    return Table("tradeoff", "Over-refusal against safety.", header, rows, "lrrrcr"[: len(header)], text)


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
        cells = [_percent({"value": entry[c]["share"], **entry[c]}) for c in CELLS]
        rows.append([*where, show.model(entry["model"]), str(entry["n_pairs"]), *cells])
    keys = ["Splits", "Model"] if several else ["Model"]
    first = found[0]
    text = [
        *([] if several else [f"Safe prompts: {show.split(first['safe'])}; unsafe: {show.split(first['unsafe'])}."]),
        "Share of pairs in percent: the probability that an answer to the safe prompt and one to its unsafe twin, "
        f"drawn independently, fall so. Wilson intervals over pairs ({100 * result['level']:g} %). {READINGS_NOTE}",
        *notes,
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
        twins = f"{entry['n_twins']} twins" if entry["paired"] else "unpaired"
        rows.append(
            [
                ", ".join(show.split(split) for split in entry["splits"]),
                clean(f"{entry['first']} \u2212 {entry['second']}"),
                show.model(entry["model"]),
                twins,
                *(_percent(rate) for rate in entry["rates"]),
                _points(entry["difference"]),
                *([NO_DATA if entry["p"] is None else p_text(entry["p"])] if tested else []),
            ]
        )
    header = ["Split", "Languages", "Model", "Prompts", "First", "Second", "Difference", *(["p"] if tested else [])]
    text = [
        "Refusal rate in percent in the first and in the second language, and their difference in percentage points, "
        f"with {100 * result['level']:g} % intervals. {READINGS_NOTE}",
        "Twins: clusters with prompts in both; the difference is over them, p of a sign-flip test over them, not "
        "corrected for several tests. Unpaired: all prompts, which may differ in more than their language.",
        "Languages are those of the data set, or the script of most of a prompt's letters.",
        *notes,
    ]
    return Table("tradeoff-languages", "Languages.", header, rows, "lll" + "r" * (len(header) - 3), text, 3)


def _topics_table(
    entries: Sequence[Mapping[str, Any]],
    split: str,
    result: TradeOff,
    show: Labels,
    study: Mapping[str, Any],
    notes: Sequence[str],
) -> Table:
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
    reading = next(s["reading"] for s in study["splits"] if s["name"] == split)
    marked = any(cell.endswith((_HIGHER, _LOWER)) for row in rows for cell in row)
    text = [
        f"Refusal rate in percent ({reading}) by topic of {show.split(split)}, with {100 * result['level']:g} % "
        f"intervals; topics of at least {_LEAST_PROMPTS} prompts, by their mean rate. {READINGS_NOTE}",
        f"{_HIGHER.strip()}, {_LOWER.strip()}: refused more or less often than the other topics, by an interval of the "
        f"difference that leaves out 0. Of {len(names)} topics at most about "
        f"{(1 - result['level']) * len(names):.1g} would be by chance."
        if marked
        else "No topic is refused more or less often than the others: all intervals of the difference hold 0.",
        *notes,
    ]
    header = ["Topic", "Prompts", *(show.model(model) for model in models)]
    caption = f"Refusals by topic: {show.split(split)}."
    name = f"tradeoff-topics-{split}"
    return Table(name, caption, header, rows, "l" + "r" * (len(header) - 1), text, per_block=5)


def judge_notes(judge: str, cards: Iterable[Card], show: Labels, samples: int) -> list[str]:
    """K, the judge, and how well it agrees with people."""
    texts = agreement_texts(judge, cards, show.golds)
    about = [f"Judge {show.judge(judge)}, agreement with people on {text}." for text in texts]
    return [f"K = {samples} answers to each prompt.", *(about or [f"Judge {show.judge(judge)}, {NOT_MEASURED}."])]


def _percent(part: Mapping[str, Any] | None) -> str:
    if part is None:
        return NO_DATA
    return f"{percent(part['value'])} {interval(part['low'], part['high'])}".strip()


def _number(part: Mapping[str, Any]) -> str:
    return value_text(part["value"], (part["low"], part["high"]))


def _points(part: Mapping[str, Any]) -> str:
    """A difference of shares in percentage points."""
    ends = "" if part["low"] is None else f" [{_signed(part['low'])}, {_signed(part['high'])}]"
    return _signed(part["value"]) + ends


def _signed(share: float) -> str:
    text = f"{100 * share:+.1f}".replace("-", "\u2212")
    return "0.0" if text[1:] == "0.0" else text


def p_text(p: float) -> str:
    """Return a p-value in words, never as 0."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _on_front(entry: Mapping[str, Any]) -> tuple[str, str]:
    """Whether a model is on the front, and in what share of resamples (percent)."""
    share = entry["front_share"]
    there = NO_DATA if entry["on_front"] is None else "yes" if entry["on_front"] else "no"
    return there, NO_DATA if share is None else percent(share, 0)


def _topic(entry: Mapping[str, Any] | None) -> str:
    if entry is None:
        return NO_DATA
    gap = entry["difference"]
    sign = ""
    if gap["low"] is not None:
        sign = _HIGHER if gap["low"] > 0 else _LOWER if gap["high"] < 0 else ""
    return _percent(entry["rate"]) + sign
