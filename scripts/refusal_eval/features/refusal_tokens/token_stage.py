"""What the rules in workflow/rules/refusal_tokens.smk ask of a study."""

from typing import Any

from refusal_eval.features.refusal_tokens.token_files import token_families
from refusal_eval.features.refusal_tokens.token_keys import branch_of
from refusal_eval.study.study import Study
from refusal_eval.workflow import generation

OF_BRANCHES = ("prefill", "sampling", "samples", "seed")  # what the tokens' requests have not of those of answers


def request_params(study: Study, family: str, split: str) -> dict[str, Any]:
    """Return the settings that enter the requests for the tokens of a family: those of its answers, and the tokens."""
    params = generation.request_params(study, first_branch(study, family), split)
    kept = {name: value for name, value in params.items() if name not in OF_BRANCHES}
    return kept | {"tokens": tokens_of_family(study, family)}


def tokens_of_family(study: Study, family: str) -> dict[str, str]:
    """Return the tokens of a family by the names of their branches; `respond` comes last."""
    tokens = branch_of(study.models[first_branch(study, family)])
    assert tokens is not None
    return tokens.tokens


def first_branch(study: Study, family: str) -> str:
    """Return one of the models of a family; they differ in their prefill alone."""
    return token_families(study)[family][0]


def engine_of_family(study: Study, family: str) -> str:
    """Return the engine of a family."""
    return study.models[first_branch(study, family)].engine_name
