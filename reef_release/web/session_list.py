"""The sessions of a scenario by their last call, a page at a time, as of a position."""

from __future__ import annotations

from dataclasses import dataclass

from reef_release.domain.state import Scenario
from reef_release.projections.sessions import ActiveSession, SessionIndex

__all__ = ["PAGE", "SessionList", "SessionRow", "session_list"]

PAGE = 50
_MOST_CALLS = 200


@dataclass(frozen=True, kw_only=True)
class SessionRow:
    """One session; scores are those of its last 200 calls."""

    session_id: str
    number: int
    position: int
    calls: int
    first_at: str
    last_at: str
    tag: str | None
    release_id: str | None
    accepted: int
    rejected: int
    neither: int


@dataclass(frozen=True, kw_only=True)
class SessionList:
    """A page of sessions, the last active first; the next page begins before `before`."""

    rows: tuple[SessionRow, ...]
    total: int
    before: int | None


def session_list(
    scenario: Scenario, index: SessionIndex, at: int, before: int | None = None
) -> SessionList:
    """The sessions as of *at* whose last call stands before the position *before*."""
    found = index.active(scenario.name, at, PAGE, before)
    return SessionList(
        rows=tuple(_row(scenario, each, at) for each in found.sessions),
        total=index.count(scenario.name, at),
        before=found.before,
    )


def _row(scenario: Scenario, active: ActiveSession, at: int) -> SessionRow:
    turns = scenario.traffic.turns
    calls = scenario.traffic.sessions[active.session_id].calls[: active.calls]
    newest = [turns[call] for call in calls[-_MOST_CALLS:]]
    scores = [
        turn.judged.score
        for turn in newest
        if turn.judged is not None and turn.judged.position <= at
    ]
    return SessionRow(
        session_id=active.session_id,
        number=active.number + 1,
        position=active.position,
        calls=active.calls,
        first_at=turns[calls[0]].at,
        last_at=newest[-1].at,
        tag=newest[-1].tag,
        release_id=newest[-1].release_id,
        accepted=scores.count(1),
        rejected=scores.count(-1),
        neither=scores.count(0),
    )
