"""What the methods section says of prompts and positions whose activations are read."""

from collections.abc import Callable, Mapping
from typing import Any

from refusal_eval.core.side_names import groups_of
from refusal_eval.report.methods.study_sources import quoted
from refusal_eval.report.methods.words import listed

_POSITIONS = {
    "last_prompt_token": "at the last token of the prompt",
    "answer_mean": "averaged over the tokens of its own answers",
}


def side_text(side: Mapping[str, Any] | list[Mapping[str, Any]], label: Callable[[str, str], str]) -> str:
    """Return which prompts one side has; `label` is what a reader sees of an entry, by noun and name."""
    return listed([_part_text(part, label) for part in groups_of(side)])


def _part_text(side: Mapping[str, Any], label: Callable[[str, str], str]) -> str:
    parts = [f"those of {label('split', side['split'])}"]
    parts += [f"in the category {quoted(side['category'])}"] if side["category"] else []
    parts += [f"without those of {listed(label('split', name) for name in side['without'])}"] if side["without"] else []
    for bound in ("above", "below"):
        if side[bound] is not None:
            parts.append(f"with c(x) {bound} {side[bound]:g} under judge {label('judge', side['judge'])}")
    if side["within"] is not None:
        parts.append(f"with c(x) within {side['within']:g} of 0 under judge {label('judge', side['judge'])}")
    return " ".join(parts)


def position_text(positions: str) -> str:
    token = positions.removeprefix("prompt_token")
    return _POSITIONS.get(positions) or f"at token {token} of the prompt, counted from its end"
