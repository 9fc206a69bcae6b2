"""What an attribution is, in a sentence, for tables and captions."""

from collections.abc import Mapping
from typing import Any

SCORES = {
    "refusal_start": "the logarithm of the probability that the reply begins with a token of refusal",
}
METHODS = {
    "leave_one_out": "{Score}, of the prompt minus that of the prompt without the {unit}.",
}


def method_words(one: Mapping[str, Any]) -> str:
    """Return the sentence that says what the values are.

    Args:
        one: the attribution, with `score`, `method` and `unit`.
    """
    score = SCORES[one["score"]]
    return METHODS[one["method"]].format(Score=score[0].upper() + score[1:], unit=one["unit"])
