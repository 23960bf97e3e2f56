"""How far a figure of few seeds or few replies may be off: 95 per cent intervals.

What always holds: the same numbers give the same interval; an interval holds its estimate; where
there are too few numbers for one, there is none.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence

__all__ = ["mean_interval", "median_interval", "share_interval"]

Interval = tuple[float, float]

_Z = 1.959964
_TAIL = 0.025
_DRAWS = 10_000
_FEWEST = 5


def share_interval(count: int, total: int) -> Interval:
    """Of *count* among *total* > 0, by Wilson's score interval (1927)."""
    share = count / total
    scale = 1 + _Z**2 / total
    middle = (share + _Z**2 / (2 * total)) / scale
    half = _Z / scale * math.sqrt(share * (1 - share) / total + _Z**2 / (4 * total**2))
    # At 0 and 1 the bound is the share itself, which rounding would miss.
    low = 0.0 if count == 0 else middle - half
    high = 1.0 if count == total else middle + half
    return low, high


def median_interval(values: Sequence[float]) -> Interval | None:
    """Of the median, exact, from the order of *values*; infinity is a value like others.

    Free of any assumption on how they are spread; None below six values, which are too few.
    """
    ordered = sorted(values)
    count = len(ordered)
    below, rank = 0.0, 0
    while (below := below + math.comb(count, rank) / 2**count) <= _TAIL:
        rank += 1
    return (ordered[rank - 1], ordered[count - rank]) if rank else None


def mean_interval(values: Sequence[float]) -> Interval | None:
    """Of the mean, by the bootstrap's percentiles (Efron 1979); None below five values, too few."""
    if len(values) < _FEWEST:
        return None
    rng = random.Random(0)  # noqa: S311  # reproducible, no secret
    means = sorted(statistics.fmean(rng.choices(values, k=len(values))) for _ in range(_DRAWS))
    return means[round(_TAIL * _DRAWS)], means[round((1 - _TAIL) * _DRAWS) - 1]
