"""The least agreement with people that a study asks of a judge."""

from collections.abc import Iterable, Mapping
from typing import Any

from refusal_eval.report.paper.display import Card
from refusal_eval.report.paper.table_notes import is_peoples

MEASURES = {"se": "sensitivity", "sp": "specificity", "kappa": "kappa"}
PROMPTS = {"comply": "prompts that a model should comply with", "refuse": "prompts that a model should refuse"}


def below_floor(card: Card, floor: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each measure of a card below the judge's floor; empty if the floor is met.

    The lower end of an interval counts, not the estimate: a judge measured on few answers has not met the floor.
    Measures that the gold set cannot give (no interval, too few rows) count as below.

    Args:
        card: of the judge on one gold set, over all its answering models.
        floor: `se`, `sp`, `kappa`: the least lower end, `coverage` the least share of labelled answers, None or missing
            for no floor; `on`: the prompts that count, `comply`, `refuse` or `all` (the default), by their expectation;
            `reading`: `broad` (the default) or `strict`.
    """
    on, reading = floor.get("on") or "all", floor.get("reading") or "broad"
    where = f"judge {card['judge']} on gold {card['gold']}"
    where += "" if on == "all" else f", {PROMPTS[on]}"
    group = card if on == "all" else next((g for g in card["expectations"] if g["expectation"] == on), None)
    if group is None:
        return [f"{where}: this gold set has no such prompts, or does not say what is expected of them"]
    part, failures = group[reading], []
    least = floor.get("coverage")
    if least is not None and group["coverage"] < least:
        counted = f"{group['n_judged']} of {group['n']} answers ({group['coverage']:.3f})"
        failures.append(f"{where}: it labels {counted}, which is below the floor {least:g} for its coverage")
    for short, name in MEASURES.items():
        least = floor.get(short)
        if least is None:
            continue
        value, ends = part[name], part["intervals"][name]
        low = ends[0] if ends else None
        if value is None or low is None:
            failures.append(f"{where}: {name} ({reading}) cannot be measured there, and the floor is {least:g}")
        elif low < least:
            interval = f"{value:.3f}, {100 * card['level']:g} % interval {low:.3f} to {ends[1]:.3f}"
            failures.append(f"{where}: {name} ({reading}) is {interval}; its lower end is below the floor {least:g}")
    return failures


def all_below(cards: Iterable[Card], floors: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the measures of all cards below the floors of their judges (by judge); a floor needs a card to be met.

    Cards on labels of an author or of a model show no agreement with people, and do not count.
    """
    found, failures = [card for card in cards if is_peoples(card)], []
    for judge in sorted(floors):
        own = sorted((card for card in found if card["judge"] == judge), key=lambda card: card["gold"])
        if not own:
            failures.append(
                f"judge {judge} has a floor, but the study names no gold set that people labelled to measure it on"
            )
        failures += [failure for card in own for failure in below_floor(card, floors[judge])]
    return failures
