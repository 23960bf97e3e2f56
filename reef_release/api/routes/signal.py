"""Signal health and sessions over HTTP: what became of the traffic, and how it was matched."""

from __future__ import annotations

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery

from reef_release.api.access import requires
from reef_release.api.problems import READ_PROBLEMS
from reef_release.api.proxy.health import spool_findings
from reef_release.api.service import Service
from reef_release.domain.reasons import Reason
from reef_release.domain.state import Scenario
from reef_release.domain.traffic.records import Session, Traffic, Turn
from reef_release.errors import BadRequest, NotFound
from reef_release.projections.signal import Counts
from reef_release.projections.signal_findings import signal_findings, waiting_samples
from reef_release.tokens import TokenRole
from reef_release.traffic_wire import (
    HourView,
    OpenView,
    SessionSummary,
    SessionsView,
    SessionView,
    SignalView,
    TurnView,
)

__all__ = ["SIGNAL_HANDLERS"]

_READERS = requires(*TokenRole)
_SESSION_READERS = requires(TokenRole.INGEST, TokenRole.JUDGE, TokenRole.AUDIT, TokenRole.OPERATE)
_MAX_PAGE = 1000
_MAX_HOURS = 24 * 31


@get(
    "/reef/scenarios/{scenario:str}/signal",
    guards=[_READERS],
    summary="Show signal health",
    responses=READ_PROBLEMS,
)
async def show_signal(
    scenario: FromPath[str], service: NamedDependency[Service], hours: FromQuery[int] = 24
) -> SignalView:
    """How much of the traffic became training data, and why the rest did not.

    In total and for the last *hours* hours in which there were calls.
    """
    found = service.scenario(scenario)
    if not 0 <= hours <= _MAX_HOURS:
        raise BadRequest(f"Ask for between 0 and {_MAX_HOURS} hours.")
    traffic, total = found.traffic, service.signal.total(scenario)
    shown = service.signal.hours(scenario, last=hours).items()
    return SignalView(
        scenario=scenario,
        position=service.state.position,
        alarm=traffic.alarm_reason,
        unbound_run=traffic.unbound_run.total(),
        unbound_reasons=dict(traffic.unbound_run.reasons),
        suspended_judges=len(traffic.suspended),
        total=_hour("", total),
        hours=[_hour(f"{name}:00:00Z", counts) for name, counts in shown],
        waiting=_waiting(found, service.settings.batch_size),
        findings=[
            Reason(code=each.code, message=each.message, where=each.tag or "")
            for each in await service.correlating.findings(scenario)
        ]
        + signal_findings(service.state, found, total)
        + spool_findings(service.spool),
    )


@get(
    "/reef/scenarios/{scenario:str}/sessions",
    guards=[_SESSION_READERS],
    summary="List sessions",
    responses=READ_PROBLEMS,
)
async def list_sessions(
    scenario: FromPath[str],
    service: NamedDependency[Service],
    after: FromQuery[str | None] = None,
    limit: FromQuery[int] = 100,
) -> SessionsView:
    """Sessions in the order in which they began; the next page begins *after* the last id."""
    traffic = service.scenario(scenario).traffic
    if not 1 <= limit <= _MAX_PAGE:
        raise BadRequest(f"A page has between 1 and {_MAX_PAGE} sessions.")
    names = list(traffic.sessions)
    start = 0
    if after is not None:
        if after not in traffic.sessions:
            raise NotFound(f"There is no session {after!r}.")
        start = names.index(after) + 1
    page = [traffic.sessions[name] for name in names[start : start + limit]]
    return SessionsView(
        sessions=[
            SessionSummary(
                session_id=each.session_id,
                last_at=each.last_at,
                call_count=len(each.calls),
                expired=each.expired,
            )
            for each in page
        ],
        next_after=page[-1].session_id if start + limit < len(names) else None,
    )


@get(
    "/reef/scenarios/{scenario:str}/sessions/{session_id:str}",
    guards=[_SESSION_READERS],
    summary="Show a session",
    responses=READ_PROBLEMS,
)
async def show_session(
    scenario: FromPath[str], session_id: FromPath[str], service: NamedDependency[Service]
) -> SessionView:
    """Its calls, what each continues, and how that was found; no word of what was said."""
    traffic = service.scenario(scenario).traffic
    session = traffic.sessions.get(session_id)
    if session is None:
        raise NotFound(
            f"There is no session {session_id!r}.",
            next_step="A session has the id of its first call.",
        )
    return _session(traffic, session)


def _session(traffic: Traffic, session: Session) -> SessionView:
    return SessionView(
        session_id=session.session_id,
        last_at=session.last_at,
        expired=session.expired,
        turns=[_turn(traffic.turns[each]) for each in session.calls],
    )


def _turn(turn: Turn) -> TurnView:
    return TurnView(
        turn_id=turn.turn_id,
        at=turn.at,
        position=turn.position,
        kind=turn.kind,
        follows=turn.follows,
        method=turn.method,
        reason=turn.reason,
        replaces=turn.replaces,
        next_id=turn.next_id,
        superseded_by=turn.superseded_by,
        error=turn.error,
        finish_reason=turn.finish_reason,
        release_id=turn.release_id,
        tag=turn.tag,
        token_fault=turn.token_fault,
        score=turn.judged.score if turn.judged else None,
        about=turn.judged.about if turn.judged else None,
        judging_failures=turn.failures,
        refused=turn.refused,
        batch_id=turn.batch_id,
        erased=turn.erased,
    )


def _hour(hour: str, counts: Counts) -> HourView:
    return HourView(hour=hour, **msgspec.to_builtins(counts))


def _waiting(scenario: Scenario, batch_size: int) -> OpenView:
    traffic = scenario.traffic
    ready, held = waiting_samples(scenario)
    open_batches = [traffic.batches[each] for each in traffic.open_batches]
    return OpenView(
        sessions=len(traffic.open_sessions),
        to_correlate=len(traffic.uncorrelated),
        to_judge=len(traffic.to_judge),
        samples=ready,
        held=held,
        batch_size=batch_size,
        batches=len(traffic.open_batches),
        claimed=sum(batch.lease_id is not None for batch in open_batches),
        training=sum(batch.attempt is not None for batch in open_batches),
        completed=len(traffic.unsettled),
    )


SIGNAL_HANDLERS = [list_sessions, show_session, show_signal]
