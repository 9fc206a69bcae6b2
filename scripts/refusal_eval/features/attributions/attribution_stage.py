"""What the rules in workflow/rules/attributions.smk ask of a study."""

from typing import Any

from refusal_eval.features.attributions.attribution_files import attributions_of
from refusal_eval.features.attributions.attribution_keys import AttributionKeys
from refusal_eval.study.batches import Cell
from refusal_eval.study.study import Study
from refusal_eval.workflow import generation

OF_ANSWERS = ("sampling", "samples", "seed")  # what these requests have not of those of answers


def request_params(study: Study, name: str) -> dict[str, Any]:
    """Return the settings that enter the requests of an attribution: those of its model's answers, and its own."""
    one = attributions_of(study)[name]
    params = generation.request_params(study, one.model, one.split)
    kept = {key: value for key, value in params.items() if key not in OF_ANSWERS}
    return kept | {"attribution": name, "unit": one.unit, "refusal": one.model_dump(mode="json")["refusal"]}


def gold_files(study: Study, name: str) -> list[str]:
    """Return the gold whose refusals give the tokens, as a list: empty where texts are named."""
    gold = attributions_of(study)[name].gold
    return [study.paths.of("gold", gold=gold)] if gold else []


def receipts(study: Study, name: str) -> list[str]:
    """Return the receipts of the batch that executes the requests of an attribution."""
    cell = Cell(f"{AttributionKeys.probe_requests}/{name}", attributions_of(study)[name].split)
    return study.paths.receipts("generate", study.batch_of[cell])


def value_params(study: Study, name: str) -> dict[str, Any]:
    """Return what decides the values besides responses."""
    one = attributions_of(study)[name]
    return {"unit": one.unit, "focus": one.focus}
