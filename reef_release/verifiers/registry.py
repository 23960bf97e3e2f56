"""Which verifiers exist, and the verdict of several on one reply.

Policies and records always name a version ("answer@1"). A bare name ("answer") means the newest
version and is a convenience of the command line; it is resolved by `resolve` and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from reef_release.errors import BadRequest, NotFound
from reef_release.verifiers.check import Check, Verdict, Verifier
from reef_release.verifiers.v1.answer import ANSWER_V1
from reef_release.verifiers.v1.style import STYLE_V1
from reef_release.verifiers.v1.work_steps import WORK_STEPS_V1

__all__ = ["VERIFIERS", "get", "is_objective", "resolve", "verdict"]

VERIFIERS: Mapping[str, Verifier] = MappingProxyType(
    {verifier.spec: verifier for verifier in (ANSWER_V1, WORK_STEPS_V1, STYLE_V1)}
)
"""Every shipped version by its spec. Versions are added, never removed."""

_BARE = re.compile(r"[a-z][a-z0-9_]*")


def get(spec: str) -> Verifier:
    """The verifier of *spec*, such as "answer@1"; `NotFound` if no such version is shipped."""
    verifier = VERIFIERS.get(spec)
    if verifier is None:
        raise NotFound(
            f"There is no verifier {spec!r}.",
            next_step=f"Name one with its version: {', '.join(sorted(VERIFIERS))}.",
        )
    return verifier


def is_objective(spec: str) -> bool | None:
    """Whether *spec* decides by the right answer alone; None if it is not a known spec."""
    verifier = VERIFIERS.get(spec)
    return None if verifier is None else verifier.objective


def resolve(name: str) -> str:
    """The spec that *name* stands for: itself if it has a version, else the newest version."""
    if _BARE.fullmatch(name):
        versions = [verifier for verifier in VERIFIERS.values() if verifier.name == name]
        if versions:
            return max(versions, key=lambda verifier: verifier.version).spec
    return get(name).spec


def verdict(specs: Sequence[str], reply: str, answer: str) -> Verdict:
    """What the verifiers named by *specs* (with versions) say of *reply*; all must pass.

    Raises `NotFound` for an unknown spec, and `BadRequest` for an empty or repeating list or an
    *answer* that a verifier cannot compare with. No reply makes it raise.
    """
    if not specs or len(set(specs)) != len(specs):
        raise BadRequest(
            "A verdict needs at least one verifier, and each only once.",
            next_step='Give a list such as ["answer@1", "work_steps@1", "style@1"].',
        )
    verifiers = [get(spec) for spec in specs]
    checks: dict[str, Check] = {v.spec: v.check(reply, answer) for v in verifiers}
    return Verdict(passed=all(check.passed for check in checks.values()), checks=checks)
