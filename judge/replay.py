"""Judging a file of turns without a service.

What always holds: a line is judged as the worker would judge it and its votes are put together
by the service's own rule; lines come out in the order in which they went in; nothing is posted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec

from judge.backend import Backend
from judge.prompts import last_index
from judge.voting import ask
from reef_release.domain.judging import judge_votes
from reef_release.errors import BadRequest
from reef_release.wire import Message, NextState, TurnAssignment, Vote

__all__ = ["JudgedLine", "read_turns", "replay"]


class _Earlier(msgspec.Struct, frozen=True, kw_only=True):
    index: int
    reply: str
    turn_id: str = ""


class _Next(msgspec.Struct, frozen=True, kw_only=True):
    messages: list[dict[str, Any]]
    role: Literal["user", "tool"] = "user"


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    """A turn as the service hands it out; what only the service needs may be missing."""

    turn_id: str
    reply: str
    next_state: _Next
    messages: list[dict[str, Any]] = []
    earlier: list[_Earlier] = []
    index: int = 0
    scenario: str = ""
    session_id: str = ""
    lease_id: str = ""
    lease_expires_at: str = ""


class JudgedLine(msgspec.Struct, frozen=True, kw_only=True):
    """What comes out for a turn; `valid` is how many of the `votes` counted."""

    turn_id: str
    score: int
    about: int
    rejected: str
    keep: str
    hints: tuple[str, ...]
    valid: int
    votes: list[Vote]


def read_turns(lines: Iterable[str]) -> Iterator[TurnAssignment]:
    """The turns in JSON *lines*; empty lines are skipped. Raises `BadRequest` with the line."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found = msgspec.json.decode(line, type=_Line)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            raise BadRequest(
                f"Line {number} is no turn: {error}.",
                next_step="Give turn_id, reply and next_state on each line; see `judge replay`"
                " in the documentation.",
            ) from error
        yield TurnAssignment(
            scenario=found.scenario,
            turn_id=found.turn_id,
            session_id=found.session_id,
            lease_id=found.lease_id,
            lease_expires_at=found.lease_expires_at,
            messages=found.messages,
            reply=found.reply,
            next_state=NextState(role=found.next_state.role, messages=found.next_state.messages),
            earlier=[
                Message(index=each.index, turn_id=each.turn_id, reply=each.reply)
                for each in found.earlier
            ],
            index=found.index,
        )


def replay(
    turns: Iterable[TurnAssignment], backend: Backend, *, votes: int, quorum: int = 1
) -> Iterator[JudgedLine]:
    """Judge the *turns*. Raises what the backend raises."""
    for turn in turns:
        given = ask(backend, turn, votes)
        found = judge_votes(given, last=last_index(turn), quorum=quorum)
        yield JudgedLine(
            turn_id=turn.turn_id,
            score=found.score,
            about=found.about,
            rejected=found.rejected,
            keep=found.keep,
            hints=found.hints,
            valid=found.valid,
            votes=given,
        )
