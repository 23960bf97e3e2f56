"""What is open of one client in a scenario: its sessions and turns, bounded in number and time.

A session is forgotten when nothing came for `expiry_s`. Of a session only its last turns are
kept, and when there are too many turns in all, only the very last one, of the longest silent
session first; when each has one turn, the longest silent session is forgotten. What was forgotten
leaves the hash of its transcript behind, so that a call that comes too late is told why it is
unbound.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from reef_release.domain.correlation.habits import Habits
from reef_release.domain.correlation.index import TurnIndex
from reef_release.domain.correlation.tags import TagBook
from reef_release.domain.correlation.turn import Turn

__all__ = ["Limits", "Memory", "Session"]

_TURNS_PER_SESSION = 8
_REMEMBERED_LOSSES = 20_000


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much is kept per client of a scenario: by event time, and in turns (1.2 to 2.5 KB each).

    `tag_alone_s` is how long a tag can go without a call and still be believed when nothing else
    speaks for a call.
    """

    expiry_s: float = 3 * 24 * 3600.0
    tag_alone_s: float = 6 * 3600.0
    max_turns: int = 200_000
    max_tags: int = 100_000


class Session(msgspec.Struct, kw_only=True):
    """One conversation: its last turns, oldest first."""

    session_id: str
    last_s: float
    turns: list[Turn] = msgspec.field(default_factory=list)


class Memory:
    """The open sessions of a client, the longest silent one first."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.index = TurnIndex()
        self.tags = TagBook(limits.max_tags)
        self.habits = Habits()
        self.now_s = float("-inf")
        self.turn_count = 0
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._long: OrderedDict[str, Session] = OrderedDict()
        self._lost: OrderedDict[bytes, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def advance(self, at_s: float) -> None:
        """Let event time go on to *at_s* (it never goes back) and forget what expires by it."""
        self.now_s = max(self.now_s, at_s)
        before_s = self.now_s - self.limits.expiry_s
        while self._sessions:
            session = next(iter(self._sessions.values()))
            if session.last_s >= before_s:
                break
            self._forget(session)
        self.tags.expire(before_s)

    def add(self, turn: Turn) -> None:
        """Remember a turn in its session, which begins with it if it is unknown."""
        session = self._sessions.get(turn.session_id)
        if session is None:
            session = Session(session_id=turn.session_id, last_s=self.now_s)
            self._sessions[turn.session_id] = session
        session.turns.append(turn)
        self.index.add(turn)
        self.turn_count += 1
        self.touch(turn.session_id)
        if len(session.turns) > _TURNS_PER_SESSION:
            self._drop(session.turns.pop(0))
        if len(session.turns) > 1:
            self._long[turn.session_id] = session
        while self.turn_count > self.limits.max_turns and len(self._sessions) > 1:
            self._make_room()

    def touch(self, session_id: str) -> None:
        """Note that something came in this session just now."""
        session = self._sessions.get(session_id)
        if session is not None:
            session.last_s = self.now_s
            self._sessions.move_to_end(session_id)
            if session_id in self._long:
                self._long.move_to_end(session_id)

    def turn(self, session_id: str, call_id: str | None) -> Turn | None:
        """The turn of a session with this id, while it is remembered."""
        session = self._sessions.get(session_id)
        turns = () if session is None else session.turns
        return next((each for each in turns if each.call_id == call_id), None)

    def was_lost(self, transcript: bytes) -> bool:
        """Whether a reply with this transcript was served and forgotten since."""
        return transcript in self._lost

    def _make_room(self) -> None:
        """Forget a turn that nobody will miss soon; the last one of a session only at last."""
        if not self._long:
            self._forget(next(iter(self._sessions.values())))
            return
        session = next(iter(self._long.values()))
        self._drop(session.turns.pop(0))
        if len(session.turns) == 1:
            del self._long[session.session_id]

    def _forget(self, session: Session) -> None:
        del self._sessions[session.session_id]
        self._long.pop(session.session_id, None)
        for turn in session.turns:
            self._drop(turn)

    def _drop(self, turn: Turn) -> None:
        self.index.remove(turn)
        self.tags.forget(turn)
        self.turn_count -= 1
        if turn.transcript is not None:
            self._lost[turn.transcript] = None
            if len(self._lost) > _REMEMBERED_LOSSES:
                self._lost.popitem(last=False)
