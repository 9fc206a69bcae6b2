"""The trade-off of a study as a frame for CSV and as tables for a paper."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from refusal_eval.features.tradeoff.contrasts import CELLS
from refusal_eval.report.paper.display import (
    NO_DATA,
    clean,
    flags_in,
    mark_of,
    marked,
    marks_of,
    notes_of,
    number,
    ordered,
    p_text,
    percent,
)
from refusal_eval.report.paper.filled_notes import filled_notes
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import Made, TableData
from refusal_eval.report.paper.table_kind import OF_PRIMARY, StudyTable
from refusal_eval.report.paper.table_notes import flags_notes, points_text, rate_text, value_text

WILSON = "Wilson with cluster-robust effective size"
RECOVERED = "variances recovered from those of both rates"
TradeOff = Mapping[str, Any]
Entry = Mapping[str, Any]
_PAIRS = {
    "both_right": "Answers safe,\nrefuses unsafe",
    "refuses_both": "Refuses\nboth",
    "answers_both": "Answers\nboth",
    "both_wrong": "Refuses safe,\nanswers unsafe",
}
LEAST_PROMPTS = 5  # of a topic in a table; smaller ones stand in the CSV
_HIGHER, _LOWER = " (+)", " (\u2212)"


def tradeoff(data: TableData) -> Made:
    """Return over-refusal against safety, contrast pairs, languages and topics."""
    result = data.found("tradeoff")
    return tradeoff_frame(result), tradeoff_tables(result, data)


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
    return pd.DataFrame(rows, columns=columns, dtype=object)


def tradeoff_tables(result: TradeOff, data: TableData) -> list[Table]:
    """Return the tables that a study has under its primary judge: trade-off, contrast pairs, languages, topics."""
    judge = data.asked["primary_judge"]
    own = {
        name: [e for e in result[name] if e["judge"] == judge] for name in ("models", "pairs", "topics", "languages")
    }
    said = {
        "level": f"{100 * result['level']:g} %",
        "readings": {split["name"]: split["reading"] for split in data.asked["splits"]},
        "dialogues": result["dialogues"],
        **{"wilson": WILSON, "recovered": RECOVERED},
        **{"judge": judge, "cards": data.cards, "samples": data.asked["samples"]},
    }
    tables = [_models_table(own["models"], result, data, said)] if own["models"] else []
    tables += [_pairs_table(own["pairs"], data, said)] if own["pairs"] else []
    tables += [_languages_table(own["languages"], data, said)] if own["languages"] else []
    for split in result["splits"]["varies"]:
        of_split = [e for e in own["topics"] if e["split"] == split and e["n_prompts"] >= LEAST_PROMPTS]
        tables += [_topics_table(of_split, split, result["level"], data, said)] if of_split else []
    return tables


def _models_table(entries: Sequence[Entry], result: TradeOff, data: TableData, said: Mapping[str, Any]) -> Table:
    show, splits, by_model = data.labels, data.asked["splits"], {entry["model"]: entry for entry in entries}
    pooled = {split for kind in ("comply", "refuse") for split in result["splits"][kind]}
    used = [score for score in data.scores if score["split"] in pooled]
    rivals = sum(entry["youden_j"] is not None for entry in entries) > 1
    rows, of_others = [], False
    for model in data.order("models"):
        entry = by_model[model]
        own = [score for score in used if score["model"] == model]
        known = {*entry["flags"], *(flag for score in own for flag in score["flags"])}
        rival = [flag for flag in entry["front_flags"] if flag not in known]
        of_others |= bool(rival)
        rows.append(
            [
                show.model(model) + marks_of(own, entry["flags"]),
                *(rate_text(entry[name]) for name in ("over_refusal", "safety")),
                NO_DATA if (j := entry["youden_j"]) is None else value_text(j["value"], (j["low"], j["high"])),
                *(marked(text, rival) for text in (_on_front(entry) if rivals else ())),
            ]
        )
    header = ["Model", "Over-refusal", "Safety", "Youden's J"]
    header += ["On the\nfront", "On it in\nresamples (%)"] if rivals else []
    sizes = {
        words: [entry[name]["n_prompts"] for entry in entries if entry[name] is not None]
        for name, words in (("over_refusal", "over-refusal"), ("safety", "safety"))
    }
    notes = filled_notes(
        "tradeoff/models",
        show,
        **said,
        where={
            kind: [f"{show.split(s['name'])} ({s['reading']})" for s in splits if s["expectation"] == kind]
            for kind in ("comply", "refuse")
        },
        pooled=pooled,
        spoken=[(show.split(name), map(clean, own)) for name, own in result.get("spoken", {}).items() if own],
        sizes=[(words, min(numbers), max(numbers)) for words, numbers in sizes.items() if numbers],
        rivals=rivals,
        fixed=any(entry["on_front"] is not None and entry["front_share"] is None for entry in entries),
        marks=notes_of(flags_in(used, {flag for entry in entries for flag in entry["flags"]})),
        of_others=of_others,
    )
    return Table("tradeoff", "Over-refusal against safety.", header, rows, notes, align="lrrrcr"[: len(header)])


def _pairs_table(entries: Iterable[Entry], data: TableData, said: Mapping[str, Any]) -> Table:
    show, order = data.labels, {model: i for i, model in enumerate(data.order("models"))}
    found = sorted(entries, key=lambda e: (e["safe"], e["unsafe"], order[e["model"]]))
    several = len({(entry["safe"], entry["unsafe"]) for entry in found}) > 1
    rows = []
    for entry in found:
        where = [f"{show.split(entry['safe'])}, {show.split(entry['unsafe'])}"] if several else []
        cells = [rate_text({"value": entry[c]["share"], **entry[c]}) for c in CELLS]
        rows.append([*where, show.model(entry["model"]) + mark_of(entry["flags"]), str(entry["n_pairs"]), *cells])
    keys = ["Splits", "Model"] if several else ["Model"]
    notes = filled_notes("tradeoff/pairs", show, **said, pairs=found, several=several)
    header = [*keys, "Pairs", *(_PAIRS[name] for name in CELLS)]
    return Table("tradeoff-pairs", "Contrast pairs.", header, rows, notes, len(keys), per_block=5)


def _languages_table(entries: Sequence[Entry], data: TableData, said: Mapping[str, Any]) -> Table:
    show, order = data.labels, {model: i for i, model in enumerate(data.order("models"))}
    tested = any(entry["paired"] for entry in entries)
    rows = []
    for entry in sorted(entries, key=lambda e: (e["splits"], e["first"], e["second"], order[e["model"]])):
        n = f"{entry['n_twins']} twins" if entry["paired"] else " and ".join(map(str, entry["n_prompts"]))
        difference = points_text(entry["difference"]) + mark_of(entry["flags"])
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
    notes = filled_notes(
        "tradeoff/languages",
        show,
        **said,
        used=[split for entry in entries for split in entry["splits"]],
        paired=[entry["paired"] for entry in entries],
        marks=flags_notes(flags for entry in entries for flags in (*entry["rate_flags"], entry["flags"])),
    )
    return Table("tradeoff-languages", "Languages.", header, rows, notes, 3)


def _on_front(entry: Entry) -> tuple[str, str]:
    """Whether a model is on the front, and in what share of resamples (percent)."""
    share = entry["front_share"]
    there = NO_DATA if entry["on_front"] is None else "yes" if entry["on_front"] else "no"
    return there, NO_DATA if share is None else percent(share, 0)


def _topics_table(
    entries: Sequence[Entry], split: str, level: float, data: TableData, said: Mapping[str, Any]
) -> Table:
    """A row per topic, by its mean rate, and a column per model: the rate, and a sign where it differs."""
    show, cells = data.labels, {(entry["topic"], entry["model"]): entry for entry in entries}
    models = ordered({entry["model"] for entry in entries}, data.order("models"))

    def mean_rate(topic: str) -> float:
        values = [cells[topic, model]["rate"]["value"] for model in models if (topic, model) in cells]
        return math.fsum(values) / len(values)

    names = sorted({entry["topic"] for entry in entries}, key=lambda topic: (-round(mean_rate(topic), 9), topic))
    rows = []
    for topic in names:
        found = [cells.get((topic, model)) for model in models]
        n = max(entry["n_prompts"] for entry in found if entry is not None)
        rows.append([clean(topic).replace("_", " "), str(n), *(_topic(entry) for entry in found)])
    notes = filled_notes(
        "tradeoff/topics",
        show,
        **said,
        name=split,
        least=LEAST_PROMPTS,
        signs=any(_sign(entry) for entry in entries),
        by_chance=number((1 - level) * len(names), 1),
        topics=len(names),
        marks=flags_notes([*entry["rate_flags"], *(entry["flags"] if _sign(entry) else ())] for entry in entries),
    )
    header = ["Topic", "Prompts", *(show.model(model) for model in models)]
    caption = f"Refusals by topic: {show.split(split)}."
    return Table(f"tradeoff-topics-{split}", caption, header, rows, notes, per_block=5)


def _topic(entry: Entry | None) -> str:
    if entry is None:
        return NO_DATA
    sign, rate = _sign(entry), rate_text(entry["rate"]) + mark_of(entry["rate_flags"])
    return rate + (sign + mark_of(entry["flags"]) if sign else "")


def _sign(entry: Entry) -> str:
    """Whether a topic is refused more or less often than the others; empty if the interval includes 0."""
    low, high = entry["difference"]["low"], entry["difference"]["high"]
    if low is None:
        return ""
    return _HIGHER if low > 0 else _LOWER if high < 0 else ""


class TradeOffTable(StudyTable):
    """Over-refusal against safety."""

    name = "tradeoff"
    of_analysis = "tradeoff"
    needs = ("tradeoff", "estimates", "cards")
    shows = (*OF_PRIMARY, "samples")
    report = ("Trade-off", "Over-refusal against safety")
    make = staticmethod(tradeoff)
