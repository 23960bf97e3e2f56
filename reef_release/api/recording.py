"""Recording an interaction: its bodies become one salted blob, the call an event.

The interaction's id is the event's id, so the log itself keeps one id for one content, for ever:
the same interaction again gets its first receipt, another one under its id is a conflict.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from reef_release.api.bodies import BODY_LIMIT_BYTES, InteractionBody, decode_body
from reef_release.api.proxy.nesting import MAX_DEPTH, is_too_deep
from reef_release.api.service import Service
from reef_release.artifacts.errors import BlobMissing
from reef_release.domain import events as ev
from reef_release.domain.reasons import Reason
from reef_release.domain.state import Scenario
from reef_release.domain.traffic.reasons import REFUSALS, training_fault
from reef_release.domain.traffic.records import Turn
from reef_release.domain.traffic.times import written_time
from reef_release.domain.traffic.tokens import temperature_fault, token_fault
from reef_release.errors import BadRequest, Conflict, NotFound, QueueFull, Refused
from reef_release.ids import uuid7
from reef_release.log import IdConflict
from reef_release.traffic_wire import InteractionRequest, Receipt

__all__ = ["Prepared", "append", "prepare", "record"]

_UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_MAX_NAME = 500
_BROKEN_OFF = frozenset({"abort", "cancelled", "canceled", "content_filter", "error"})
"""Ways to finish of a reply that is not whole, as model servers name them."""
_FIRST_YEAR = 2000
_MAX_AHEAD = timedelta(minutes=5)


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """An interaction whose body is stored; its event is still to be appended."""

    request: InteractionRequest
    event: ev.InteractionRecorded | ev.InteractionFailed
    body: bytes
    is_kept: bool
    """Whether its sender keeps it under its salt, and tries again: it will be the same blob."""


async def record(
    service: Service, actor: str, scenario: Scenario, request: InteractionRequest
) -> Receipt:
    """Record one interaction.

    Raises `BadRequest`, `Conflict` when its id stands for another one, and what an append raises.
    """
    return await append(service, actor, scenario, await prepare(service, scenario, request))


async def prepare(
    service: Service,
    scenario: Scenario,
    request: InteractionRequest,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    salt: bytes | None = None,
    fault: str | None = None,
) -> Prepared | Receipt:
    """Check an interaction and store its body; the receipt if it was recorded before.

    With the same *salt* again it is the same blob. *fault* is why its token data cannot be
    trained on, even if nothing is wrong with them. Raises `BadRequest`, and `LogUnavailable`
    before anything is stored.
    """
    _check(request)
    if request.error is None and request.finish_reason in _BROKEN_OFF:
        request = msgspec.structs.replace(request, error="upstream-error", finish_reason=None)
    body = msgspec.json.encode(
        InteractionBody(
            messages=request.messages,
            reply=request.reply,
            tools=request.tools,
            temperature=request.temperature,
            prompt_token_ids=request.prompt_token_ids,
            token_ids=request.token_ids,
            logprobs=request.logprobs,
            mask=request.mask,
        )
    )
    if len(body) > BODY_LIMIT_BYTES:
        raise BadRequest(
            f"The interaction has {len(body)} bytes; at most {BODY_LIMIT_BYTES} are recorded."
        )
    known = scenario.traffic.turns.get(request.interaction_id or "")
    if known is not None:
        return await _receipt_again(service, scenario, known, request, body)
    at = _time(request.at, clock())
    await service.log.check()  # no event would name the blob, and nobody could erase it
    digest = await service.blobs.put_body(body, salt)
    shared: dict[str, Any] = {
        "interaction_id": request.interaction_id or uuid7(),
        "at": at,
        "tag": request.tag,
        "turn_type": request.turn_type,
        "model": request.model,
        "release_id": request.release_id,
        "body": digest,
        "size_bytes": len(body),
    }
    event: ev.InteractionRecorded | ev.InteractionFailed
    if request.error is not None:
        event = ev.InteractionFailed(**shared, error=request.error, status=request.status)
    else:
        event = ev.InteractionRecorded(
            **shared,
            finish_reason=request.finish_reason,
            token_count=None if request.token_ids is None else len(request.token_ids),
            token_fault=token_fault(
                request.prompt_token_ids, request.token_ids, request.logprobs, request.mask
            )
            or temperature_fault(request.temperature)
            or fault,
        )
    return Prepared(request=request, event=event, body=body, is_kept=salt is not None)


async def append(
    service: Service, actor: str, scenario: Scenario, prepared: Prepared | Receipt
) -> Receipt:
    """Append what `prepare` returned. Raises as `record` does."""
    if isinstance(prepared, Receipt):
        return prepared
    interaction_id = prepared.event.interaction_id
    try:
        appended, _ = await service.commands.append(
            actor, scenario.name, prepared.event, event_id=interaction_id
        )
    except (BadRequest, NotFound, Refused):
        await service.blobs.erase(prepared.event.body)  # no event names it: nobody could erase it
        raise
    except QueueFull:
        if not prepared.is_kept:  # kept, an earlier try may have appended what names it
            await service.blobs.erase(prepared.event.body)  # nothing was appended
        raise
    except Conflict as conflict:
        # Sent twice at once: whoever was first is stored, and perhaps not folded here yet.
        if isinstance(conflict, IdConflict):
            await service.live.wait_for(conflict.extra["position"])
        known = scenario.traffic.turns.get(interaction_id)
        if known is None or known.erased or known.body != prepared.event.body:
            await service.blobs.erase(prepared.event.body)  # nothing needs it
        if known is None:
            raise
        return await _receipt_again(service, scenario, known, prepared.request, prepared.body)
    return Receipt(
        interaction_id=interaction_id,
        position=appended.position,
        duplicate=appended.duplicate,
        notes=_notes(scenario, prepared.event),
    )


async def _receipt_again(
    service: Service, scenario: Scenario, known: Turn, request: InteractionRequest, body: bytes
) -> Receipt:
    try:
        stored = await service.blobs.read_body(known.body, BODY_LIMIT_BYTES)
    except BlobMissing:
        stored = b"null"  # erased: nobody can say any more that it is the same
    same = (
        _same_body(stored, body)
        and (known.tag, known.turn_type) == (request.tag, request.turn_type)
        and known.error == request.error
        and (known.release_id, known.finish_reason) == (request.release_id, request.finish_reason)
        and (request.at is None or written_time(_parsed(request.at)) == known.at)
    )
    if not same:
        raise Conflict(
            f"The interaction {known.turn_id} was recorded with other content.",
            next_step="Give every interaction an id of its own.",
        )
    return Receipt(
        interaction_id=known.turn_id,
        position=known.position,
        duplicate=True,
        notes=_notes(scenario, known),
    )


def _notes(
    scenario: Scenario, call: ev.InteractionRecorded | ev.InteractionFailed | Turn
) -> list[Reason]:
    """Why an answered call, although it is recorded, can never train."""
    if isinstance(call, ev.InteractionFailed) or call.turn_type == "side":
        return []
    if isinstance(call, Turn) and call.error is not None:
        return []
    fault = training_fault(scenario.releases, call.release_id, call.token_fault)
    if fault is None:
        return []
    where = "release_id" if call.token_fault is None else "token data"
    message = f"The reply can never be trained on. {REFUSALS.get(fault, '')}"
    return [Reason(code=fault, message=message, where=where)]


def _same_body(stored: bytes, body: bytes) -> bool:
    """Whether two bodies say the same; an older one was written without the newest fields."""
    try:
        return stored == body or decode_body(stored) == decode_body(body)
    except msgspec.DecodeError:
        return False


def _check(request: InteractionRequest) -> None:
    if not request.messages:
        raise BadRequest("An interaction has at least one message.")
    if (request.reply is None) and request.error is None:
        raise BadRequest(
            "An interaction has a reply, or an error that says why not.",
            next_step="Send `reply`, the assistant message, or `error`.",
        )
    if request.interaction_id is not None and not _UUID7.fullmatch(request.interaction_id):
        raise BadRequest(
            "The interaction's id is not a UUIDv7 in lowercase.",
            next_step="Leave it out, and the receipt names one.",
        )
    if request.temperature is not None and request.temperature < 0:
        raise BadRequest("The temperature is negative.")
    if any(map(is_too_deep, (request.messages, request.reply, request.tools))):
        raise BadRequest(
            f"The interaction is nested more than {MAX_DEPTH} deep.",
            next_step="Send what is so deep as a text.",
        )
    for name in ("tag", "model", "release_id", "finish_reason"):
        value = getattr(request, name)
        if value is not None and (len(value) > _MAX_NAME or "\0" in value):
            raise BadRequest(
                f"The field {name} has more than {_MAX_NAME} characters, or a null character."
            )


def _time(given: str | None, now: datetime) -> str:
    if given is None:
        return written_time(now)
    at = _parsed(given)
    if at.year < _FIRST_YEAR:
        raise BadRequest(f"The time {given} lies before {_FIRST_YEAR}.")
    if at > now + _MAX_AHEAD:
        # Sessions expire by event time: one call of the far future would end all of them.
        raise BadRequest(
            f"The time {given} lies in the future.",
            next_step="Set the client's clock, or leave `at` out.",
        )
    return written_time(at)


def _parsed(given: str) -> datetime:
    try:
        at = datetime.fromisoformat(given)
        if at.tzinfo is not None:
            return at.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise BadRequest(
        f"The time {given[:50]!r} is not RFC 3339 with its offset from UTC.",
        next_step="Write it like 2026-01-02T03:04:05.000006Z.",
    )
