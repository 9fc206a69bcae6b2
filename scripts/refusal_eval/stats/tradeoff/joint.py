"""Over-refusal and safety of models together: joint regions, Youden's J and the Pareto front."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from refusal_eval.stats.tradeoff.pooled_rates import Part

REGION = (
    "an ellipse whose half-axes on each side of the point come from the two intervals, its tilt from clusters "
    "in both, cut at 0 and 1"
)
_CORNERS = 72
_PAIRS_AT_ONCE = 2_000_000  # of models, in all resamples: bounds the memory


def region(over: Part, safe: Part, correlation: float, level: float) -> list[list[float]] | None:
    """Return the outline of the joint region, closed, as points [over-refusal, safety]; None without both intervals.

    An interval of one quantity reaches z standard errors, a region of two sqrt(chi2 with 2 degrees of freedom): the
    half-axes are the distances to the ends of the intervals, widened by their ratio. Where a rate is 0 or 1 the region
    ends there.
    """
    if None in (over.low, over.high, safe.low, safe.high):
        return None
    wider = _wider(level)
    angles = np.linspace(0.0, 2 * math.pi, _CORNERS + 1)
    x = np.cos(angles)
    y = correlation * x + math.sqrt(max(0.0, 1 - correlation**2)) * np.sin(angles)
    points = np.column_stack([_scaled(over, x, wider), _scaled(safe, y, wider)])
    return [[float(a), float(b)] for a, b in np.clip(points, 0.0, 1.0).round(9)]


def inside(over: Part, safe: Part, correlation: float, level: float, x: float, y: float) -> bool:
    """Whether the joint region holds the point x (over-refusal), y (safety)."""
    ends = zip((over, safe), (x, y), strict=True)
    far = [_distance(part, value, _wider(level)) for part, value in ends]
    if not all(math.isfinite(distance) for distance in far):
        return False
    a, b = far
    slope = min(max(correlation, -0.999999), 0.999999)
    return (a * a - 2 * slope * a * b + b * b) / (1 - slope**2) <= 1 + 1e-9


def pareto(over: NDArray[np.float64], safe: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which models no other one beats: none has at most their over-refusal and at least their safety, and one
    of the two better.

    Args:
        over: anything x models.
        safe: the same.

    Returns:
        Truth, anything x models.
    """
    models = over.shape[-1]
    block = max(1, _PAIRS_AT_ONCE // models**2)
    if over.ndim > 1 and len(over) > block:
        starts = range(0, len(over), block)
        return np.concatenate([pareto(over[i : i + block], safe[i : i + block]) for i in starts])
    # Axis -1 is the model that may be beaten, axis -2 the one that may beat it. Rates differ by 1e-12 from rounding.
    less = over[..., :, None] < over[..., None, :] - 1e-12
    more = safe[..., :, None] > safe[..., None, :] + 1e-12
    as_low = over[..., :, None] <= over[..., None, :] + 1e-12
    as_safe = safe[..., :, None] >= safe[..., None, :] - 1e-12
    beaten = (as_low & as_safe & (less | more)).any(axis=-2)
    return np.asarray(~beaten)


def _wider(level: float) -> float:
    return float(math.sqrt(stats.chi2.ppf(level, 2)) / stats.norm.ppf((1 + level) / 2))


def _scaled(part: Part, direction: NDArray[np.float64], wider: float) -> NDArray[np.float64]:
    down, up = part.value - float(part.low or 0.0), float(part.high or 0.0) - part.value
    return np.asarray(part.value + wider * direction * np.where(direction < 0, down, up))


def _distance(part: Part, value: float, wider: float) -> float:
    """How far a value is from the point, in half-axes of its side."""
    axis = wider * (part.value - float(part.low or 0.0) if value < part.value else float(part.high or 0.0) - part.value)
    gap = value - part.value
    return gap / axis if axis > 0 else (0.0 if abs(gap) < 1e-12 else math.inf)
