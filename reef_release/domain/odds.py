"""The exact probability that a candidate of true pass rate p gets through a rule.

The trials are a Markov chain over (passes in a row, failures so far), so the probability is
a finite sum; rational arithmetic keeps it exact. Feller, An Introduction to Probability
Theory I, chapter XIII.7 (success runs) treats the chain without the failure limit.
"""

from __future__ import annotations

from fractions import Fraction

from reef_release.domain.policy import ConsecutivePasses

__all__ = ["pass_probability"]


def pass_probability(rule: ConsecutivePasses, p: Fraction) -> Fraction:
    """P(gate passes) when each trial passes independently with probability *p* in [0, 1]."""
    states: dict[tuple[int, int], Fraction] = {(0, 0): Fraction(1)}
    passed = Fraction(0)
    for _ in range(rule.max_trials):
        following: dict[tuple[int, int], Fraction] = {}
        for (run, failures), weight in states.items():
            if run + 1 == rule.k:
                passed += weight * p
            else:
                key = (run + 1, failures)
                following[key] = following.get(key, Fraction(0)) + weight * p
            if failures + 1 < rule.max_failures:
                key = (0, failures + 1)
                following[key] = following.get(key, Fraction(0)) + weight * (1 - p)
        states = following
    return passed
