"""What an attribution is, in a sentence, for tables and captions."""

from collections.abc import Mapping
from typing import Any

from refusal_eval.features.attributions.attribution_methods import ATTRIBUTION_METHODS
from refusal_eval.features.attributions.attribution_scores import ATTRIBUTION_SCORES


def method_words(one: Mapping[str, Any]) -> str:
    """Return the sentence that says what the values are.

    Args:
        one: the attribution's keys.
    """
    score = ATTRIBUTION_SCORES.get(one["score"]).in_words(one)
    words: str = ATTRIBUTION_METHODS.get(one["method"]).words
    return words.format(Score=score[0].upper() + score[1:], score=score, unit=one["unit"])
