"""Arithmetic of PyTorch's CPU kernels in float32, without PyTorch: the published numbers carry their rounding.

`softmax` and `total` give the same bits as torch 2.13 on x86 with AVX-512 (checked on thousands of random vectors of up
to 200 values). Exponential and logarithm of single values come there from a closed library, whose last bit depends on
the processor. `EXACT` rounds them correctly, which is the same everywhere and differs from torch by at most one unit in
the last place: 1e-7 of a value. `refusal_eval.compat.elementary` asks torch itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float32]

# The exponential of torch's softmax is that of SLEEF (`expf`, 1 ulp): 2^q times a polynomial in the rest. These are
# its constants: 1 / ln 2, ln 2 in two parts, and the coefficients.
_PER_LN2 = np.float32(1.44269504)
_LN2_HIGH, _LN2_LOW = np.float32(0.693145751953125), np.float32(1.428606765330187e-06)
_POLYNOMIAL = (
    *(0.000198527617612853646, 0.00139304355252534151, 0.00833336077630519867, 0.0416664853692054749),
    *(0.166666671633720398, 0.5),
)

_SOFTMAX_LANES = 16  # numbers in one AVX-512 register
_SUM_LANES = 8  # sums are compiled for AVX2
_PARALLEL = 4  # running sums side by side


@dataclass(frozen=True)
class Elementary:
    """Exponential and logarithm of float32 vectors, and the name of what computes them."""

    name: str
    exp: Callable[[Vector], Vector]
    log: Callable[[Vector], Vector]


def _exp(values: Vector) -> Vector:
    return np.exp(values.astype(np.float64)).astype(np.float32)


def _log(values: Vector) -> Vector:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(values.astype(np.float64)).astype(np.float32)


EXACT = Elementary("correctly rounded", _exp, _log)


def softmax(values: Vector) -> Vector:
    """Return the softmax of a vector with at least one value."""
    powers = _sleef_exp(values - values.max())
    return powers * (np.float32(1) / _lanes_total(powers))


def total(values: Vector) -> np.float32:
    """Return the sum of a vector; 0 for an empty one."""
    if len(values) < _SUM_LANES:
        lanes, rest = values[:, np.newaxis], values[:0]
    else:
        whole = len(values) - len(values) % _SUM_LANES
        lanes, rest = values[:whole].reshape(-1, _SUM_LANES), values[whole:]
    sums = np.zeros((_PARALLEL, lanes.shape[1]), dtype=np.float32)
    whole = len(lanes) - len(lanes) % _PARALLEL
    for number, lane in enumerate(lanes):
        sums[number % _PARALLEL if number < whole else 0] += lane
    one_by_one = [*rest, *_in_order(list(sums))]
    return np.float32(_in_order(one_by_one)) if one_by_one else np.float32(0)


def _in_order(values: list[Vector]) -> Vector:
    result = values[0]
    for value in values[1:]:
        result = result + value
    return result


def _lanes_total(values: Vector) -> np.float32:
    """The sum as softmax takes it: in order when it fits a register, else by lanes and then by halves."""
    if len(values) < _SOFTMAX_LANES:
        return np.float32(_in_order(list(values)))
    lanes = values[:_SOFTMAX_LANES].copy()
    for start in range(_SOFTMAX_LANES, len(values), _SOFTMAX_LANES):
        part = values[start : start + _SOFTMAX_LANES]
        lanes[: len(part)] += part
    while len(lanes) > 1:
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
    return np.float32(lanes[0])


def _sleef_exp(values: Vector) -> Vector:
    # Below this, exp is 0 in float32; the power of two below would not be.
    small = values < np.float32(-104)
    safe = np.where(small, np.float32(0), values)
    power = np.rint(safe * _PER_LN2)
    rest = _fused(power, -_LN2_LOW, _fused(power, -_LN2_HIGH, safe))
    result = np.full_like(rest, np.float32(_POLYNOMIAL[0]))
    for coefficient in _POLYNOMIAL[1:]:
        result = _fused(result, rest, np.float32(coefficient))
    result = np.float32(1) + _fused(rest * rest, result, rest)
    return np.where(small, np.float32(0), np.ldexp(result, power.astype(np.int32)))


def _fused(a: Vector, b: Vector | np.float32, c: Vector | np.float32) -> Vector:
    """a * b + c, rounded once: the product of two float32 is exact in float64."""
    return (a.astype(np.float64) * np.float64(b) + np.asarray(c, dtype=np.float64)).astype(np.float32)
