"""Which token a prompt is answered behind: thresholds, temperatures and the arg-max, on tokens' log-probabilities.

Rows are prompts and columns tokens: the refusal tokens, then the token of other replies. A row of NaN is a prompt whose
tokens the engine could not be asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refusal_eval.stats.estimates.intervals import Floats

NONE = -1  # the column of a prompt that no token is chosen for
DIGITS = 12  # of q: the last ones of exponentials differ between machines
SHARE, RAW = "share", "raw"  # what q is: among the named tokens, or as the engine has it

TokenColumns = NDArray[np.intp]


@dataclass(frozen=True)
class TokenRule:
    """One way to choose.

    Attributes:
        threshold: the least q of a refusal token; None for the arg-max over all tokens.
        temperature: T.
        raw: whether q is the probability itself, which is known at T = 1 only.
        selected: the one refusal token that the threshold is for; the others are chosen by arg-max. None: all.
    """

    threshold: float | None = None
    temperature: float = 1.0
    raw: bool = False
    selected: str | None = None

    @property
    def name(self) -> str:
        """Its name in the results table."""
        if self.threshold is None:
            return "arg-max"
        kind = f"{RAW}, " if self.raw else ""
        only = f", {self.selected} alone" if self.selected else ""
        return f"{kind}t={self.threshold:g}, T={self.temperature:g}{only}"


def choices(thresholds: Sequence[float], temperatures: Sequence[float], refusing: Sequence[str]) -> list[TokenRule]:
    """Return the choices of a study: the arg-max, each threshold at each temperature, and on raw probabilities.

    Several refusal tokens also have each threshold for one of them alone.
    """
    found = [TokenRule()]
    for threshold in thresholds:
        found += [TokenRule(threshold, temperature) for temperature in temperatures]
        found.append(TokenRule(threshold, raw=True))
        if len(refusing) > 1:
            found += [TokenRule(threshold, selected=name) for name in refusing]
    return found


def probabilities(logprobs: Floats, temperature: float = 1.0, raw: bool = False) -> Floats:
    """Return q of each token: p^(1/T) over the sum of p^(1/T) of the named tokens, or with `raw` p itself.

    softmax(logits / T) over the whole vocabulary has the same ratios between tokens, and another sum: it needs the
    logits of all tokens, which the engine does not give. At T = 1 the engine's own sum is in p.
    """
    if raw:
        return np.asarray(np.round(np.exp(logprobs), DIGITS), dtype=float)
    scaled = logprobs / temperature
    weights = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return np.asarray(np.round(weights / weights.sum(axis=1, keepdims=True), DIGITS), dtype=float)


def chosen(logprobs: Floats, choice: TokenRule, refusing: Sequence[str]) -> TokenColumns:
    """Return the column of the token that each prompt is answered behind, `NONE` for a row of NaN.

    Of the refusal tokens the most probable one counts (of equal ones the first). It is chosen where its q is at least
    the threshold, and otherwise the last column is. Without a threshold, or where the threshold is for another refusal
    token, it is chosen where it is at least as probable as the last column (the model's own arg-max among the tokens).

    Args:
        refusing: names of the columns but the last.
    """
    known = np.asarray(~np.isnan(logprobs).any(axis=1), dtype=bool)
    last = logprobs.shape[1] - 1
    filled = np.where(known[:, None], logprobs, 0.0)
    best = filled[:, :last].argmax(axis=1)
    own = np.take_along_axis(filled, best[:, None], axis=1)[:, 0]
    takes = own >= filled[:, last]
    if choice.threshold is not None:
        q = np.take_along_axis(probabilities(filled, choice.temperature, choice.raw), best[:, None], axis=1)[:, 0]
        reaches = q >= choice.threshold
        of_it = np.array([choice.selected in (None, name) for name in refusing])
        takes = np.where(of_it[best], reaches, takes)
    return np.where(known, np.where(takes, best, last), NONE)
