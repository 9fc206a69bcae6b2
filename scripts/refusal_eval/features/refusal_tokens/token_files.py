"""The files of refusal tokens: what is asked, and the probabilities of the tokens behind each prompt."""

import itertools

from refusal_eval.features.refusal_tokens.token_keys import RefusalTokenKeys
from refusal_eval.study.files import File, Names
from refusal_eval.study.study import Study


def token_families(study: Study) -> dict[str, list[str]]:
    """Return the models of each family of branches, by its name."""
    noun = RefusalTokenKeys.family_requests
    return {name: family.models for name, family in study.families.items() if family.requests == noun}


def _cells(study: Study) -> list[Names]:
    return list(itertools.product(token_families(study), study.splits))


TOKEN_REQUESTS = File(("token_requests/{model}/{split}.jsonl",), ("token_requests",), _cells, after="requests")
TOKEN_PROBABILITIES = File(
    ("token_probabilities/{model}/{split}.jsonl",), ("token_probabilities",), _cells, after="answers"
)
