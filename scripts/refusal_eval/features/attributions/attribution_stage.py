"""What the rules in workflow/rules/attributions.smk ask of a study."""

from pathlib import Path
from typing import Any

from refusal_eval.core.files import read_json
from refusal_eval.features.attributions.attribution_files import attributions_of
from refusal_eval.features.attributions.attribution_keys import AttributionKeys
from refusal_eval.study.batches import Cell, load_names
from refusal_eval.study.study import Study
from refusal_eval.workflow import generation

OF_ANSWERS = ("sampling", "samples", "seed")  # what these requests have not of those of answers


def request_params(study: Study, name: str) -> dict[str, Any]:
    """Return the settings that enter the requests of an attribution: those of its model's answers, and its own."""
    one = attributions_of(study)[name]
    params = generation.request_params(study, one.model, one.split)
    kept = {key: value for key, value in params.items() if key not in OF_ANSWERS}
    return kept | {"attribution": name, "unit": one.unit, **one.of_score.asked(one)}


def gold_files(study: Study, name: str) -> list[str]:
    """Return the gold whose refusals give the tokens, as a list: empty where texts are named."""
    gold = attributions_of(study)[name].gold
    return [study.paths.of("gold", gold=gold)] if gold else []


def answers(study: Study, name: str) -> list[str]:
    """Return the model's answers that the score is made of, as a list: empty for another score."""
    one = attributions_of(study)[name]
    return [study.paths.of("answers", model=one.model, split=one.split)] if one.of_score.after_answers else []


def directions(study: Study, name: str) -> list[str]:
    """Return the direction that the score projects on, as a list: empty for another score."""
    one = attributions_of(study)[name]
    return [study.paths.of("directions", direction=one.direction)] if one.direction is not None else []


def receipts(study: Study, name: str) -> list[str]:
    """Return the receipts of the batch that executes the requests of an attribution."""
    cell = Cell(f"{AttributionKeys.probe_requests}/{name}", attributions_of(study)[name].split)
    return study.paths.receipts("generate", study.batch_of[cell])


def value_params(study: Study, name: str) -> dict[str, Any]:
    """Return what decides the values besides responses."""
    one = attributions_of(study)[name]
    of_reply = {"reply": one.tokens} if one.of_score.after_answers else {}
    return {"unit": one.unit, "focus": one.focus, **of_reply}


def gradient_params(study: Study, name: str) -> dict[str, Any]:
    """Return the settings that decide what gradients are computed of."""
    one = attributions_of(study)[name]
    rendering = generation.rendering_params(study.config, study.config["model_entries"][one.model])
    asked = {"attribution": name, "unit": one.unit, **one.of_score.asked(one)}
    # The identity file of another engine may be older than the items, and keys hold what identifies it.
    return {**rendering, **asked, "engine": engine_name(study, name), "method": one.method, "steps": one.steps}


def engine_name(study: Study, name: str) -> str:
    """Return the engine of an attribution's model."""
    return study.models[attributions_of(study)[name].model].engine_name


def gradient_receipts(study: Study, name: str) -> list[str]:
    """Return the receipts of the job that computes gradients."""
    return [study.paths.of("gradients", attribution=name, load=load) for load in load_names(1)]


def gpus(study: Study, name: str, root: Path, items: str) -> int:
    """Return the GPUs that gradients take; none when the store already has them all.

    Args:
        root: the repository's folder, which holds the engine's environment.
        items: the file with what is asked.
    """
    from refusal_eval.features.attributions.gradient_run import gradient_store

    engine = study.engines[engine_name(study, name)]
    count = engine.gpus(engine.device_here(root))
    if count == 0 or not Path(items).is_file():
        return count
    file = read_json(items)
    store = gradient_store(study.paths.store, file["engine_id"])
    return count if store.missing(item["key"] for item in file["items"] if item["key"]) else 0
