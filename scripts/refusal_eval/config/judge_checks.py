"""What a judge needs of the study it is in, other judges and gold; and a rubric that no answer can leave."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from refusal_eval.config.shapes import KeyPath
from refusal_eval.core.hints import nearest
from refusal_eval.core.rubric import rubric_mistake

Mistake = tuple[str, KeyPath, str]  # the judge, where in its entry, what is wrong
# A number that was fitted on gold of the study would make in-sample cards that call it the judge's own.
ELSEWHERE = "a threshold that was fitted on gold which is not in this study"


def judge_mistakes(judges: Mapping[str, Any], gold: Sequence[str]) -> Iterator[Mistake]:
    """Yield what is wrong with a study's judges as they are written (valid or not).

    Args:
        judges: the entries of the study's judges, by name, with paths from the working folder.
        gold: the study's gold.
    """
    for name, entry in judges.items():
        if not isinstance(entry, Mapping):
            continue
        if entry.get("kind") == "panel":
            yield from _panel(name, entry, judges)
        if isinstance(entry.get("rubric"), str) and os.path.isfile(entry["rubric"]):
            # `form: published` does what published code does, with the prompt that goes with it.
            mistake = rubric_mistake(entry["rubric"], open_allowed=entry.get("form") == "published")
            if mistake is not None:
                yield name, ("rubric",), mistake
        if entry.get("kind") == "trained":
            yield from _trained(name, entry, gold)
        if entry.get("threshold") == "calibrated":
            yield from _calibrated(name, entry, gold)
        if entry.get("floor") is not None and not gold:
            yield name, ("floor",), "a floor needs gold to be measured on; name some in `gold` of the study"


def _panel(name: str, entry: Mapping[str, Any], judges: Mapping[str, Any]) -> Iterator[Mistake]:
    members = entry.get("members")
    for index, member in enumerate(members if isinstance(members, list) else ()):
        others = [other for other in judges if other != name]
        if member not in others:
            yield name, ("members", index), f"`{member}` is not one of the study's `judges`" + nearest(member, others)
        elif isinstance(judges[member], Mapping) and judges[member].get("kind") == "panel":
            yield name, ("members", index), f"`{member}` is a panel itself; name its members"
        elif isinstance(judges[member], Mapping) and judges[member].get("threshold") == "calibrated":
            # On gold its labels are those before calibration, so the panel's card would be that of another panel.
            message = f"`{member}` has a calibrated threshold, and the card of a panel with it would not be true"
            yield name, ("members", index), f"{message}; give it a number, {ELSEWHERE}"


def _trained(name: str, entry: Mapping[str, Any], gold: Sequence[str]) -> Iterator[Mistake]:
    wanted = entry.get("gold")
    for index, one in enumerate(wanted if isinstance(wanted, list) else ()):
        if one not in gold:
            yield name, ("gold", index), f"`{one}` is not in `gold` of the study" + nearest(one, gold)


def _calibrated(name: str, entry: Mapping[str, Any], gold: Sequence[str]) -> Iterator[Mistake]:
    chosen = entry.get("calibrated_on")
    if not gold:
        yield name, ("threshold",), "`calibrated` needs gold; name some in `gold` of the study"
    elif chosen is not None and chosen not in gold:
        yield name, ("calibrated_on",), f"`{chosen}` is not in `gold` of the study" + nearest(chosen, gold)
