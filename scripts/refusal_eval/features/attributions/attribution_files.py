"""The files of attributions: what is asked, and the values of the words."""

from refusal_eval.features.attributions.attribution_keys import Attribution, AttributionKeys
from refusal_eval.study.batches import load_names
from refusal_eval.study.files import File, Names, with_endings
from refusal_eval.study.study import Study


def attributions_of(study: Study) -> dict[str, Attribution]:
    """Return the attributions of a study, by name."""
    return AttributionKeys.of(study.settings).attributions


def asking(study: Study) -> list[str]:
    """Return the attributions for which the engine is asked for scores of prompts."""
    return [name for name, one in attributions_of(study).items() if not one.in_program]


def computing(study: Study) -> list[str]:
    """Return the attributions that a program computes: those of gradients, and of activations."""
    return [name for name, one in attributions_of(study).items() if one.in_program]


def _names(study: Study) -> list[Names]:
    return [(name,) for name in attributions_of(study)]


def _asking(study: Study) -> list[Names]:
    return [(name,) for name in asking(study)]


def _computing(study: Study) -> list[Names]:
    return [(name,) for name in computing(study)]


def _loads(study: Study) -> list[Names]:
    return [(name, load) for name in computing(study) for load in load_names(1)]


ATTRIBUTION_REQUESTS = File(
    ("attribution_requests/{attribution}.jsonl",), ("attribution_requests",), _asking, after="requests"
)
GRADIENT_ITEMS = File(
    ("gradients/{attribution}/items.json",), ("gradient_items",), _computing, after="attribution_requests"
)
# Not asked for: what it computed is in the store, and the weights may be gone from the cache.
GRADIENTS = File(
    ("gradients/{attribution}/receipts/{load}.json",),
    ("gradients",),
    _loads,
    asked=False,
    submitted=True,
    after="gradient_items",
)
# The values of each prompt for programs, and a row for each word for people.
ATTRIBUTION_VALUES = File(
    with_endings("attributions/{attribution}", "jsonl", "csv"),
    ("attribution_values", "gradient_values"),
    _names,
    after="answers",
    of_report=True,
    shown=True,
)
