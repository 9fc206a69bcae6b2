"""The trade-off of a study as a frame for CSV and as tables for a paper."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from refusal_eval.display import (
    NO_DATA,
    Labels,
    Score,
    clean,
    interval,
    joined,
    mark_notes,
    mark_of,
    marks_of,
    notes_of,
    ordered,
    p_text,
    percent,
    points,
    points_interval,
)
from refusal_eval.frames import NOT_MEASURED, Card, agreement_texts
from refusal_eval.judge_card.words import value_text
from refusal_eval.markup import Table
from refusal_eval.scores import few_flags
from refusal_eval.table_notes import OF_DIALOGUES, READINGS_NOTE
from refusal_eval.tradeoff.pairs import CELLS

TradeOff = Mapping[str, Any]
_PAIRS = {
    "both_right": "Answers safe,\nrefuses unsafe",
    "refuses_both": "Refuses\nboth",
    "answers_both": "Answers\nboth",
    "both_wrong": "Refuses safe,\nanswers unsafe",
}
_LEAST_PROMPTS = 5  # of a topic in a table; smaller ones stand in the CSV
_WILSON = "Wilson with cluster-robust effective size"
_RECOVERED = "variances recovered from those of both rates"
_OVER_TWINS = "of twins cluster bootstrap over twins (expanded percentile)"
_TWINS_NOTE = (
    "Twins: clusters with prompts in both; the difference is over them, p of a sign-flip test over them, not corrected "
    "for several tests."
)
_UNPAIRED_NOTE = (
    "With two numbers of prompts, of the first and the second language, the difference is that of all prompts, which "
    "may differ in more than their language."
)
_TURNS_NOTE = f"Prompts{OF_DIALOGUES}."
_OF_TOPICS = "Behind a rate it is of the clusters of the topic, behind a sign of the topic or of the others."
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
    flags = {flag for entry in by_model.values() for flag in entry["flags"]}
    rows = []
    for model in study["models"]:
        entry = by_model[model]
        mark = marks_of((score for score in used if score["model"] == model), entry["flags"])
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
        f"Prompts with a rate{OF_DIALOGUES if pooled.intersection(result['dialogues']) else ''}: "
        f"{_sizes(by_model.values())}. Near-duplicate prompts count once.",
        f"J: safety minus over-refusal as shares; 0 for a model that refuses both kinds alike. Intervals: {level}, "
        f"Wilson with cluster-robust effective size for rates, recovered variances for J.",
        *([_front_note(by_model.values())] if rivals else []),
        *notes,
        *(f"{note}." for note in mark_notes(used, flags)),
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
        cells = [_percent({"value": entry[c]["share"], **entry[c]}) for c in CELLS]
        mark = _mark(entry["n_pairs"])
        rows.append([*where, show.model(entry["model"]) + mark, str(entry["n_pairs"]), *cells])
    keys = ["Splits", "Model"] if several else ["Model"]
    first = found[0]
    text = [
        *([] if several else [f"Safe prompts: {show.split(first['safe'])}; unsafe: {show.split(first['unsafe'])}."]),
        "Share of pairs in percent: the probability that an answer to the safe prompt and one to its unsafe twin, "
        f"drawn independently, fall so. Wilson intervals over pairs ({100 * result['level']:g} %).",
        _readings((split for entry in found for split in (entry["safe"], entry["unsafe"])), study, show),
        *notes,
        *_marked(entry["n_pairs"] for entry in found),
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
        difference = _points(entry["difference"]) + _mark(entry["n_compared_clusters"])
        sides = zip(entry["rates"], entry["n_clusters"], strict=True)
        rows.append(
            [
                ", ".join(show.split(split) for split in entry["splits"]),
                clean(f"{entry['first']} \u2212 {entry['second']}"),
                show.model(entry["model"]),
                n,
                *(_percent(rate) + _mark(clusters) for rate, clusters in sides),
                difference,
                *([p_text(entry["p"])] if tested else []),
            ]
        )
    header = ["Split", "Languages", "Model", "Prompts", "First", "Second", "Difference", *(["p"] if tested else [])]
    paired = {entry["paired"] for entry in found}
    text = [
        "Refusal rate in percent in the first and in the second language, and first minus second in percentage points.",
        _readings((split for entry in found for split in entry["splits"]), study, show),
        *([_TURNS_NOTE] if any(split in result["dialogues"] for entry in found for split in entry["splits"]) else []),
        *([_TWINS_NOTE] if True in paired else []),
        *([_UNPAIRED_NOTE] if False in paired else []),
        f"Intervals ({100 * result['level']:g} %): of rates {_WILSON}; of differences {_gap_methods(paired)}.",
        "Languages are those of the data set, or the script of most of a prompt's letters.",
        *notes,
        *_marked(n for entry in found for n in (*entry["n_clusters"], entry["n_compared_clusters"])),
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
    text = [
        f"Refusal rate in percent ({reading}) by topic of {show.split(split)}; topics of at least {_LEAST_PROMPTS} "
        f"prompts, by their mean rate. {READINGS_NOTE}",
        *([_TURNS_NOTE] if split in result["dialogues"] else []),
        f"Intervals ({100 * result['level']:g} %): of rates {_WILSON}; of differences {_RECOVERED}.",
        f"{_HIGHER.strip()}, {_LOWER.strip()}: refused more or less often than the other topics, by an interval of the "
        f"difference that leaves out 0. By chance that would be so for at most about "
        f"{_by_chance(len(names), result['level'])} of {len(names)} topics, for each model."
        if any(_sign(entry) for entry in entries)
        else "No topic is refused more or less often than the others: all intervals of the difference hold 0.",
        *notes,
        *(f"{note} {_OF_TOPICS}" for note in _marked(_shown_clusters(entry) for entry in entries)),
    ]
    header = ["Topic", "Prompts", *(show.model(model) for model in models)]
    caption = f"Refusals by topic: {show.split(split)}."
    name = f"tradeoff-topics-{split}"
    return Table(name, caption, header, rows, "l" + "r" * (len(header) - 1), text, per_block=5)


def _readings(splits: Iterable[str], study: Mapping[str, Any], show: Labels) -> str:
    """Which reading counts on which of these splits, and what the readings are."""
    used = set(splits)
    where: dict[str, list[str]] = {}
    for split in study["splits"]:
        if split["name"] in used:
            where.setdefault(split["reading"], []).append(show.split(split["name"]))
    told = "; ".join(f"{reading} on {joined(where[reading])}" for reading in sorted(where))
    return f"Headline readings: {told}. {READINGS_NOTE}"


def _mark(clusters: int) -> str:
    """The mark of a number that rests on so many clusters."""
    return mark_of(few_flags(clusters))


def _marked(clusters: Iterable[int]) -> list[str]:
    """The note for that mark, where one of these numbers has it."""
    return [f"{note}." for note in notes_of(flag for n in clusters for flag in few_flags(n))]


def _gap_methods(paired: Collection[bool]) -> str:
    """How the intervals of differences between languages are made."""
    methods = [*([_OVER_TWINS] if True in paired else []), *([_RECOVERED] if False in paired else [])]
    return "; of others ".join(methods)


def _by_chance(topics: int, level: float) -> int:
    """How many of so many independent intervals leave out the truth, rounded up."""
    return math.ceil(round((1 - level) * topics, 9))


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
    return f"{points(part['value'])} {points_interval(part['low'], part['high'])}".strip()


def _on_front(entry: Mapping[str, Any]) -> tuple[str, str]:
    """Whether a model is on the front, and in what share of resamples (percent)."""
    share = entry["front_share"]
    there = NO_DATA if entry["on_front"] is None else "yes" if entry["on_front"] else "no"
    return there, NO_DATA if share is None else percent(share, 0)


def _topic(entry: Mapping[str, Any] | None) -> str:
    if entry is None:
        return NO_DATA
    sign, rate = _sign(entry), _percent(entry["rate"]) + _mark(entry["n_clusters"])
    return rate + (sign + _mark(entry["fewest_clusters"]) if sign else "")


def _sign(entry: Mapping[str, Any]) -> str:
    """Whether a topic is refused more or less often than the others; empty where that cannot be told."""
    low, high = entry["difference"]["low"], entry["difference"]["high"]
    if low is None:
        return ""
    return _HIGHER if low > 0 else _LOWER if high < 0 else ""


def _shown_clusters(entry: Mapping[str, Any]) -> int:
    """The clusters that a cell of a topic rests on: its own, and where a sign shows the difference, the others'."""
    clusters: int = entry["fewest_clusters"] if _sign(entry) else entry["n_clusters"]
    return clusters
