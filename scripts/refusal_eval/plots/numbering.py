"""Where the numbers of points stand: beside their points, or where points crowd at the ends of lines that never cross.

Everything is in points of the page.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

Spot = tuple[float, float]
Box = tuple[float, float, float, float]  # left, top, right, bottom

CLEAR = 2.2  # around a point, where no number may be
_HIGH = 5.6  # height of a digit
_RINGS = (6.5, 9.5)  # distances at which a number is seen to belong to its point
_ANGLES = 24
_BETWEEN = (4.0, 6.0)  # what is left free between two numbers at the ends of lines, sideways and above each other


class Number(NamedTuple):
    """Where a number has its middle, and whether a line leads from it to its point."""

    at: Spot
    line: bool


def numbered(points: Sequence[Spot], halves: Sequence[float], steps: Sequence[Spot], panel: Box) -> list[Number]:
    """Return a place for the number of each point.

    Args:
        points: the points.
        halves: half the width of each number.
        steps: corners of a line that numbers keep off.
        panel: what they stay within; where it is full, the number of a point stands on others.
    """
    taken = [(x - CLEAR, y - CLEAR, x + CLEAR, y + CLEAR) for x, y in points]
    taken += [(min(a, c), min(b, d), max(a, c), max(b, d)) for (a, b), (c, d) in itertools.pairwise(steps)]
    found: dict[int, Number] = {}
    # Those with the least room choose first.
    rooms = [len(_beside(i, points, halves[i], taken, panel)) for i in range(len(points))]
    for i in sorted(range(len(points)), key=lambda i: rooms[i]):
        for spot in _beside(i, points, halves[i], taken, panel)[:1]:
            found[i] = Number(spot, False)
            taken.append(_box(spot, halves[i]))
    crowded = [i for i in range(len(points)) if i not in found]
    spots = _at_lines([points[i] for i in crowded], max(halves, default=0.0), taken, panel)
    for i, place in zip(crowded, spots, strict=True):
        found[i] = Number(place, True) if place else Number(next(_near(points[i], halves[i])), False)
    return [found[i] for i in range(len(points))]


def _at_lines(points: Sequence[Spot], half: float, taken: Sequence[Box], panel: Box) -> list[Spot | None]:
    """Free places of a grid for the numbers of these points; None where it is full.

    All lines together are as short as they can be, and so none crosses another.
    """
    from scipy.optimize import linear_sum_assignment

    wide, high = 2 * half + _BETWEEN[0], _HIGH + _BETWEEN[1]
    columns, rows = int((panel[2] - panel[0]) / wide), int((panel[3] - panel[1]) / high)
    grid = itertools.product(range(columns), range(rows))
    places = [(panel[0] + (i + 0.5) * wide, panel[1] + (j + 0.5) * high) for i, j in grid]
    sites = [site for site in places if _free(_box(site, half), taken, panel)]
    costs = np.array([[math.dist(site, point) for site in sites] for point in points]).reshape(len(points), len(sites))
    chosen = dict(zip(*linear_sum_assignment(costs), strict=True))
    return [sites[chosen[i]] if i in chosen else None for i in range(len(points))]


def _beside(i: int, points: Sequence[Spot], half: float, taken: Sequence[Box], panel: Box) -> list[Spot]:
    """Free places for the number of a point that are nearer to it than to any other point."""
    free = (spot for spot in _near(points[i], half) if _free(_box(spot, half), taken, panel))
    return [spot for spot in free if math.dist(spot, points[i]) <= min(math.dist(spot, point) for point in points)]


def _near(point: Spot, half: float) -> Iterator[Spot]:
    """Places around a point, the nearest first and of these the upper right one."""
    for ring, step in itertools.product(_RINGS, range(_ANGLES)):
        angle = 2 * math.pi * step / _ANGLES - math.pi / 4
        yield point[0] + (ring + half - 3) * math.cos(angle), point[1] + ring * math.sin(angle)


def _box(spot: Spot, half: float) -> Box:
    """What a number takes, with a little room around it."""
    return spot[0] - half - 1, spot[1] - _HIGH / 2 - 1.5, spot[0] + half + 1, spot[1] + _HIGH / 2 + 1.5


def _free(box: Box, taken: Sequence[Box], panel: Box) -> bool:
    within = box[0] >= panel[0] and box[1] >= panel[1] and box[2] <= panel[2] and box[3] <= panel[3]
    return within and not any(
        box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3] for other in taken
    )
