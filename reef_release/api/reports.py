"""Reports of clients: one per turn, the same again is no second one, another is refused."""

from __future__ import annotations

from reef_release.api.access import require_scenario
from reef_release.api.service import Service
from reef_release.artifacts.errors import BlobMissing
from reef_release.domain import events as ev
from reef_release.domain.canonical import decimalise
from reef_release.domain.state import Scenario
from reef_release.domain.traffic.records import Turn
from reef_release.errors import BadRequest, Conflict, NotFound, QueueFull, Refused, Unavailable
from reef_release.tokens import Principal
from reef_release.traffic_wire import ReportRequest

__all__ = ["receive_report"]

_MAX_REFERENCES = 100
_SPOOLED_S = 2.0
_FEEDBACK_LIMIT_BYTES = 1024 * 1024


async def receive_report(
    service: Service, principal: Principal, request: ReportRequest
) -> list[int]:
    """Record a report on each of its receipts; the positions of the events that are new.

    Everything is checked before anything is written. Raises `NotFound` for an unknown receipt,
    `Conflict` where another report was received, and `Unavailable` for a call on its way.
    """
    if not 1 <= len(request.references) <= _MAX_REFERENCES:
        raise BadRequest(f"A report refers to between 1 and {_MAX_REFERENCES} receipts.")
    if request.score is None and request.feedback is None:
        raise BadRequest("A report has a score or feedback.", next_step="Send one of the two.")
    feedback = None if request.feedback is None else request.feedback.encode("utf-8")
    if feedback is not None and len(feedback) > _FEEDBACK_LIMIT_BYTES:
        raise BadRequest(f"Feedback has at most {_FEEDBACK_LIMIT_BYTES} bytes.")
    score = None if request.score is None else str(decimalise(request.score))
    if not await service.spool.logged(request.references, _SPOOLED_S):
        raise Unavailable(
            "The call is answered, or about to be, and not in the log yet.",
            next_step="Report on it in a moment.",
        )
    new = []
    for reference in dict.fromkeys(request.references):
        scenario, turn = _find(service, reference)
        require_scenario(principal, scenario.name)
        if turn.report is None:
            new.append((scenario, turn))
        elif not await _is_same(service, turn.report, score, feedback):
            raise Conflict(
                f"Another report of {reference} was received.",
                next_step="A reply is reported once; the first report stands.",
            )
    digest = None
    if new and feedback is not None:
        await service.log.check()
        digest = await service.blobs.put_body(feedback)
    positions: list[int] = []
    for scenario, turn in new:
        event = ev.ReportReceived(turn_id=turn.turn_id, score=score, feedback=digest)
        try:
            appended, _ = await service.commands.append(principal.name, scenario.name, event)
        except (Conflict, NotFound, QueueFull, Refused):
            if digest is not None and not positions:
                await service.blobs.erase(digest)  # no event names it, so nobody could erase it
            raise
        positions.append(appended.position)
    return positions


def _find(service: Service, reference: str) -> tuple[Scenario, Turn]:
    for scenario in service.state.scenarios.values():
        turn = scenario.traffic.turns.get(reference)
        if turn is not None:
            return scenario, turn
    raise NotFound(
        f"There is no receipt {reference[:50]!r}.",
        next_step="Refer to the x-reef-agent-record-id of a recorded call.",
    )


async def _is_same(
    service: Service,
    known: tuple[str | None, str | None],
    score: str | None,
    feedback: bytes | None,
) -> bool:
    known_score, digest = known
    if known_score != score or (digest is None) != (feedback is None):
        return False
    if digest is None:
        return True
    try:
        return await service.blobs.read_body(digest, _FEEDBACK_LIMIT_BYTES) == feedback
    except BlobMissing:
        return False
