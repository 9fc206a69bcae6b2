"""Fit one direction on stored activations, and write it with its card."""

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.activations.model_facts import checked_layers
from refusal_eval.activations.sides import SIDES, SidePrompts, both_sides
from refusal_eval.activations.tensor_files import read_states
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import write_json
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.features.steering.direction_files import kept_or_fitted, write_direction
from refusal_eval.features.steering.directions import RIDGE, WEIGHTED, FitMethod, control_of, fit, made_from
from refusal_eval.features.steering.few_prompts import fitted_groups, refuse_few, support
from refusal_eval.stats.estimates.units import confidence_by_prompt


def main(
    entry: Mapping[str, Any],
    name: str,
    files: Mapping[str, Mapping[str, str]],
    store_dir: str,
    output: str,
    card_path: str,
) -> None:
    """Write a direction and its card.

    Args:
        entry: the direction's entry, with the `sources` of its sides.
        files: of each side the paths of `prompts`, `activations` and, with a judge, `scores`.

    Raises:
        UserError: if a side has too few prompts for the method, or both have some in common.
    """
    states = {side: read_states(files[side]["activations"]) for side in SIDES}
    said = states["positive"].metadata
    layers = checked_layers(entry["layers"], said["model_layers"], entry["model"])
    ridge, control = entry["ridge"], entry["method"] == "random"
    method = FitMethod(entry["of"] if control else entry["method"], ridge["value"], ridge["relative"])
    scores = {side: confidence_by_prompt(files[side]["scores"]) for side in SIDES if "scores" in files[side]}
    positive, negative = both_sides(entry, files, states, layers, scores, method.name in WEIGHTED)
    sides = dict(zip(SIDES, (positive, negative), strict=True))
    how = {"method": method.name, "layers": layers, "hold_out": entry["hold_out"], "seed": entry["seed"]}
    how |= {"ridge": ridge} if method.name in RIDGE else {}
    made = made_from({side: sides[side].facts for side in SIDES}, **how)
    groups = positive.group, negative.group, layers
    fitting = fitted_groups(positive.group, negative.group, entry["hold_out"], entry["seed"])
    refuse_few(method, fitting[1], entry.get("allow_few", False))
    fitted = kept_or_fitted(store_dir, made, lambda: fit(*groups, method, entry["hold_out"], entry["seed"]))
    if control:
        direction = fitted
        fitted = kept_or_fitted(
            store_dir,
            made_from({}, control_of=made, draw=entry["draw"]),
            lambda: control_of(direction, *groups, entry["hold_out"], entry["seed"], made, entry["draw"]),
        )
    vectors = fitted.direction if fitted.controlled is None else fitted.controlled
    behind = support(*fitting, layers, method, vectors)
    write_direction(output, fitted.tensors(), about(name, entry, said, layers, fitted.ranking, sides))
    best = {layer["layer"]: layer for layer in fitted.card["layers"]}[fitted.ranking[0]]
    LOG.info("%d positive and %d negative prompts", *(fitted.card["n"][side] for side in SIDES))
    LOG.info("best layer %d, held-out AUC %.3f", best["layer"], best["held_out_auc"])
    for sentence in behind["few"]:
        LOG.warning("direction %s: %s", name, sentence)
    if (ties := fitted.card["best_auc_layers"]) > 1:
        LOG.warning(
            "%d layers have the highest held-out AUC, and %d + %d held-out prompts do not tell them apart: they are "
            "ranked by Cohen's d. More prompts, or a larger `hold_out`, rank them better",
            ties,
            *(fitted.card["n_held_out"][side] for side in SIDES),
        )
    named = {side: {key: value for key, value in entry[side].items() if value is not None} for side in SIDES}
    shown = {key: entry[key] for key in ("model", "method", "positions", "hold_out", "seed")}
    shown |= {"of": entry["of"], "draw": entry["draw"]} if control else {}
    without = {"n_left_out": {side: sides[side].left_out for side in SIDES}}
    card = {"direction": name, **shown, **named, **without, **behind, **fitted.card, "ranking": fitted.ranking}
    write_json(card_path, card)


def about(
    name: str,
    entry: Mapping[str, Any],
    said: Mapping[str, Any],
    layers: Sequence[int],
    ranking: Sequence[int],
    sides: Mapping[str, SidePrompts],
) -> dict[str, Any]:
    """Return what the file of a direction says of it."""
    return {
        "version": 1,
        "direction": name,
        "method": entry["method"],
        "layers": list(layers),
        "width": said["width"],
        "model_layers": said["model_layers"],
        "architecture": said["architecture"],
        "model": entry["model"],
        "positions": entry["positions"],
        "dtype": said["dtype"],
        "ranking": list(ranking),
        "prompts": sorted({content for side in sides.values() for content in side.asked}),
    }


def explained(error: UserError, name: str) -> UserError:
    """Return the error with the direction's name."""
    return UserError(f"direction {name}: {error}")


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    how, direction, store = snakemake.params, snakemake.wildcards.direction, snakemake.config["store_dir"]
    try:
        main(how.direction, direction, how.files, store, *map(str, snakemake.output))
    except UserError as error:
        raise explained(error, direction) from error
