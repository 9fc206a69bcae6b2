"""What the methods section says of an intervention."""

from collections.abc import Mapping
from typing import Any

from refusal_eval.report.methods.direction_words import direction_text
from refusal_eval.report.methods.study_sources import quoted
from refusal_eval.report.methods.words import count_text, listed

# What a mode does with a control in place of a direction, where it is not the same.
_CONTROLS = {
    "gated": "it is added to tokens that are similar to the direction that it controls",
    "pull": "it moves tokens towards a point equally far from the middle of both means, in a random direction",
    "constellation": "it moves tokens towards a point equally far from the middle of their task's two means, in a "
    "random direction",
}


def intervention_text(asked: Mapping[str, Any], card: Mapping[str, Any] | None = None) -> str:
    """Return what an intervention does, in words, and with its card also how its directions were fitted."""
    layers, tasks = asked["layers"], asked["mode"] == "constellation"
    ranked = "the directions together rank" if tasks else "the direction ranks"
    where = (
        f"the {count_text(layers['best'], 'layer')} that {ranked} first"
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
