"""Numbers of judge cards in words, for tables and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.report.paper.display import NO_DATA, clean, interval, number, percent
from refusal_eval.stats.estimates.estimands import READINGS


def value_text(value: float | None, ends: Sequence[float | None] | None) -> str:
    """A value and its interval, such as 0.89 [0.85, 0.92]; a dash for None."""
    if value is None:
        return NO_DATA
    known = [end for end in ends or () if end is not None]
    return short(value) + (f" [{short(known[0])}, {short(known[1])}]" if len(known) == 2 else "")


def share_text(value: float | None, ends: Sequence[float | None] | None) -> str:
    """A share in percent and its interval, as all tables have them; a dash for None."""
    low, high = ends or (None, None)
    return NO_DATA if value is None else f"{percent(value)} {interval(low, high)}".strip()


def short(value: float) -> str:
    """Two decimals, as all tables write numbers that may be negative."""
    return number(value)


def published_texts(card: Mapping[str, Any]) -> list[str]:
    """What others published on a card's gold set: the kappa among people, then kappa and F1 of each anchor."""
    people, texts = card["people"], []
    human = people["human_kappa"] or {}
    kappas = [
        f"{short(human[name])} {name.replace('_', ' ')}" for name in (*READINGS, "three_class") if human.get(name)
    ]
    if kappas:
        source = f" ({clean(str(human['source']))})" if human.get("source") else ""
        texts.append(f"{statistic(human)} among people {', '.join(kappas)}{source}")
    for anchor in people["anchors"]:
        reading = anchor.get("reading") or "broad"
        source = f" ({clean(str(anchor['source']))})" if anchor.get("source") else ""
        numbers = [f"kappa {short(anchor['kappa'])}"] if anchor.get("kappa") is not None else []
        numbers += [f"F1 {percent(anchor['f1'])} %"] if anchor.get("f1") is not None else []
        texts.append(f"{clean(anchor['name'])}: {', '.join(numbers)} {reading.replace('_', ' ')}{source}")
    return texts


def statistic(human_kappa: Mapping[str, Any]) -> str:
    """What the published agreement among people is, such as "Fleiss' kappa"; "kappa" where nobody said which."""
    return clean(str(human_kappa.get("statistic") or "kappa"))


def weights_text(card: Mapping[str, Any]) -> str:
    """What weights do to a card, in a sentence; empty for a card without weights."""
    if not card.get("weighted"):
        return ""
    return (
        f"Rows count by their weights (1 / probability of being labelled); the {card['n_judged']} judged ones tell as "
        f"much as {card['weighted']['n_effective']:.0f} rows of equal weight."
    )
