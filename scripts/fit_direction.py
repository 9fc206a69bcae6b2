"""Fit one direction on stored activations, and write it with its card."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from refusal_eval.activations.groups import refuse_not_finite
from refusal_eval.activations.model_facts import checked_layers
from refusal_eval.activations.sides import (
    SIDES,
    SidePart,
    SidePrompts,
    both_sides,
    read_parts,
    refuse_shared,
    side_prompts,
)
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import write_json
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.core.side_names import SideFiles
from refusal_eval.features.steering.direction_card import as_written, behind_it
from refusal_eval.features.steering.direction_files import kept_or_fitted, write_direction
from refusal_eval.features.steering.directions import (
    RIDGE,
    WEIGHTED,
    FitMethod,
    FittedVectors,
    control_of,
    fit,
    made_from,
)
from refusal_eval.features.steering.few_prompts import fitted_groups, refuse_few, support
from refusal_eval.features.steering.held_out import held_out_of, split_held
from refusal_eval.features.steering.projections import carried_over, measured
from refusal_eval.stats.estimates.units import confidence_by_prompt


def main(
    entry: Mapping[str, Any],
    name: str,
    files: SideFiles,
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
    parts = read_parts(entry, files, confidence_by_prompt)
    said = parts["positive"][0].states.metadata
    layers = checked_layers(entry["layers"], said["model_layers"], entry["model"])
    ridge, control = entry["ridge"], entry["method"] == "random"
    method = FitMethod(entry["of"] if control else entry["method"], ridge["value"], ridge["relative"])
    positive, negative = both_sides(parts, layers, method.name in WEIGHTED)
    sides = {"positive": positive, "negative": negative} | neutral_side(parts, layers, (positive, negative))
    how = {"method": method.name, "layers": layers, "hold_out": entry["hold_out"], "seed": entry["seed"]}
    how |= {"ridge": ridge} if method.name in RIDGE else {}
    made = made_from({side: sides[side].facts for side in SIDES}, **how, **parts_of_clusters(positive, negative))
    groups = positive.group, negative.group, layers
    fitting = fitted_groups(positive.group, negative.group, entry["hold_out"], entry["seed"])
    refuse_few(method, fitting[1], entry.get("allow_few", False))
    held = held_out_of(positive.group, negative.group, entry["hold_out"], entry["seed"])
    fitted = kept_or_fitted(store_dir, made, lambda: fit(*groups, method, entry["hold_out"], entry["seed"]))
    with_neutral = fitted
    if "neutral" in sides:
        with_neutral = kept_with_neutral(store_dir, made, fitted, sides, held, layers)
    if control:
        direction = fitted
        fitted = kept_or_fitted(
            store_dir,
            made_from({}, control_of=made, draw=entry["draw"]),
            lambda: control_of(direction, *groups, entry["hold_out"], entry["seed"], made, entry["draw"]),
        )
        fitted = carried_over(with_neutral, fitted) if "neutral" in sides else fitted
    else:
        fitted = with_neutral
    vectors = fitted.direction if fitted.controlled is None else fitted.controlled
    behind = support(*fitting, layers, method, vectors)
    write_direction(output, fitted.tensors(), about(name, entry, said, layers, fitted, sides))
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
    shown = {key: entry[key] for key in ("model", "method", "positions", "hold_out", "seed")}
    shown |= {"of": entry["of"], "draw": entry["draw"]} if control else {}
    shown |= {side: as_written(entry[side]) for side in sides}
    without = {"n_left_out": {side: sides[side].left_out for side in sides}}
    card = {"direction": name, **shown, **without, **behind, **fitted.card, "ranking": fitted.ranking}
    write_json(card_path, card | behind_it(sides, held))


def neutral_side(
    parts: Mapping[str, Sequence[SidePart]], layers: Sequence[int], others: Sequence[SidePrompts]
) -> dict[str, SidePrompts]:
    """Return the neutral prompts under their key; nothing for a direction without any.

    Raises:
        UserError: if there is none among its groups, or one is on a side as well.
    """
    if "neutral" not in parts:
        return {}
    found = side_prompts("neutral", parts["neutral"], layers, weighted=False, least=1)
    for place, layer in enumerate(layers):
        refuse_not_finite(layer, found.group.states[:, place])
    for side in others:
        refuse_shared(found, side, "the neutral prompts and a side")
    return {"neutral": found}


def parts_of_clusters(*sides: SidePrompts) -> dict[str, Any]:
    """Return which part of its side each prompt is in, where one has several: it decides what is held out."""
    return {"parts": [list(side.group.parts) for side in sides]} if any(side.group.parts for side in sides) else {}


def kept_with_neutral(
    store_dir: str,
    made: str,
    fitted: FittedVectors,
    sides: Mapping[str, SidePrompts],
    held: set[str],
    layers: Sequence[int],
) -> FittedVectors:
    """Return a direction with what its neutral and its held-out prompts say, from the store if it is there.

    Args:
        made: what the direction is made from (`made_from`); its own file does not change.
        held: the clusters that are held out.
    """
    groups = split_held(sides["positive"].group, sides["negative"].group, held)[1]
    scores = [
        score
        for side in SIDES
        for score, cluster in zip(sides[side].scores, sides[side].group.clusters, strict=True)
        if cluster in held
    ]
    return kept_or_fitted(
        store_dir,
        made_from({"neutral": sides["neutral"].facts}, measured_of=made, scores=scores),
        lambda: measured(fitted, groups, np.array(scores, dtype=np.float64), sides["neutral"].group, layers),
    )


def about(
    name: str,
    entry: Mapping[str, Any],
    said: Mapping[str, Any],
    layers: Sequence[int],
    fitted: FittedVectors,
    sides: Mapping[str, SidePrompts],
) -> dict[str, Any]:
    """Return what the file of a direction says of it."""
    more: dict[str, Any] = {}
    if "correlation_ranking" in fitted.card:
        more["correlation_ranking"] = fitted.card["correlation_ranking"]
        more["scales"] = [[layer["scale_positive"], layer["scale_negative"]] for layer in fitted.card["layers"]]
    return more | {
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
        "ranking": list(fitted.ranking),
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
