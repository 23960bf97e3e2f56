"""How far the server's log-probabilities are from those of the same weights here.

What always holds: compared are sampled tokens at the temperature at which they were sampled; one
sample that is far off is seen however many others are not, and however short it is. A few that are
off are their own fault and are left out; when many are, the server is, or these weights are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from trainer.learning import ranks
from trainer.learning.samples import Skipped
from trainer.learning.watches import Bounds

__all__ = ["LeftOut", "Moved", "drift", "gather", "leave_out", "moved"]

_SURE = 1e-3
"""Nats. A token counts at least as this unlikely, so that rounding is no share of nothing."""


class Moved(NamedTuple):
    """One sample's differences, in nats."""

    turn_id: str
    total: float
    """Of absolute differences, over its tokens; no number when a figure of the sample is none."""
    size: float
    """Of recorded log-probabilities."""
    tokens: int
    """Those that are compared; 0 when it is of another release, or masked whole."""

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.total)

    @property
    def mean(self) -> float:
        return self.total / self.tokens


class LeftOut(Exception):
    """Raised before the first step: without these samples the batch is to be begun anew."""

    def __init__(self, skipped: Sequence[Skipped]) -> None:
        super().__init__(", ".join(each.turn_id for each in skipped))
        self.skipped = tuple(skipped)


def moved(turn_id: str, found: Sequence[float], recorded: Sequence[float]) -> Moved:
    """Of a sample, the log-probabilities computed here and the recorded ones, in nats."""
    differences = [abs(here - there) for here, there in zip(found, recorded, strict=True)]
    size = sum(max(abs(each), _SURE) for each in recorded)
    return Moved(turn_id, sum(differences), size, len(differences))


def gather(samples: Iterable[Moved]) -> list[Moved]:
    """This process's samples and those of all others."""
    return ranks.gathered(list(samples))


def drift(samples: Sequence[Moved]) -> dict[str, float]:
    """The metrics `drift` and `drift_share`.

    `drift` is the largest of the samples' mean absolute differences. `drift_share` is the sum of
    all differences over the sum of all recorded log-probabilities: when the weights are the same
    and only the temperature is not, it is about by how much that is off, while a model that is
    sure of most tokens keeps the differences themselves small.
    """
    counted = [each for each in samples if each.tokens]
    if not counted:
        return {"drift": 0.0, "drift_share": 0.0}
    # NaN is neither larger nor smaller than another mean.
    wrong = [each.mean for each in counted if not each.is_finite]
    return {
        "drift": wrong[0] if wrong else max(each.mean for each in counted),
        "drift_share": sum(each.total for each in counted) / sum(each.size for each in counted),
    }


def leave_out(samples: Sequence[Moved], bounds: Bounds) -> None:
    """Raise `LeftOut` for the samples that are off, if they are few enough.

    Off is one with a figure that is not finite, or with a mean beyond the bound; and while the
    share of all others is beyond its own, each of them that is by itself.
    """
    off = [_skipped(each, bounds) for each in samples if _is_off(each, bounds)]
    sound = [each for each in samples if each.tokens and not _is_off(each, bounds)]
    share = bounds.drift_share
    if share is not None and drift(sound)["drift_share"] > share:
        off += [_skipped(each, bounds) for each in sound if each.total > share * each.size]
    measured = [each for each in samples if each.tokens or not each.is_finite]
    most = bounds.off_samples
    if off and (most is None or len(off) <= most * len(measured)):
        raise LeftOut(off)


def _is_off(sample: Moved, bounds: Bounds) -> bool:
    beyond = bounds.drift is not None and sample.tokens and sample.mean > bounds.drift
    return bool(beyond) or not sample.is_finite


def _skipped(sample: Moved, bounds: Bounds) -> Skipped:
    if not sample.is_finite:
        reason, detail = "non-finite", "a figure of it is not finite"
    elif _is_off(sample, bounds):
        reason = "drift"
        detail = f"its drift is {sample.mean:.6g}, above the bound {bounds.drift:g}"
    else:
        reason = "drift"
        detail = (
            f"its drift is {sample.total / sample.size:.6g} of what was recorded, above the "
            f"bound {bounds.drift_share:g}"
        )
    return Skipped(turn_id=sample.turn_id, reason=reason, detail=detail)
