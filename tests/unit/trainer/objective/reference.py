"""The objective once more, from its definition alone: Python numbers, loops, no tensors.

Everything is a list indexed [sample][token], or [sample][token][candidate]. Python's floats are
64 bits wide. Nothing of the code under test is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Row = Sequence[float]
Rows = Sequence[Row]


def clamp(value: float, low: float, high: float) -> float:
    return low if value < low else high if value > high else value


def clip(rho: float, advantage: float, low: float = 0.2, high: float = 0.28) -> float:
    return max(-advantage * rho, -advantage * clamp(rho, 1 - low, 1 + high))


def rho(new: float, old: float, bound: float = 20.0) -> float:
    return math.exp(clamp(new - old, -bound, bound))


def policy_token(new: float, old: float, reward: float, low: float, high: float) -> float:
    return clip(rho(new, old), reward, low, high)


def distillation_token(
    new: Row, old: Row, teacher: Row, support: Sequence[bool], clamp_at: float | None
) -> float:
    chosen = [place for place, counts in enumerate(support) if counts]
    if not chosen:
        return 0.0
    highest = max(old[place] for place in chosen)
    scale = sum(math.exp(old[place] - highest) for place in chosen)
    total = 0.0
    for place in chosen:
        weight = math.exp(old[place] - highest) / scale
        difference = teacher[place] - old[place]
        if clamp_at is not None:
            difference = clamp(difference, -clamp_at, clamp_at)
        total += clip(rho(new[place], old[place]), weight * difference)
    return total


def estimate(kind: str, new: float, reference: float) -> float:
    r = math.exp(reference - new)
    if kind == "k1":
        return -math.log(r)
    if kind == "k2":
        return math.log(r) ** 2 / 2
    return (r - 1) - math.log(r)


def mean_of_masked_means(values: Rows, mask: Sequence[Sequence[bool]]) -> float:
    total = 0.0
    for row, marks in zip(values, mask, strict=True):
        summed = sum(value for value, mark in zip(row, marks, strict=True) if mark)
        total += summed / max(1, sum(marks))
    return total / len(values)


def log_softmax(logits: Row, temperature: float) -> list[float]:
    scaled = [value / temperature for value in logits]
    highest = max(scaled)
    norm = highest + math.log(sum(math.exp(value - highest) for value in scaled))
    return [value - norm for value in scaled]


def choose(
    student: Sequence[Sequence[int]],
    teachers: Sequence[Sequence[Sequence[int]]],
    lengths: Sequence[int],
    how: str,
) -> list[int]:
    """The hint's index at each token of one sample; `teachers` is [hint][token][candidate]."""
    tokens = range(len(student))
    shared = [[len(set(student[t]) & set(ids[t])) for t in tokens] for ids in teachers]
    hints = range(len(teachers))
    if how == "shortest":
        best = min(hints, key=lambda h: (lengths[h], h))
        return [best for _ in tokens]
    if how == "sequence_optimal":
        best = min(hints, key=lambda h: (-sum(shared[h]), h))
        return [best for _ in tokens]
    return [min(hints, key=lambda h: (-shared[h][t], h)) for t in tokens]
