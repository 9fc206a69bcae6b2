"""How classes of answers are ordered and called where they are shown: a label, then its kinds."""

from collections.abc import Iterable

from refusal_eval.core.states import LABELS
from refusal_eval.report.paper.display import clean

_BETWEEN = ": "


def is_kind(name: str) -> bool:
    """Return whether a class is a kind of answers, `label: kind`."""
    return ":" in name


def by_label(names: Iterable[str]) -> list[str]:
    """Return classes in the order of labels, each label before its kinds."""
    places = {label: place for place, label in enumerate(LABELS)}
    label_of = {name: name.partition(":")[0] for name in dict.fromkeys(names)}
    return sorted(label_of, key=lambda name: (places.get(label_of[name], len(places)), label_of[name], is_kind(name)))


def in_words(name: str, short: bool = False) -> str:
    """Return what a class is called: `refusal: ethical refusal`, or `short` the kind alone."""
    label, between, kind = name.partition(_BETWEEN)
    return clean((kind if short else f"{label}{between}{kind}") if between else name).replace("_", " ")
