"""How a scenario learned: judgments by session and by release, and where its training stands.

As of any position. Of every judgment it keeps 24 bytes, of every training step and every trained
batch 8; the metrics themselves are read from the log where they are shown.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence

import msgspec

from reef_release.domain import events as ev
from reef_release.domain.events import Event
from reef_release.domain.state import State
from reef_release.projections.journal import Journal
from reef_release.projections.sessions import SessionIndex

__all__ = ["Learning", "Scores"]

_REJECTED, _NEITHER, _ACCEPTED = range(3)
_KINDS = 3


class Scores(msgspec.Struct, frozen=True, kw_only=True):
    """How many judged turns were accepted, rejected, or neither."""

    accepted: int = 0
    rejected: int = 0
    neither: int = 0

    @property
    def judged(self) -> int:
        """All of them."""
        return self.accepted + self.rejected + self.neither


class _Scenario:
    __slots__ = ("by_release", "by_session", "releases", "steps", "trained")

    def __init__(self) -> None:
        self.by_session = Journal()
        self.by_release = Journal()
        self.releases: dict[str, int] = {}
        """The number of each release that a judged reply was of."""
        self.steps = array("Q")
        """The positions of training steps."""
        self.trained = array("Q")
        """The positions of completed trainings."""


class Learning:
    """Judgments and training of every scenario; *sessions* is fed before it."""

    def __init__(self, sessions: SessionIndex) -> None:
        self._sessions = sessions
        self._scenarios: dict[str, _Scenario] = {}

    def sessions(self, scenario: str, at: int, most: int) -> list[tuple[int, int, Scores]]:
        """The judgments as of *at* on the sessions, in the order in which these began.

        At most *most* groups of sessions that follow one another, all of one size but the last,
        as (first session's number from 0, how many sessions, scores).
        """
        found = self._scenarios.get(scenario)
        if found is None or found.by_session.length(at) == 0:
            return []
        total = self._sessions.count(scenario, at)
        counts = found.by_session.counts(at)
        size = -(-total // most)
        return [
            (first, min(size, total - first), _scores(counts, first, first + size))
            for first in range(0, total, size)
        ]

    def releases(self, scenario: str, at: int) -> dict[str, Scores]:
        """The judgments as of *at* by the release that gave the reply, "" for an unknown one."""
        found = self._scenarios.get(scenario)
        if found is None:
            return {}
        counts = found.by_release.counts(at)
        by_release = {
            release: _scores(counts, number, number + 1)
            for release, number in found.releases.items()
        }
        return {release: scores for release, scores in by_release.items() if scores.judged}

    def steps(self, scenario: str, at: int, most: int) -> tuple[int, list[int]]:
        """How many training steps were made by *at*, and the positions of up to *most* of them."""
        found = self._scenarios.get(scenario)
        return (0, []) if found is None else _spread(found.steps, at, most)

    def trained(self, scenario: str, at: int, most: int) -> tuple[int, list[int]]:
        """How many batches were trained by *at*, and the positions of up to *most* of them."""
        found = self._scenarios.get(scenario)
        return (0, []) if found is None else _spread(found.trained, at, most)

    def apply(self, state: State, event: Event) -> None:
        """Take in a valid event."""
        data = event.data
        if not isinstance(data, ev.TurnJudged | ev.TrainingStep | ev.TrainingCompleted):
            return
        name = event.envelope.scenario
        found = self._scenarios.get(name)
        if found is None:
            found = self._scenarios[name] = _Scenario()
        position = event.envelope.position
        match data:
            case ev.TrainingStep():
                found.steps.append(position)
            case ev.TrainingCompleted():
                found.trained.append(position)
            case ev.TurnJudged():
                turns = state.scenarios[name].traffic.turns
                turn = turns[data.turn_id]
                kind = _NEITHER + data.score
                number = self._sessions.number(name, turn.session_id or "")
                if number is not None:
                    found.by_session.add(position, number * _KINDS + kind)
                release_id = turns[data.target or data.turn_id].release_id or ""
                release = found.releases.setdefault(release_id, len(found.releases))
                found.by_release.add(position, release * _KINDS + kind)


def _scores(counts: Sequence[int], first: int, end: int) -> Scores:
    part = counts[first * _KINDS : end * _KINDS]
    return Scores(
        accepted=sum(part[_ACCEPTED::_KINDS]),
        rejected=sum(part[_REJECTED::_KINDS]),
        neither=sum(part[_NEITHER::_KINDS]),
    )


def _spread(positions: Sequence[int], at: int, most: int) -> tuple[int, list[int]]:
    """Evenly spread ones up to *at*, the last one among them."""
    count = bisect_right(positions, at)
    every = -(-count // most) or 1
    return count, list(positions[:count][::-1][::every])[::-1]
