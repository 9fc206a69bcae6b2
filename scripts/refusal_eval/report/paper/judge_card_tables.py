"""The table of a study's judge cards, as a frame for CSV and as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from refusal_eval.report.paper.display import Labels, clean, ordered
from refusal_eval.report.paper.judge_card_words import published_texts, share_text, value_text, weights_text
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_notes import (
    READINGS_NOTE,
    cards_intervals_text,
    gold_notes,
    labels_notes,
    unshown_kappa,
)
from refusal_eval.stats.estimates.estimands import READINGS

Card = Mapping[str, Any]
MEASURES = ("accuracy", "sensitivity", "specificity", "balanced_accuracy", "f1", "kappa")
_SHARES = ("sensitivity", "specificity", "balanced_accuracy", "f1")


def cards_frame(cards: Iterable[Card]) -> pd.DataFrame:
    """One row per judge, gold set, group of answers, reading (or three_class) and measure, with its interval and n.

    A group is named by `expectation` and `answering_model`, empty for all. ECE and Brier score stand under the reading
    `broad`, coverage under no reading.
    """
    rows: list[dict[str, Any]] = []

    def add(names: Mapping[str, Any], reading: str | None, measure: str, value: Any, ends: Any, n: int) -> None:
        low, high = ends or (None, None)
        rows.append({**names, "reading": reading, "measure": measure, "value": value, "low": low, "high": high, "n": n})

    for card in sorted(cards, key=lambda card: (card["judge"], card["gold"])):
        for group in _groups(card):
            names = {"judge": card["judge"], "gold": card["gold"], "labels_from": card.get("labels_from")}
            names |= {name: group.get(name) for name in ("expectation", "answering_model")}
            add(names, None, "coverage", group["coverage"], group["coverage_interval"], group["n"])
            for reading in READINGS:
                part = group[reading]
                counts = {"sensitivity": part["n_positive"], "specificity": part["n_negative"]}
                for name in MEASURES:
                    add(names, reading, name, part[name], part["intervals"][name], counts.get(name, group["n_judged"]))
            three = group["three_class"]
            add(names, "three_class", "kappa", three["kappa"], three["interval"], group["n_judged"])
            soft: Any = group.get("soft")
            for name in ("ece", "brier") if soft is not None else ():
                add(names, "broad", name, soft[name], soft[f"{name}_interval"], soft["n"])
    columns = ["judge", "gold", "labels_from", "expectation", "answering_model", "reading", "measure"]
    return pd.DataFrame(rows, columns=[*columns, "value", "low", "high", "n"], dtype=object)


def cards_table(cards: Iterable[Card], judges: Sequence[str] = (), labels: Labels | None = None) -> Table:
    """Broad reading: a row per judge and gold set for all answers, then one per answering model, the worst first."""
    show, found = labels or Labels(), list(cards)
    rows = []
    for judge in ordered((card["judge"] for card in found), judges):
        for card in sorted((c for c in found if c["judge"] == judge), key=lambda c: str(c["gold"])):
            names = [show.judge(judge), show.gold(card["gold"])]
            rows.append([*names, "all", *_numbers(card)])
            worst = (card["headline"]["broad"] or {}).get("answering_model")
            groups = sorted(card["models"], key=lambda g: (g["answering_model"] != worst, g["answering_model"]))
            for group in groups:
                mark = " (worst)" if group["answering_model"] == worst else ""
                rows.append([*names, clean(group["answering_model"]) + mark, *_numbers(group)])
    header = ["Judge", "Gold", "Answering model", "Judged", "Sensitivity", "Specificity", "Balanced\naccuracy", "F1"]
    header.append("Kappa")
    some_worst = any(card["models"] and card["headline"]["broad"] for card in found)
    notes = [
        f"Against labels of people, broad reading{cards_intervals_text(found)}; in percent but for kappa. "
        f"{READINGS_NOTE}",
        *gold_notes(found, show),
        "Sensitivity: share of people's refusals that the judge finds; specificity: share of the rest it leaves alone.",
        f"Worst: {found[0]['headline']['rule']}." if some_worst else "",
        f"Kappa: Cohen's{unshown_kappa(row[-1] for row in rows)}.",
        *_cut(found, show),
        *labels_notes(found, show),
        *_weighted(found, show),
        *_published(found, show),
    ]
    return Table(
        name="judge-cards",
        caption="Judges measured on people's labels.",
        header=header,
        rows=rows,
        align="lllrrrrrr",
        notes=[note for note in notes if note],
        keys=3,
        per_block=3,
    )


def _groups(card: Card) -> Iterator[Mapping[str, Any]]:
    yield card
    for by in ("models", "expectations", "strata"):
        yield from card[by]


def _numbers(group: Mapping[str, Any]) -> list[str]:
    judged = str(group["n"]) if group["n_judged"] == group["n"] else f"{group['n_judged']} of {group['n']}"
    part = group["broad"]
    shares = [share_text(part[name], part["intervals"][name]) for name in _SHARES]
    return [judged, *shares, value_text(part["kappa"], part["intervals"]["kappa"])]


def _cut(cards: Sequence[Card], show: Labels) -> list[str]:
    return [
        f"Too long for judge {show.judge(card['judge'])}, which saw head and tail: {card['n_cut']} of {card['n']} "
        f"answers of {show.gold(card['gold'])}."
        for card in cards
        if card["n_cut"]
    ]


def _weighted(cards: Sequence[Card], show: Labels) -> list[str]:
    texts = {show.gold(card["gold"]): weights_text(card) for card in sorted(cards, key=lambda card: str(card["gold"]))}
    return [f"{gold}: {text}" for gold, text in texts.items() if text]


def _published(cards: Sequence[Card], show: Labels) -> list[str]:
    notes: dict[str, None] = {}
    for card in sorted(cards, key=lambda card: str(card["gold"])):
        for text in published_texts(card):
            notes[f"Known of {show.gold(card['gold'])}: {text}."] = None
    return list(notes)
