"""Which sessions were last active, as of any position, and which batches a turn was put into.

Of every call that joined a session stand here its position, its session, which one of the
session's calls it is, and where the ones before and after it stand: 24 bytes. So whether it was
its session's last one as of a position is seen at the call itself, and a page is read from its end
backwards.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

import msgspec

from reef_release.domain import events as ev
from reef_release.domain.events import Event
from reef_release.domain.state import State

__all__ = ["ActiveSession", "ActiveSessions", "SessionIndex"]

_NONE = 2**32 - 1
_MOST_LOOKED_AT = 20_000


class ActiveSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session as of a position: its last call then, at `position`, was its `calls`-th."""

    session_id: str
    number: int
    position: int
    calls: int


class ActiveSessions(msgspec.Struct, frozen=True, kw_only=True):
    """Some sessions, the last active first; more are to be looked for before `before`."""

    sessions: list[ActiveSession]
    before: int | None


class _Scenario:
    """The calls of one scenario's sessions in the order in which they were correlated."""

    __slots__ = (
        "batches",
        "befores",
        "began",
        "calls",
        "ids",
        "last",
        "nexts",
        "numbers",
        "positions",
        "sessions",
    )

    def __init__(self) -> None:
        self.batches: dict[str, tuple[str, ...]] = {}
        """By judged turn, in order."""
        self.positions = array("Q")
        self.sessions = array("I")
        self.calls = array("I")
        self.befores = array("I")
        self.nexts = array("I")
        self.ids: list[str] = []
        """The sessions in the order in which they began."""
        self.numbers: dict[str, int] = {}
        self.began = array("Q")
        """The position of each session's first call."""
        self.last = array("I")
        """The index of each session's last call."""

    def add(self, position: int, session_id: str) -> None:
        index = len(self.positions)
        number = self.numbers.get(session_id)
        if number is None:
            number = self.numbers[session_id] = len(self.ids)
            self.ids.append(session_id)
            self.befores.append(_NONE)
            self.began.append(position)
            self.last.append(index)
            self.calls.append(1)
        else:
            before = self.last[number]
            self.befores.append(before)
            self.nexts[before] = index
            self.calls.append(self.calls[before] + 1)
            self.last[number] = index
        self.positions.append(position)
        self.sessions.append(number)
        self.nexts.append(_NONE)

    def last_until(self, index: int, at: int) -> bool:
        """Whether no call followed in the session of the call *index* by *at*."""
        following = self.nexts[index]
        return following == _NONE or self.positions[following] > at


class SessionIndex:
    """The sessions of every scenario by their last call."""

    def __init__(self) -> None:
        self._scenarios: dict[str, _Scenario] = {}

    def number(self, scenario: str, session_id: str) -> int | None:
        """Which session of the scenario it is, from 0, in the order in which they began."""
        found = self._scenarios.get(scenario)
        return None if found is None else found.numbers.get(session_id)

    def calls(self, scenario: str, session_id: str, at: int) -> int:
        """How many calls the session had as of *at*; 0 when it had not begun."""
        found = self._scenarios.get(scenario)
        number = None if found is None else found.numbers.get(session_id)
        if found is None or number is None:
            return 0
        index = found.last[number]
        while index != _NONE and found.positions[index] > at:
            index = found.befores[index]
        return 0 if index == _NONE else found.calls[index]

    def active(
        self, scenario: str, at: int, limit: int, before: int | None = None
    ) -> ActiveSessions:
        """Up to *limit* sessions as of *at* whose last call stands before position *before*.

        At most 20,000 calls are looked at, so there may be fewer although there are more.
        """
        found = self._scenarios.get(scenario)
        if found is None:
            return ActiveSessions(sessions=[], before=None)
        until = at if before is None else min(at, before - 1)
        index = bisect_right(found.positions, until)
        lowest = max(0, index - _MOST_LOOKED_AT)
        sessions: list[ActiveSession] = []
        while index > lowest and len(sessions) < limit:
            index -= 1
            if found.last_until(index, at):
                number = found.sessions[index]
                sessions.append(
                    ActiveSession(
                        session_id=found.ids[number],
                        number=number,
                        position=found.positions[index],
                        calls=found.calls[index],
                    )
                )
        return ActiveSessions(sessions=sessions, before=found.positions[index] if index else None)

    def count(self, scenario: str, at: int) -> int:
        """How many sessions had begun by *at*."""
        found = self._scenarios.get(scenario)
        return 0 if found is None else bisect_right(found.began, at)

    def batches(self, scenario: str, turn_id: str) -> tuple[str, ...]:
        """The batches that the sample of a judged turn was put into, in order."""
        found = self._scenarios.get(scenario)
        return () if found is None else found.batches.get(turn_id, ())

    def apply(self, _state: State, event: Event) -> None:
        """Take in a valid event."""
        data = event.data
        if not isinstance(data, ev.TurnBound | ev.TurnUnbound | ev.BatchFormed):
            return
        name = event.envelope.scenario
        found = self._scenarios.get(name)
        if found is None:
            found = self._scenarios[name] = _Scenario()
        if isinstance(data, ev.BatchFormed):
            for sample in data.samples:
                found.batches[sample.turn_id] = (
                    *found.batches.get(sample.turn_id, ()),
                    data.batch_id,
                )
        else:
            found.add(event.envelope.position, data.session_id)
