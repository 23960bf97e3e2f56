"""Erasing on request, as the API and the pages do it: a turn, a session, a tag, or what is old."""

from __future__ import annotations

from reef_release.api.erasing import MOST_AT_ONCE
from reef_release.api.service import Service
from reef_release.domain.copies import (
    Body,
    OldCalls,
    bodies_of_calls,
    calls_of_session,
    calls_of_tag,
    calls_of_turn,
    releases_trained_on,
)
from reef_release.domain.state import Erasure, Scenario
from reef_release.domain.traffic.records import Turn
from reef_release.errors import BadRequest, NotFound
from reef_release.privacy_wire import BodyView, ErasureRequest, ErasureView, TrainedView

__all__ = ["body_view", "erase_all"]

_LONGEST_S = 100 * 366 * 86_400.0


async def erase_all(
    service: Service, actor: str, scenario: str, wanted: ErasureRequest
) -> ErasureView:
    """Erase what is *wanted*, at most 1,000 bodies of it at once, or say what that would be.

    Raises `BadRequest`, `NotFound`, and what `Erasing.erase` does.
    """
    found = service.scenario(scenario)
    calls = _calls(service, found, wanted)
    bodies = list(bodies_of_calls(service.state, found.traffic, calls))
    now = bodies[:MOST_AT_ONCE]
    old = OldCalls(0, 0, 0)
    if wanted.older_than_s is not None:
        old = service.erasing.old(found, wanted.older_than_s)
    known: dict[str, Erasure] = {}
    if not wanted.dry_run:
        erased = await service.erasing.erase(actor, scenario, now, wanted.reason)
        known = {each.digest: each for each in erased}
        now = [body for body in now if body.digest in known]
    return ErasureView(
        bodies=[body_view(scenario, body, known.get(body.digest)) for body in now],
        calls=len({body.turn.turn_id for body in bodies if body.kind == "call"}),
        remaining=len(bodies) - len(now),
        trained_into=_trained_into(found, bodies),
        old_calls=old.all,
        open_calls=old.open,
        needed_calls=old.needed,
    )


def _trained_into(scenario: Scenario, bodies: list[Body]) -> list[TrainedView]:
    found = [
        TrainedView(release_id=release.release_id, position=release.promoted_position)
        for each in releases_trained_on(scenario.traffic, (body.turn for body in bodies))
        if (release := scenario.releases[each]).promoted_position is not None
    ]
    return sorted(found, key=lambda each: each.position)


def _calls(service: Service, scenario: Scenario, data: ErasureRequest) -> list[Turn]:
    traffic = scenario.traffic
    given = (data.turn_id, data.session_id, data.tag, data.older_than_s)
    if sum(each is not None for each in given) != 1:
        raise BadRequest(
            "An erasure is of a turn, a session, a tag, or of sessions that are old.",
            next_step="Give exactly one of turn_id, session_id, tag and older_than_s.",
        )
    if data.turn_id is not None:
        turn = traffic.turns.get(data.turn_id)
        if turn is None:
            raise NotFound(
                f"There is no turn {data.turn_id[:64]!r} in {scenario.name!r}.",
                next_step="Give the whole receipt of the call (its answer had it in the header "
                "x-reef-agent-record-id, and the session's page shows it); a call that was just "
                "answered is in the log in a moment.",
            )
        return calls_of_turn(traffic, turn, only=data.only)
    if data.session_id is not None:
        if data.session_id not in traffic.sessions:
            raise NotFound(
                f"There is no session {data.session_id[:64]!r} in {scenario.name!r}.",
                next_step="Give its whole id, which is the receipt of its first call: the page of "
                f"sessions and `GET /reef/scenarios/{scenario.name}/sessions` show it.",
            )
        return calls_of_session(traffic, data.session_id)
    if data.tag is not None:
        tagged = calls_of_tag(traffic, data.tag, only=data.only)
        if not tagged:
            raise NotFound(
                f"No call in {scenario.name!r} has the tag {data.tag[:64]!r}.",
                next_step="Look at the tags of its sessions; a call that was just answered is in "
                "the log in a moment.",
            )
        return tagged
    age_s = data.older_than_s or 0.0
    if not 0 < age_s < _LONGEST_S:
        raise BadRequest("An age is a number of seconds above 0, and at most a hundred years.")
    calls: list[Turn] = []
    for session_id in service.erasing.past(scenario, age_s):
        calls += calls_of_session(traffic, session_id)
    return calls


def body_view(scenario: str, body: Body, erasure: Erasure | None) -> BodyView:
    """A body as the API tells of it."""
    return BodyView(
        scenario=scenario,
        turn_id=body.turn.turn_id,
        kind=body.kind,
        digest=body.digest,
        at=body.turn.at,
        position=None if erasure is None else erasure.position,
        event_id=None if erasure is None else erasure.event_id,
    )
