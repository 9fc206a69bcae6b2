"""The table of a split's topics: how often each model refuses each of them, and which it refuses more than the rest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.report.paper.display import NO_DATA, Labels, clean, mark_of, ordered
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_notes import READINGS_NOTE
from refusal_eval.report.paper.tradeoff_words import RECOVERED, TURNS_NOTE, WILSON, flags_notes, rate_text

LEAST_PROMPTS = 5  # of a topic in a table; smaller ones stand in the CSV
_OF_TOPICS = "Behind a rate a mark is of the prompts of the topic, behind a sign of the topic or of the others."
_HIGHER, _LOWER = " (+)", " (\u2212)"


def topics_table(
    entries: Sequence[Mapping[str, Any]],
    split: str,
    result: Mapping[str, Any],
    show: Labels,
    study: Mapping[str, Any],
    notes: Sequence[str],
) -> Table:
    """Return a row per topic, by its mean rate, and a column per model: the rate, and a sign where it differs.

    Args:
        entries: of `contrasts.topics`, with `model`.
        split: theirs.
        result: of `study.study_trade_off`.
        show: labels.
        study: as for `tables.tradeoff_tables`.
        notes: on the judge.
    """
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
        f"Intervals ({100 * result['level']:g} %): of rates {WILSON}; of differences {RECOVERED}.",
        f"{_HIGHER.strip()}, {_LOWER.strip()}: refused more or less often than the other topics, by an interval of the "
        f"difference that leaves out 0. By chance that would be so for at most about "
        f"{_by_chance(len(names), result['level'])} of {len(names)} topics, for each model."
        if any(_sign(entry) for entry in entries)
        else "No topic is refused more or less often than the others: all intervals of the difference hold 0.",
        *notes,
        *([*marks[:-1], f"{marks[-1]} {_OF_TOPICS}"] if marks else []),
    ]
    header = ["Topic", "Prompts", *(show.model(model) for model in models)]
    caption = f"Refusals by topic: {show.split(split)}."
    name = f"tradeoff-topics-{split}"
    return Table(name, caption, header, rows, "l" + "r" * (len(header) - 1), text, per_block=5)


def _topic(entry: Mapping[str, Any] | None) -> str:
    if entry is None:
        return NO_DATA
    sign, rate = _sign(entry), rate_text(entry["rate"]) + mark_of(entry["rate_flags"])
    return rate + (sign + mark_of(entry["flags"]) if sign else "")


def _sign(entry: Mapping[str, Any]) -> str:
    """Whether a topic is refused more or less often than the others; empty where that cannot be told."""
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
