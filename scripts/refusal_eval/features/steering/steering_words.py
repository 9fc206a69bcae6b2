"""What the methods section says of an intervention."""

from collections.abc import Mapping
from typing import Any

from refusal_eval.features.steering.intervention_entry import BestLayers, Intervention
from refusal_eval.report.methods.side_words import position_text
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


def direction_text(direction: Mapping[str, Any], named: bool) -> str:
    """Return how a direction of an intervention's card was fitted; with its name where there may be several."""
    n, name = direction["n"], f" {quoted(direction['direction'])}" if named else ""
    return (
        f"the direction{name} is {FITTED[direction['method']]}, in activations of {quoted(direction['model'])} "
        f"{position_text(direction['positions'])}, from {count_text(n['positive'], 'positive prompt')} and "
        f"{count_text(n['negative'], 'negative prompt')}, those that rank the layers included"
    )


def intervention_text(asked: Intervention, card: Mapping[str, Any] | None = None) -> str:
    """Return what an intervention does, in words, and with its card also how its directions were fitted."""
    layers, several = asked.layers, isinstance(asked.direction, list)
    ranked = "the directions together rank" if several else "the direction ranks"
    where = (
        f"the {count_text(layers.best, 'layer')} that {ranked} first{_ranked_how(layers)}"
        + (f" ({listed(map(str, card['layers']))}, counted from 0)" if card else "")
        if isinstance(layers, BestLayers)
        else f"{'layer' if len(layers) == 1 else 'layers'} {listed(map(str, sorted(layers)))}, counted from 0"
    )
    unit = "alpha {:g}, in units of ratios of quantiles of held-out prompts" if asked.in_alpha else "scale {:g}"
    scale = unit.format(asked.factor)
    parts = [asked.way, scale, *([asked.own_words] if asked.own_words else []), f"after {where}"]
    directions = card["directions"] if card else []
    is_control = any(direction["method"] == "random" for direction in directions)
    control = f"; as a control, {asked.control}" if is_control and asked.control else ""
    fitted = "".join(f"; {direction_text(direction, several)}" for direction in directions)
    return f"an intervention on the residual stream ({', '.join(parts)}{control}{fitted})"


def _ranked_how(layers: BestLayers) -> str:
    """Return by what layers are ranked where it is not the area, and which are left out."""
    how = " by correlation with c(x) minus RMSE" if layers.by == "correlation" else ""
    return how + (f", without the deepest {100 * layers.drop_deepest:g} %," if layers.drop_deepest else "")


def intervention_words(value: Mapping[str, Any], manifest: Mapping[str, Any], model: str) -> str:
    """Return what the intervention of a model does, and how its directions were fitted."""
    return intervention_text(Intervention.of_plain(value), manifest.get("interventions", {}).get(model))
