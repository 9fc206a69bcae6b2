"""What is wrong with the attributions of a study, by the study around them."""

from collections.abc import Iterator
from typing import Any

from refusal_eval.config.capture_mistakes import CAPTURED, KERNELS
from refusal_eval.config.checked_study import CheckedStudy
from refusal_eval.config.engine_entry import Engine
from refusal_eval.config.kinds import CHANGES
from refusal_eval.config.problems import Mistake, one_of
from refusal_eval.config.protocol import DEFAULT
from refusal_eval.core.hints import nearest
from refusal_eval.features.attributions.attribution_keys import Attribution
from refusal_eval.judges.structured import kinds_that
from refusal_eval.weights.known_layers import known_layers

DIRECTIONS = "directions"  # list of a study
# What makes the first token of a reply another one, changes the prompt, or leaves no engine to ask.
NOT_WITH = ("prefill", "reasoning", "recorded")


def attribution_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield names that are not the study's, and models and splits whose words cannot be left out."""
    for name, one in study.valid_items("attributions", Attribution).items():
        here = ("attributions", name)
        for key, value in (("model", one.model), ("split", one.split), ("gold", one.gold)):
            section = {"model": "models", "split": "splits", "gold": "gold"}[key]
            if value is not None and value not in study.names(section) and (study.all_known(section) or key == "gold"):
                place = ("refusal", "gold") if key == "gold" else (key,)
                known = study.names(section)
                yield (*here, *place), f"`{value}` is not one of `{section}` of the study{nearest(value, known)}"
        yield from (((*here, key), message) for key, message in _wrong_with_direction(study, one))
        if study.settings.protocol != DEFAULT:
            message = (
                f"prompts are asked as templates render them, and not as `protocol: {study.settings.protocol}` does"
            )
            yield here, f"{message}; leave one of them out"
        if (model := study.models.get(one.model)) is not None:
            yield from (((*here, "model"), message) for message in _wrong_with_model(study, one, model))
        if (split := study.splits.get(one.split)) is not None:
            yield from (((*here, *path), message) for path, message in _wrong_with_split(one, split))
        if one.refused and one.model in study.models and one.model not in study.view.read_by(study.view.primary_judge):
            judge = study.view.primary_judge
            yield (*here, "refused"), f"the primary judge `{judge}` does not read the answers of `{one.model}`"


def _wrong_with_model(study: CheckedStudy, one: Attribution, model: Any) -> Iterator[str]:
    for key in (*NOT_WITH, *CHANGES.names()):
        if getattr(model, key, None) is not None:
            yield f"`{one.model}` has `{key}`, which attributions do not support; name a model without"
    engine = study.engine_of(model)
    if engine is not None and one.in_program:
        yield from _without_weights(model.engine, engine, one)
    elif engine is not None and one.of_score.engine_needs and one.of_score.engine_needs not in engine.able():
        message = f"engine `{model.engine}` (kind {engine.kind}) does not give {one.of_score.engine_lacks}"
        yield f"{message}; name a model of an engine that does, of kind {one_of(kinds_that(one.of_score.engine_needs))}"


def _wrong_with_direction(study: CheckedStudy, one: Attribution) -> Iterator[tuple[str, str]]:
    """Yield what keeps an attribution from the direction that it names, with the key."""
    if one.direction is None or one.layer is None:
        return
    if one.direction not in (known := study.names(DIRECTIONS)):
        hint = nearest(one.direction, known)
        yield "direction", f"`{one.direction}` is not one of `{DIRECTIONS}` of the study{hint}"
        return
    entry = study.catalogue.valid[DIRECTIONS].get(one.direction)
    if entry is None:
        return
    if entry.layers is not None and one.layer not in entry.layers:
        layers = ", ".join(map(str, entry.layers))
        yield "layer", f"direction `{one.direction}` has no vector of layer {one.layer}; its `layers` are {layers}"
    own, other = study.models.get(one.model), study.catalogue.valid["models"].get(entry.model)
    if own is None or other is None:
        return
    if own.engine != other.engine or any(getattr(other, key, None) is not None for key in CHANGES.names()):
        message = f"`{one.direction}` is fitted on activations of `{entry.model}`, which has other weights than"
        yield "direction", f"{message} `{one.model}`; name one of a model without changes on the same engine"
    engine = study.engine_of(own)
    count = known_layers(engine, study.settings.cache_dir) if engine is not None else None
    if count is not None and one.layer >= count:
        yield "layer", f"the model has {count} layers, counted from 0: the last one is {count - 1}"


def _without_weights(name: str, engine: Engine, one: Attribution) -> Iterator[str]:
    """Yield why gradients, or activations, cannot be computed with the weights of an engine."""
    what, leave = "gradients", "; name a model of an engine that has, or `method: leave_one_out`"
    tried = "; take `method: leave_one_out`"
    if one.of_score.in_program:
        what, leave, tried = "projections", "; name a model of an engine that has", ""
    if getattr(engine, "weights", None) is None or engine.device_here() is None:
        yield f"engine `{name}` (kind {engine.kind}) has no weights here, and {what} are computed with them{leave}"
        return
    if "writes_text" not in engine.able():
        yield f"engine `{name}` (kind {engine.kind}) writes no text"
    identity = engine.identity({})
    kernels_only = set(identity.get("args", ())) <= KERNELS
    more = sorted(set(identity) - CAPTURED - {"kind"} - ({"args"} if kernels_only else set()))
    if more:
        named = " and ".join(f"`{key}`" for key in more)
        yield f"engine `{name}` sets {named}, with which {what} were never tried{tried}"
    if engine.nodes_used() > 1:
        yield f"engine `{name}` takes {engine.nodes_used()} machines, and {what} are computed on one"


def _wrong_with_split(one: Attribution, split: Any) -> Iterator[tuple[tuple[str, ...], str]]:
    if split.dialogue:
        yield ("split",), f"`{one.split}` has dialogues, which attributions do not support; name another split"
    kept = split.columns.keep or []
    if one.focus is not None and one.focus not in kept:
        hint = nearest(one.focus, kept) if kept else ""
        message = f"split `{one.split}` keeps no column `{one.focus}` (`columns.keep`){hint}"
        yield ("focus",), f"{message}; name the column with the words to be found, or `focus: null` for none"
