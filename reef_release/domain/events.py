"""The event catalogue: every event type, and how stored bytes become events.

An event's bytes never change. `decode` turns them into an `Event`, upcasting data of older
schema versions, and refuses what it does not know: a reader that skipped an unknown event
could compute another pointer than everybody else.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from reef_release.domain.canonical import canonical_json, is_canonical, parse_json
from reef_release.domain.event_data import EventData
from reef_release.domain.operation_events import (
    OPERATION_EVENTS,
    GateClaimed,
    ReleaseApproved,
    WatchFallen,
    WatchTrial,
)
from reef_release.domain.privacy_events import PRIVACY_EVENTS, BodyErased
from reef_release.domain.release_events import (
    RELEASE_EVENTS,
    CandidateAdmitted,
    CandidateRefused,
    CandidateRevoked,
    CandidateSubmitted,
    CheckpointPublished,
    DecisionPosted,
    FileEntry,
    GateErrored,
    GateFailed,
    GateInconclusive,
    GateOpened,
    GatePassed,
    GateStale,
    GateTrial,
    KeyAdded,
    KeyRevoked,
    NodeLoaded,
    NodeRefused,
    PolicyChanged,
    ReleasePromoted,
    ReleaseRevoked,
    ReleaseRolledBack,
    ReleaseSigned,
    RootRotated,
    ScenarioCreated,
    ScenarioHeld,
    ScenarioResumed,
    VerdictRecord,
)
from reef_release.domain.traffic.batch_events import (
    BATCH_EVENTS,
    BatchClaimed,
    BatchFormed,
    BatchReleased,
    BatchRestored,
    BatchSample,
)
from reef_release.domain.traffic.events import (
    TRAFFIC_EVENTS,
    InteractionFailed,
    InteractionRecorded,
    JudgeRecord,
    JudgeResumed,
    JudgeSuspended,
    ReportReceived,
    SampleRefused,
    SessionExpired,
    SignalAlarmCleared,
    SignalAlarmRaised,
    TurnBound,
    TurnJudged,
    TurnJudgingFailed,
    TurnUnbound,
)
from reef_release.domain.traffic.training_events import (
    TRAINING_EVENTS,
    Screening,
    SkippedSample,
    TrainingCompleted,
    TrainingFailed,
    TrainingStarted,
    TrainingStep,
)
from reef_release.errors import BadRequest, InvalidEvent, MalformedData

__all__ = [
    "EVENT_TYPES",
    "GLOBAL",
    "BatchClaimed",
    "BatchFormed",
    "BatchReleased",
    "BatchRestored",
    "BatchSample",
    "BodyErased",
    "CandidateAdmitted",
    "CandidateRefused",
    "CandidateRevoked",
    "CandidateSubmitted",
    "CheckpointPublished",
    "DecisionPosted",
    "Envelope",
    "Event",
    "EventData",
    "FileEntry",
    "GateClaimed",
    "GateErrored",
    "GateFailed",
    "GateInconclusive",
    "GateOpened",
    "GatePassed",
    "GateStale",
    "GateTrial",
    "InteractionFailed",
    "InteractionRecorded",
    "JudgeRecord",
    "JudgeResumed",
    "JudgeSuspended",
    "KeyAdded",
    "KeyRevoked",
    "NodeLoaded",
    "NodeRefused",
    "PolicyChanged",
    "ReleaseApproved",
    "ReleasePromoted",
    "ReleaseRevoked",
    "ReleaseRolledBack",
    "ReleaseSigned",
    "ReportReceived",
    "RootRotated",
    "SampleRefused",
    "ScenarioCreated",
    "ScenarioHeld",
    "ScenarioResumed",
    "Screening",
    "SessionExpired",
    "SignalAlarmCleared",
    "SignalAlarmRaised",
    "SkippedSample",
    "TrainingCompleted",
    "TrainingFailed",
    "TrainingStarted",
    "TrainingStep",
    "TurnBound",
    "TurnJudged",
    "TurnJudgingFailed",
    "TurnUnbound",
    "Upcaster",
    "VerdictRecord",
    "WatchFallen",
    "WatchTrial",
    "decode",
    "decode_data",
    "decode_envelope",
    "encode_data",
]

GLOBAL = "_"
"""The scenario of events that belong to the whole service: keys, roots, checkpoints."""


EVENT_TYPES: Mapping[str, type[EventData]] = {
    kind.TYPE: kind
    for kind in (
        *RELEASE_EVENTS,
        *OPERATION_EVENTS,
        *PRIVACY_EVENTS,
        *TRAFFIC_EVENTS,
        *BATCH_EVENTS,
        *TRAINING_EVENTS,
    )
}


class Envelope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every event carries around its data; see the glossary for each field."""

    actor: str
    causation_id: str | None
    correlation_id: str | None
    data: msgspec.Raw
    event_id: str
    position: int
    recorded_at: str
    scenario: str
    schema_version: int
    stream: str
    type: str
    version: int


class Event(msgspec.Struct, frozen=True):
    """A decoded event: its envelope and its data in the newest schema."""

    envelope: Envelope
    data: EventData


Upcaster = Callable[[dict[str, Any]], dict[str, Any]]

_UPCASTERS: dict[tuple[str, int], Upcaster] = {
    ("training.completed", 1): lambda data: {**data, "metrics": {}},
    ("root.rotated", 1): lambda data: {**data, "reason": ""},
    ("watch.trial", 1): lambda data: {**data, "anew": False},
}
"""(type, schema version) to the function that makes data of the next version from it."""

_NAME = rb"[ !#-\[\]-~]*"
_NUMBER = rb"0|[1-9][0-9]{0,15}"
_FORM = re.compile(
    rb'\{"actor":"(%(n)s)","causation_id":(null|"%(n)s"),'
    rb'"correlation_id":(null|"%(n)s"),"data":(.*),'
    rb'"event_id":"(%(n)s)","position":(%(d)s),'
    rb'"recorded_at":"(%(n)s)","scenario":"(%(n)s)",'
    rb'"schema_version":(%(d)s),"stream":"(%(n)s)",'
    rb'"type":"(%(n)s)","version":(%(d)s)\}' % {b"n": _NAME, b"d": _NUMBER},
    re.DOTALL,
)
"""An envelope as the database function writes it: keys in order, names of printable ASCII.

A group per field, in that order.
"""

_DATA = {name: msgspec.json.Decoder(kind) for name, kind in EVENT_TYPES.items()}


def decode(body: bytes, upcasters: Mapping[tuple[str, int], Upcaster] = _UPCASTERS) -> Event:
    """The event in *body* (stored canonical bytes). Raises `InvalidEvent`, see `decode_data`."""
    envelope = decode_envelope(body)
    return Event(
        envelope,
        decode_data(envelope.type, envelope.schema_version, bytes(envelope.data), upcasters),
    )


def decode_envelope(body: bytes) -> Envelope:
    """The envelope in *body*, whose form the log itself answers for. Raises `InvalidEvent`.

    The data is cut out between the fields before and after it and not looked at: names hold no
    quotes, so nothing inside the data can be taken for the end of the envelope.
    """
    match = _FORM.fullmatch(body)
    if match is None:
        raise InvalidEvent("Stored bytes are not an event envelope in canonical form.")
    actor, cause, correlation, data, event_id, position, time, *rest = match.groups()
    scenario, schema_version, stream, kind, version = rest
    # A name that many events repeat is one object: much of the state holds it for ever.
    return Envelope(
        actor=sys.intern(actor.decode()),
        causation_id=_optional(cause),
        correlation_id=_optional(correlation),
        data=msgspec.Raw(data),
        event_id=event_id.decode(),
        position=int(position),
        recorded_at=time.decode(),
        scenario=sys.intern(scenario.decode()),
        schema_version=int(schema_version),
        stream=stream.decode(),
        type=sys.intern(kind.decode()),
        version=int(version),
    )


def _optional(text: bytes) -> str | None:
    return None if text == b"null" else text[1:-1].decode()


def decode_data(
    type_name: str,
    schema_version: int,
    data: bytes,
    upcasters: Mapping[tuple[str, int], Upcaster] = _UPCASTERS,
) -> EventData:
    """Data bytes as the newest struct of their type.

    Raises `MalformedData` when the bytes are not of that type's form, and `InvalidEvent` for a
    type or version that this reader does not know.
    """
    kind = EVENT_TYPES.get(type_name)
    if kind is None:
        raise InvalidEvent(
            f"The event type {type_name!r} is unknown.",
            next_step="Upgrade this reader: it is older than the log.",
        )
    if schema_version > kind.SCHEMA_VERSION or schema_version < 1:
        raise InvalidEvent(
            f"{type_name} has schema version {schema_version}; "
            f"this reader knows up to {kind.SCHEMA_VERSION}.",
            next_step="Upgrade this reader: it is older than the log.",
        )
    if not is_canonical(data):
        raise MalformedData(f"The data of a {type_name} is not canonical JSON.")
    try:
        if schema_version == kind.SCHEMA_VERSION:
            return _DATA[type_name].decode(data)
        value = parse_json(data)
        for version in range(schema_version, kind.SCHEMA_VERSION):
            value = upcasters[type_name, version](value)
        return msgspec.convert(value, kind)
    except (msgspec.DecodeError, BadRequest, UnicodeDecodeError, RecursionError) as error:
        raise MalformedData(f"The data of a {type_name} is malformed: {error}.") from error


def encode_data(data: EventData) -> bytes:
    """The canonical bytes of *data*. Raises `BadRequest` for floats and the like."""
    return canonical_json(msgspec.to_builtins(data))
