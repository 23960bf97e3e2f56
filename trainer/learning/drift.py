"""How far the server's log-probabilities are from those of the same weights here.

What always holds: compared are sampled tokens at the temperature at which they were sampled; one
sample that is far off is seen however many others are not, and however short it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trainer.learning import ranks

__all__ = ["drift"]

_SURE = 1e-3
"""Nats. A token counts at least as this unlikely, so that rounding is no share of nothing."""

Pair = tuple[Sequence[float], Sequence[float]]


def drift(samples: Iterable[Pair]) -> dict[str, float]:
    """The metrics `drift` and `drift_share` of this process's samples and those of all others.

    Of each sample, the log-probabilities computed here and the recorded ones, in nats. `drift` is
    the largest of the samples' mean absolute differences. `drift_share` is the sum of all
    differences over the sum of all recorded log-probabilities: when the weights are the same and
    only the temperature is not, it is about by how much that is off, while a model that is sure
    of most tokens keeps the differences themselves small.
    """
    sums = []
    for found, recorded in samples:
        moved = [abs(here - there) for here, there in zip(found, recorded, strict=True)]
        if moved:
            size = sum(max(abs(each), _SURE) for each in recorded)
            sums.append((sum(moved), size, len(moved)))
    sums = ranks.gathered(sums)
    if not sums:
        return {"drift": 0.0, "drift_share": 0.0}
    return {
        "drift": max(moved / count for moved, _, count in sums),
        "drift_share": sum(moved for moved, _, _ in sums) / sum(size for _, size, _ in sums),
    }
