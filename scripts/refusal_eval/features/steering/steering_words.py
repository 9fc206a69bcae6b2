"""What the methods section says of an intervention."""

from collections.abc import Mapping
from typing import Any

from refusal_eval.report.methods.side_words import position_text
from refusal_eval.report.methods.study_sources import quoted
from refusal_eval.report.methods.words import counted, listed

# How a direction was fitted, by its method, and on which activations.
FITTED = {
    "md": "the difference of means",
    "wmd": "the difference of means weighted by the size of the refusal score",
    "rmd": "the difference of means after the inverse covariance of the negative side",
    "wrmd": "the difference of means weighted by the size of the refusal score, after the inverse covariance of the "
    "negative side",
    "random": "fitted vectors, turned together into a random place, as a control",
}
# What a mode does with a control in place of a direction, where it is not the same.
_CONTROLS = {
    "gated": "it is added to tokens that are similar to the direction that it controls",
    "pull": "it moves tokens towards a point equally far from the middle of both means, in a random direction",
    "constellation": "it moves tokens towards a point equally far from the middle of their task's two means, in a "
    "random direction",
}


def direction_text(direction: Mapping[str, Any], named: bool) -> str:
    """Return how a direction of an intervention's card was fitted; with its name where there may be several."""
    n, name = direction["n"], f" {quoted(direction['direction'])}" if named else ""
    return (
        f"the direction{name} is {FITTED[direction['method']]}, in activations of {quoted(direction['model'])} "
        f"{position_text(direction['positions'])}, from {counted(n['positive'], 'positive prompt')} and "
        f"{counted(n['negative'], 'negative prompt')}, those that rank the layers included"
    )


def intervention_text(asked: Mapping[str, Any], card: Mapping[str, Any] | None = None) -> str:
    """Return what an intervention does, in words, and with its card also how its directions were fitted."""
    layers, tasks = asked["layers"], asked["mode"] == "constellation"
    ranked = "the directions together rank" if tasks else "the direction ranks"
    where = (
        f"the {counted(layers['best'], 'layer')} that {ranked} first"
        + (f" ({listed(map(str, card['layers']))}, counted from 0)" if card else "")
        if isinstance(layers, Mapping)
        else f"{'layer' if len(layers) == 1 else 'layers'} {listed(map(str, sorted(layers)))}, counted from 0"
    )
    scale = f", scale {1 if asked['scale'] is None else asked['scale']:g}"  # only `ablate` may leave it out
    gate = "" if asked["gate"] is None else f", gate {asked['gate']:g}"
    offset = "" if asked["offset"] == "none" else f", offset at the {asked['offset']} of both means"
    towards = f" towards the mean of the {asked['towards']} side" if asked["mode"] == "pull" else ""
    if tasks:
        kind = (
            f"{quoted(asked['mode'])}: each token moves towards the most similar of the means of the negative sides of "
            f"{'direction' if len(asked['direction']) == 1 else 'directions'} {listed(map(quoted, asked['direction']))}"
        )
    else:
        kind = f"{quoted(asked['mode'])}{towards} along the direction {quoted(asked['direction'])}"
    directions = card["directions"] if card else []
    is_control = asked["mode"] in _CONTROLS and any(direction["method"] == "random" for direction in directions)
    control = f"; as a control, {_CONTROLS[asked['mode']]}" if is_control else ""
    fitted = "".join(f"; {direction_text(direction, tasks)}" for direction in directions)
    return f"an intervention on the residual stream ({kind}{scale}{gate}{offset}, after {where}{control}{fitted})"


def intervention_words(value: Mapping[str, Any], manifest: Mapping[str, Any], model: str) -> str:
    """Return what the intervention of a model does, and how its directions were fitted."""
    return intervention_text(value, manifest.get("interventions", {}).get(model))
