"""What a verifier says of one reply, as values.

A verifier is a pure function of the reply and the right answer: the same two strings give the
same `Check` on every machine and for ever. The reply is data; nothing in it is an instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

__all__ = ["Check", "Verdict", "Verifier"]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One verifier's finding.

    `found` is what stands in the reply (an excerpt, at most a few hundred characters; "" if
    nothing was found), `why` says in plain words why that passes or fails. Neither repeats the
    right answer, so both may be shown to people who must not see it.
    """

    passed: bool
    found: str
    why: str


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """All checks of one reply, keyed by the spec they were asked for; passed if all passed."""

    passed: bool
    checks: Mapping[str, Check]


class Verifier(msgspec.Struct, frozen=True, kw_only=True):
    """One shipped version of one verifier.

    `objective` means that it decides by the right answer alone, so a policy that contains it
    cannot be satisfied by form. `check(reply, answer)` raises `BadRequest` when *answer* is
    nothing that it can compare with; no reply makes it raise.
    """

    name: str
    version: int
    objective: bool
    summary: str
    check: Callable[[str, str], Check]

    @property
    def spec(self) -> str:
        """Name and version as policies write them: "answer@1"."""
        return f"{self.name}@{self.version}"
