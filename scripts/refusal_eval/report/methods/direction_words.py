"""What the methods section says of a direction: how it was fitted, where, and on which prompts."""

from collections.abc import Callable, Mapping
from typing import Any

from refusal_eval.report.methods.study_sources import quoted
from refusal_eval.report.methods.words import count_text, listed

# How a direction was fitted, by its method, and on which activations.
FITTED = {
    "md": "the difference of means",
    "wmd": "the difference of means weighted by the size of the refusal score",
    "rmd": "the difference of means after the inverse covariance of the negative side",
    "wrmd": "the difference of means weighted by the size of the refusal score, after the inverse covariance of the "
    "negative side",
    "random": "fitted vectors, turned together into a random place, as a control",
}
_POSITIONS = {
    "last_prompt_token": "at the last token of the prompt",
    "answer_mean": "averaged over the tokens of its own answers",
}


def direction_text(direction: Mapping[str, Any], named: bool) -> str:
    """Return how a direction of an intervention's card was fitted; with its name where there may be several."""
    n, name = direction["n"], f" {quoted(direction['direction'])}" if named else ""
    return (
        f"the direction{name} is {FITTED[direction['method']]}, in activations of {quoted(direction['model'])} "
        f"{position_text(direction['positions'])}, from {count_text(n['positive'], 'positive prompt')} and "
        f"{count_text(n['negative'], 'negative prompt')}, those that rank the layers included"
    )


def side_text(side: Mapping[str, Any], label: Callable[[str, str], str]) -> str:
    """Return which prompts one side of a direction has; `label` is what a reader sees of an entry, by noun and name."""
    parts = [f"those of {label('split', side['split'])}"]
    parts += [f"in the category {quoted(side['category'])}"] if side["category"] else []
    parts += [f"without those of {listed(label('split', name) for name in side['without'])}"] if side["without"] else []
    for bound in ("above", "below"):
        if side[bound] is not None:
            parts.append(f"with c(x) {bound} {side[bound]:g} under judge {label('judge', side['judge'])}")
    return " ".join(parts)


def position_text(positions: str) -> str:
    token = positions.removeprefix("prompt_token")
    return _POSITIONS.get(positions) or f"at token {token} of the prompt, counted from its end"
