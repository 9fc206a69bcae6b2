"""Made-up studies of two models whose prompts lie in clusters of unequal size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from interval_coverage import DESIGNS as OF_RATES
from numpy.typing import NDArray
from simulated_comparisons import probabilities

from refusal_eval.stats.estimates.intervals import Codes, Floats

OF_PROMPT, OF_MODELS = 0.5, 0.5  # correlation of two answers to a prompt, and of what is behind the models' rates
_KEPT = ("2 of 100, 98 single", *(name for name in OF_RATES if "Zipf" in name or "log-normal" in name))
DESIGNS: dict[str, tuple[int, ...]] = {
    **{name: OF_RATES[name] for name in _KEPT},
    "5 of 20, 200 single": (*[20] * 5, *[1] * 200),
    "30 of 10, 270 single": (*[10] * 30, *[1] * 270),
    "60 of 5": (5,) * 60,
    "400 single": (1,) * 400,
    "50 single": (1,) * 50,
}
_AT_ONCE = 100  # studies that are drawn together


def correlations(sizes: tuple[int, ...]) -> tuple[float, ...]:
    """Return the correlations within clusters at which a design is simulated."""
    return (0.3, 0.8) if max(sizes) > 1 else (0.0,)


def codes_of(sizes: tuple[int, ...]) -> Codes:
    """Return the number of each prompt's cluster."""
    return np.repeat(np.arange(len(sizes)), sizes)


def chances(
    sizes: tuple[int, ...], rates: tuple[float, float], correlation: float, runs: int, rng: np.random.Generator
) -> Iterator[NDArray[np.float64]]:
    """Yield for each run how probable a refusal of each prompt is, of two models (2 x prompts).

    They are beta distributed. Behind them are normal numbers, of which those of a cluster correlate, and half of which
    both models have in common, of a cluster as of a prompt.
    """
    codes = codes_of(sizes)
    for start in range(0, runs, _AT_ONCE):
        several = min(_AT_ONCE, runs - start)
        of_cluster: Floats = rng.standard_normal((3, several, len(sizes)))[:, :, codes]
        of_prompt: Floats = rng.standard_normal((3, several, len(codes)))
        common, *own = np.sqrt(correlation) * of_cluster + np.sqrt(1 - correlation) * of_prompt
        sides = [
            probabilities(np.sqrt(OF_MODELS) * common + np.sqrt(1 - OF_MODELS) * x, rate, OF_PROMPT)
            for x, rate in zip(own, rates, strict=True)
        ]
        yield from np.stack(sides, axis=1)
