"""The watch of a policy: when the release that is served has fallen under its bar.

The trials of a served release are tested one by one, as an e-process against "its pass rate is
at least `bar`". A trial multiplies by the likelihood ratio of `fallen` against `bar`, which no
pass rate of at least `bar` makes larger on average. Since a release may fall at any trial, the
evidence is the mixture over all trials at which it may have begun, with weights
1/(n(n+1)) that sum to 1. Under the bar's hypothesis that has mean at most 1 at every time, so by
Ville's inequality the chance that it ever reaches 1/`alpha` is at most `alpha`, however often
one looks. Sources: Ville 1939; Ramdas, Grünwald, Vovk, Shafer, "Game-theoretic statistics and
safe anytime-valid inference", 2023; Shin, Ramdas, Rinaldo, "E-detectors", 2022.

The evidence is an integer, in units of 2^-64, and is rounded down at every step: that keeps the
bound, and every reader of the log has the same number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fractions import Fraction

import msgspec

from reef_release.domain.reasons import Reason

__all__ = ["ONE", "Evidence", "WatchRule", "evidence_of", "watch_reasons"]

ONE = 1 << 64
"""The evidence 1, before the first trial."""
MAX_WATCH_TRIALS = 100_000
_MAX_EVERY_S = 604_800
_RATE = re.compile(r"0\.[0-9]{1,6}")


class WatchRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a served release is watched.

    `verifiers` must all pass a reply; at least one is objective. `bar` is the pass rate on the
    policy's suite that the release must hold, `fallen` the lower one that the test looks for,
    `alpha` the chance that a release at the bar is ever called fallen, all as decimals.
    `every_s` is the least time between two trials in seconds, `max_trials` ends the watch of one
    pointer event. `automatic`: roll back, not only hold.
    """

    verifiers: list[str]
    bar: str
    fallen: str
    alpha: str
    every_s: int
    max_trials: int
    automatic: bool


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What the trials so far say: the mixture's part that has begun, and how many trials."""

    begun: int = 0
    trials: int = 0

    @property
    def value(self) -> int:
        """The evidence against the bar in units of 2^-64; `ONE` before the first trial."""
        return self.begun + ONE // (self.trials + 1)

    def after(self, rule: WatchRule, passed: bool) -> Evidence:
        """The evidence with one trial more."""
        bar, fallen = Fraction(rule.bar), Fraction(rule.fallen)
        ratio = fallen / bar if passed else (1 - fallen) / (1 - bar)
        number = self.trials + 1
        weight = ONE // (number * (number + 1))
        begun = (self.begun + weight) * ratio.numerator // ratio.denominator
        return Evidence(begun=begun, trials=number)

    def is_enough(self, rule: WatchRule) -> bool:
        """Whether the release is called fallen."""
        return self.value * Fraction(rule.alpha) >= ONE


def evidence_of(rule: WatchRule, passed: Iterable[bool]) -> Evidence:
    """The evidence after these trials, in their order."""
    evidence = Evidence()
    for each in passed:
        evidence = evidence.after(rule, each)
    return evidence


def watch_reasons(
    rule: WatchRule, verifier_reasons: Callable[[str, list[str]], list[Reason]]
) -> list[Reason]:
    """Everything that is wrong with *rule*; *verifier_reasons* judges a list of verifiers."""
    reasons = verifier_reasons("watch", rule.verifiers)
    fallen, bar = _rate(rule.fallen), _rate(rule.bar)
    if fallen is None or bar is None or not fallen < bar:
        reasons.append(
            _no("watch-rates", 'fallen and bar are decimals with 0 < fallen < bar < 1, like "0.5"')
        )
    if _rate(rule.alpha) is None:
        reasons.append(_no("watch-alpha", 'alpha is a decimal between 0 and 1, like "0.01"'))
    if not 1 <= rule.every_s <= _MAX_EVERY_S:
        reasons.append(_no("watch-every", f"every_s is from 1 to {_MAX_EVERY_S}"))
    if not 1 <= rule.max_trials <= MAX_WATCH_TRIALS:
        reasons.append(_no("watch-trials", f"max_trials is from 1 to {MAX_WATCH_TRIALS}"))
    if not reasons and not _can_fall(rule):
        reasons.append(
            _no("watch-trials", "max_trials failures in a row would not show anything: allow more")
        )
    return reasons


def _can_fall(rule: WatchRule) -> bool:
    evidence = Evidence()
    for _ in range(min(rule.max_trials, 10_000)):
        evidence = evidence.after(rule, False)
        if evidence.is_enough(rule):
            return True
    return False


def _rate(text: str) -> Fraction | None:
    value = Fraction(text) if _RATE.fullmatch(text) else None
    return value or None


def _no(code: str, message: str) -> Reason:
    return Reason(code=code, message=message, where="watch")
