"""What is watched while a batch is trained, and when it is stopped.

What always holds: a number that is not finite stops the step whatever the bounds are; a stopped
batch leaves no weights. A bound of null is not watched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from reef_release.domain.traffic.training_rules import LARGEST_FIGURE
from reef_release.errors import SettingsError
from trainer.objective.settings import require_between

__all__ = ["Bounds", "StepStopped", "StopReason", "check"]

StopReason = Literal[
    "non-finite", "kl", "entropy", "reply-length", "truncation", "drift", "update-norm", "error"
]


class Bounds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where training stops. Divergences and entropies are in nats per token."""

    kl_base: float | None = 5.0
    """Of the serving release from what is trained, estimated from its own tokens (k3)."""
    kl_origin: float | None = 10.0
    """Of what is trained from the origin on the same replies, over K tokens and the rest."""
    entropy_low: float | None = 1e-4
    """Below: the policy has collapsed."""
    entropy_high: float | None = 5.0
    """Above: it babbles."""
    reply_tokens_low: float | None = 2.0
    """The mean length of the batch's replies, in tokens."""
    reply_tokens_high: float | None = None
    truncated: float | None = 0.5
    """The share of replies that were cut before their end."""
    drift: float | None = 0.3
    """Between the log-probabilities of the sampled tokens as the server recorded them and as they
    are here with the same weights at the same temperature: the mean absolute difference per token
    of the sample where it is largest. Beyond it, the two do not run the same model."""
    drift_share: float | None = 0.1
    """The sum of those differences over all samples, as a share of the sum of the recorded
    log-probabilities. Of a model that is mostly sure, the differences are small whatever is
    wrong; this also finds another temperature."""
    off_samples: float | None = 0.5
    """The share of samples that may be left out, with a figure that is not finite or beyond a
    bound of drift, before the first step. More are nobody's in particular and stop the batch."""
    update_norm: float | None = 0.1
    """Length of one step's change, relative to the length of what is trained."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None:
                require_between(f"bounds.{name}", value, 0.0, 1e9)
        for name in ("reply_tokens", "entropy"):
            low, high = getattr(self, f"{name}_low"), getattr(self, f"{name}_high")
            if low is not None and high is not None and low > high:
                raise SettingsError(
                    f"bounds.{name}_low is {low:g} and bounds.{name}_high is {high:g}: nothing "
                    "is between them.",
                    next_step="Make the low one the smaller, or one of them null.",
                )


class StepStopped(Exception):
    """Raised inside a step, turned into a value by whoever runs the batch."""

    def __init__(self, reason: StopReason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason: StopReason = reason
        self.detail = detail


_WATCHED: tuple[tuple[str, str, StopReason, bool], ...] = (
    ("reply_tokens", "reply_tokens_low", "reply-length", False),
    ("reply_tokens", "reply_tokens_high", "reply-length", True),
    ("truncated", "truncated", "truncation", True),
    ("drift", "drift", "drift", True),
    ("drift_share", "drift_share", "drift", True),
    ("entropy", "entropy_low", "entropy", False),
    ("entropy", "entropy_high", "entropy", True),
    ("kl_base", "kl_base", "kl", True),
    ("kl_origin", "kl_origin", "kl", True),
    ("update_norm", "update_norm", "update-norm", True),
)
"""The metric, the bound, the reason, and whether the bound is an upper one."""


def check(metrics: Mapping[str, float], bounds: Bounds) -> None:
    """Raise `StepStopped` for the first of *metrics* that is not finite or out of its bound.

    What is larger than float32 holds is not finite for the log, nor here.
    """
    for name, value in metrics.items():
        if not abs(value) <= LARGEST_FIGURE:
            raise StepStopped("non-finite", f"{name} is {value}")
    for name, field, reason, upper in _WATCHED:
        bound = getattr(bounds, field)
        found = metrics.get(name)
        if bound is None or found is None:
            continue
        if found > bound if upper else found < bound:
            side = "above" if upper else "below"
            raise StepStopped(reason, f"{name} is {found:.6g}, {side} the bound {bound:g}")
