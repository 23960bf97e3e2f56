"""The coefficients of the objective, checked where they are made.

What always holds: a settings value that exists is one that the objective can follow; a misspelt
name, a number out of range and a coefficient that nothing would read are refused.
"""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import msgspec

from reef_release.errors import SettingsError

__all__ = [
    "HintChoice",
    "ObjectiveSettings",
    "Penalty",
    "Support",
    "require_between",
    "require_one_of",
]

HintChoice = Literal["sequence_optimal", "token_optimal", "shortest"]
Support = Literal["student", "teacher", "overlap"]
Penalty = Literal["none", "k1", "k2", "k3"]

_LARGEST = 1e6
_MAX_TOP_K = 4096
_MAX_LOG_RATIO = 80.0
"""exp(80) is still finite in float32; beyond 88 it is not."""


class ObjectiveSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Both terms with weight 1, K=4: arXiv 2603.10165; the clip range: DAPO, arXiv 2503.14476."""

    policy_weight: float = 1.0
    """w_rl, of the policy term; 0 leaves the term out."""
    distillation_weight: float = 1.0
    """w_opd, of the distillation term; 0 leaves the term out."""
    clip_low: float = 0.2
    """A ratio below 1 - clip_low gains nothing more."""
    clip_high: float = 0.28
    """A ratio above 1 + clip_high gains nothing more."""
    log_ratio_clamp: float = 20.0
    """In both terms, log-ratios to the weights before the first step are clamped to plus and
    minus this, in nats, before they are exponentiated. The penalty is not clamped."""
    top_k: int = 4
    """K: how many candidates of a distribution the distillation looks at."""
    hint_choice: HintChoice = "sequence_optimal"
    support: Support = "student"
    difference_clamp: float | None = 1.0
    """The teacher's advantage in nats is clamped to plus and minus this; null: not at all."""
    penalty: Penalty = "none"
    """The estimator of the KL divergence from the origin that is added to the loss."""
    penalty_weight: float = 0.0

    def __post_init__(self) -> None:
        require_one_of("hint_choice", self.hint_choice, HintChoice)
        require_one_of("support", self.support, Support)
        require_one_of("penalty", self.penalty, Penalty)
        require_between("policy_weight", self.policy_weight, 0.0, _LARGEST)
        require_between("distillation_weight", self.distillation_weight, 0.0, _LARGEST)
        require_between("penalty_weight", self.penalty_weight, 0.0, _LARGEST)
        require_between("clip_low", self.clip_low, 0.0, 1.0)
        require_between("clip_high", self.clip_high, 0.0, _LARGEST)
        require_between("log_ratio_clamp", self.log_ratio_clamp, 0.0, _MAX_LOG_RATIO, above=True)
        require_between("top_k", self.top_k, 1, _MAX_TOP_K)
        if self.difference_clamp is not None:
            require_between("difference_clamp", self.difference_clamp, 0.0, _LARGEST, above=True)
        if (self.penalty == "none") != (self.penalty_weight == 0.0):
            raise SettingsError(
                f"penalty is {self.penalty!r} and penalty_weight {self.penalty_weight}:"
                " one of them would be without effect.",
                next_step="Give both a penalty (k1, k2 or k3) and a weight above 0, or neither.",
            )
        if self.policy_weight == self.distillation_weight == 0.0:
            raise SettingsError(
                "policy_weight and distillation_weight are both 0: nothing would be learnt.",
                next_step="Give at least one of them a weight above 0.",
            )


def require_between(
    name: str, value: float, low: float, high: float, *, above: bool = False
) -> None:
    """Raise `SettingsError` unless *value* is a number from *low* (*above*: over it) to *high*."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and math.isfinite(value) and low <= value <= high and not (above and value == low):
        return
    range_ = f"above {low} and at most {high}" if above else f"from {low} to {high}"
    raise SettingsError(f"{name} is {value!r}.", next_step=f"Give a number {range_}.")


def require_one_of(name: str, value: object, choices: Any) -> None:
    """Raise `SettingsError` unless *value* is one of the literals *choices*."""
    if value not in get_args(choices):
        known = ", ".join(map(str, get_args(choices)))
        raise SettingsError(f"{name} is {value!r}.", next_step=f"Give one of {known}.")
