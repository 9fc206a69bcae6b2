"""How likely the parts of an answer are, as files of recorded answers say it."""

import math
from typing import Any, NamedTuple

Place = tuple[str, int, int]  # prompt id, sample, turn

NO_TOKENS = -1.0  # stands for the probability of a part without tokens


class Probabilities(NamedTuple):
    """Geometric mean probability of a token of the reasoning, of the answer, and of both: -1 for no tokens.

    `thinking` is 0 for a model without an end mark.
    """

    thinking: float = NO_TOKENS
    answer: float = NO_TOKENS
    combined: float = NO_TOKENS

    @property
    def answer_log(self) -> float | None:
        """Logarithm of the answer's; None where it has no tokens."""
        return math.log(self.answer) if self.answer > 0 else None


def likelihood_row(place: Place, found: Probabilities) -> dict[str, Any]:
    """Return a row for one response."""
    names = dict(zip(("prompt_id", "sample", "turn"), place, strict=True))
    return names | {f"{name}_prob": value for name, value in found._asdict().items()}
