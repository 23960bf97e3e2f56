"""One slot of a gate: what candidate and incumbent did on one task."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Replies", "Slot"]


class Replies(NamedTuple):
    """One side's attempts at a task: tokens of the whole reply, attempts, those cut short."""

    tokens: int
    attempts: int
    truncated: int


class Slot(NamedTuple):
    """Verdicts of both sides; an origin has no incumbent.

    `protected` names the task when the policy put it here instead of the draw. `replies` are those
    of candidate and incumbent, kept only for rules that measure them.
    """

    candidate: bool
    incumbent: bool | None = None
    protected: str | None = None
    replies: tuple[Replies, Replies | None] | None = None
