"""The event catalogue: one frozen struct per event type, and how stored bytes become events.

An event's bytes never change. `decode` turns them into an `Event`, upcasting data of older
schema versions, and refuses what it does not know: a reader that skipped an unknown event
could compute another pointer than everybody else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from reef_release.domain.canonical import canonical_json, is_canonical, parse_json
from reef_release.domain.event_data import EventData
from reef_release.domain.reasons import Reason
from reef_release.domain.traffic.batch_events import (
    BATCH_EVENTS,
    BatchClaimed,
    BatchFormed,
    BatchReleased,
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
    "BatchSample",
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
    "decode",
    "decode_data",
    "decode_envelope",
    "encode_data",
]

GLOBAL = "_"
"""The scenario of events that belong to the whole service: keys, roots, checkpoints."""


class RootRotated(EventData, frozen=True, kw_only=True):
    """A TUF root is in force from here on; `metadata` is its signed JSON text."""

    TYPE = "root.rotated"
    version: int
    metadata: str


class KeyAdded(EventData, frozen=True, kw_only=True):
    """A key of the root in force may be used from here on; `public_key` is PEM."""

    TYPE = "key.added"
    key_id: str
    role: str
    public_key: str
    root_version: int


class KeyRevoked(EventData, frozen=True, kw_only=True):
    """What a key signs from here on no longer counts."""

    TYPE = "key.revoked"
    key_id: str
    role: str
    reason: str


class CheckpointPublished(EventData, frozen=True, kw_only=True):
    """A signed tree head over the first `size` events; `note` is the C2SP checkpoint."""

    TYPE = "checkpoint.published"
    origin: str
    size: int
    root: str
    note: str


class ScenarioCreated(EventData, frozen=True, kw_only=True):
    """A scenario with the digest of its model schema and its first signed policy."""

    TYPE = "scenario.created"
    schema: str
    policy_digest: str
    policy: dict[str, Any]


class PolicyChanged(EventData, frozen=True, kw_only=True):
    """Another signed policy is in force for gates that open from here on."""

    TYPE = "policy.changed"
    policy_digest: str
    policy: dict[str, Any]
    reason: str


class ScenarioHeld(EventData, frozen=True, kw_only=True):
    """No promotion until `scenario.resumed`; rollback stays possible."""

    TYPE = "scenario.held"
    reason: str


class ScenarioResumed(EventData, frozen=True, kw_only=True):
    """Promotions are possible again."""

    TYPE = "scenario.resumed"
    reason: str


class FileEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of a candidate: its flat name, digest and length."""

    path: str
    sha256: str
    size_bytes: int


class CandidateSubmitted(EventData, frozen=True, kw_only=True):
    """A trainer (or, for an origin, the operator) proposes weights."""

    TYPE = "candidate.submitted"
    candidate_id: str
    channel: str
    kind: Literal["full", "lora"]
    foundation: str | None
    base: str | None
    parent: str | None
    batches: list[str]
    settings: dict[str, Any]
    metrics: dict[str, Any]
    seed: int | None
    files: list[FileEntry]


class CandidateAdmitted(EventData, frozen=True, kw_only=True):
    """The files are well-formed weights of the scenario's schema; a gate may open."""

    TYPE = "candidate.admitted"
    candidate_id: str
    schema: str
    tensor_count: int
    size_bytes: int


class CandidateRefused(EventData, frozen=True, kw_only=True):
    """The files are not; every reason found is listed."""

    TYPE = "candidate.refused"
    candidate_id: str
    reasons: list[Reason]


class CandidateRevoked(EventData, frozen=True, kw_only=True):
    """The candidate may not be promoted or rolled back to from here on."""

    TYPE = "candidate.revoked"
    candidate_id: str
    reason: str


class GateOpened(EventData, frozen=True, kw_only=True):
    """A gate over `candidate_id` against `base`; `seed` (hex) fixes its tasks."""

    TYPE = "gate.opened"
    gate_id: str
    candidate_id: str
    base: str | None
    channel: str
    phase: str
    policy_digest: str
    suite: str
    checkpoint_position: int
    seed: str


class VerdictRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What each verifier ("answer@1") said of one reply, and all of them together."""

    passed: bool
    checks: dict[str, bool]


class GateTrial(EventData, frozen=True, kw_only=True):
    """One reply of one side on one drawn task, or the error that prevented it.

    `body` names the salted blob with the raw reply, token ids and log-probabilities.
    """

    TYPE = "gate.trial"
    gate_id: str
    slot: int
    side: str
    attempt: int
    task_id: str
    body: str | None
    error: str | None
    verdict: VerdictRecord | None


class DecisionPosted(EventData, frozen=True, kw_only=True):
    """A gate's end: the worker's signed decision, equal to what the log says itself."""

    gate_id: str
    candidate_id: str
    base: str | None
    channel: str
    attestation: dict[str, Any]
    canary: str | None


class GatePassed(DecisionPosted, frozen=True, kw_only=True):
    """The candidate met its policy."""

    TYPE = "gate.passed"


class GateFailed(DecisionPosted, frozen=True, kw_only=True):
    """The candidate can no longer meet its policy."""

    TYPE = "gate.failed"


class GateInconclusive(DecisionPosted, frozen=True, kw_only=True):
    """All trials are spent and the policy is neither met nor broken."""

    TYPE = "gate.inconclusive"


class GateErrored(DecisionPosted, frozen=True, kw_only=True):
    """Too many trials could not be carried out; says nothing of the candidate."""

    TYPE = "gate.errored"


class GateStale(EventData, frozen=True, kw_only=True):
    """The pointer moved while the gate was open, so its base is no longer served."""

    TYPE = "gate.stale"
    gate_id: str
    pointer_position: int


class ReleaseSigned(EventData, frozen=True, kw_only=True):
    """The signer's bundle over exactly this candidate's files; `bundle` is a blob."""

    TYPE = "release.signed"
    release_id: str
    gate_id: str
    key_id: str
    bundle: str


class ReleasePromoted(EventData, frozen=True, kw_only=True):
    """A pointer event: the channel serves `release_id` from here on."""

    TYPE = "release.promoted"
    release_id: str
    gate_id: str
    base: str | None
    channel: str


class ReleaseRolledBack(EventData, frozen=True, kw_only=True):
    """A pointer event: the channel serves an earlier promoted release again."""

    TYPE = "release.rolled_back"
    release_id: str
    channel: str
    reason: str


class ReleaseRevoked(EventData, frozen=True, kw_only=True):
    """The release may not be promoted or rolled back to from here on."""

    TYPE = "release.revoked"
    release_id: str
    reason: str


class NodeLoaded(EventData, frozen=True, kw_only=True):
    """A node serves the release; the largest canary difference is a decimal, in nats."""

    TYPE = "node.loaded"
    node_id: str
    release_id: str
    channel: str
    serial: int
    canary_difference: str


class NodeRefused(EventData, frozen=True, kw_only=True):
    """A node did not load the release and goes on serving its last good one."""

    TYPE = "node.refused"
    node_id: str
    release_id: str | None
    channel: str
    reasons: list[Reason]


_RELEASE_EVENTS: tuple[type[EventData], ...] = (
    RootRotated,
    KeyAdded,
    KeyRevoked,
    CheckpointPublished,
    ScenarioCreated,
    PolicyChanged,
    ScenarioHeld,
    ScenarioResumed,
    CandidateSubmitted,
    CandidateAdmitted,
    CandidateRefused,
    CandidateRevoked,
    GateOpened,
    GateTrial,
    GatePassed,
    GateFailed,
    GateInconclusive,
    GateErrored,
    GateStale,
    ReleaseSigned,
    ReleasePromoted,
    ReleaseRolledBack,
    ReleaseRevoked,
    NodeLoaded,
    NodeRefused,
)

EVENT_TYPES: Mapping[str, type[EventData]] = {
    kind.TYPE: kind for kind in (*_RELEASE_EVENTS, *TRAFFIC_EVENTS, *BATCH_EVENTS, *TRAINING_EVENTS)
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

_UPCASTERS: dict[tuple[str, int], Upcaster] = {}
"""(type, schema version) to the function that makes data of the next version from it."""

_NAME = rb"[ !#-\[\]-~]*"
_NUMBER = rb"0|[1-9][0-9]{0,15}"
_FORM = re.compile(
    rb'\{"actor":"(?P<actor>%(n)s)","causation_id":(?P<causation_id>null|"%(n)s"),'
    rb'"correlation_id":(?P<correlation_id>null|"%(n)s"),"data":(?P<data>.*),'
    rb'"event_id":"(?P<event_id>%(n)s)","position":(?P<position>%(d)s),'
    rb'"recorded_at":"(?P<recorded_at>%(n)s)","scenario":"(?P<scenario>%(n)s)",'
    rb'"schema_version":(?P<schema_version>%(d)s),"stream":"(?P<stream>%(n)s)",'
    rb'"type":"(?P<type>%(n)s)","version":(?P<version>%(d)s)\}' % {b"n": _NAME, b"d": _NUMBER},
    re.DOTALL,
)
"""An envelope as the database function writes it: keys in order, names of printable ASCII."""

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
    text = {name: value.decode() for name, value in match.groupdict().items() if name != "data"}
    return Envelope(
        actor=text["actor"],
        causation_id=_optional(text["causation_id"]),
        correlation_id=_optional(text["correlation_id"]),
        data=msgspec.Raw(match["data"]),
        event_id=text["event_id"],
        position=int(text["position"]),
        recorded_at=text["recorded_at"],
        scenario=text["scenario"],
        schema_version=int(text["schema_version"]),
        stream=text["stream"],
        type=text["type"],
        version=int(text["version"]),
    )


def _optional(text: str) -> str | None:
    return None if text == "null" else text[1:-1]


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
