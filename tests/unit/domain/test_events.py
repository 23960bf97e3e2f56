"""The event catalogue: every type there and back, old versions upcast, strangers refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from reef_release.domain import events as ev
from reef_release.domain.canonical import canonical_json
from reef_release.domain.events import EVENT_TYPES, EventData, decode, decode_data, encode_data
from reef_release.domain.reasons import Reason
from reef_release.domain.validation import VALIDATORS, stream_of
from reef_release.errors import BadRequest, InvalidEvent

DIGEST = "ab" * 32
REASON = Reason(code="not-finite", message="a value is NaN", where="model.safetensors")
FILE = ev.FileEntry(path="model.safetensors", sha256=DIGEST, size_bytes=4)
VERDICT = ev.VerdictRecord(passed=True, checks={"answer@1": True})
DECISION: dict[str, Any] = {
    "gate_id": "g",
    "candidate_id": DIGEST,
    "base": None,
    "channel": "stable",
    "attestation": {"payload": "e30=", "signatures": []},
    "canary": DIGEST,
}
SUBMITTED = ev.CandidateSubmitted(
    candidate_id=DIGEST,
    channel="stable",
    kind="full",
    foundation=None,
    base=None,
    parent=None,
    batches=["b1"],
    settings={"learning_rate": "1e-06"},
    metrics={"loss": "0.5"},
    seed=7,
    files=[FILE],
)
OPENED = ev.GateOpened(
    gate_id="g",
    candidate_id=DIGEST,
    base=DIGEST,
    channel="stable",
    phase="standard",
    policy_digest=DIGEST,
    suite=DIGEST,
    checkpoint_position=3,
    seed=DIGEST,
)
TRIAL = ev.GateTrial(
    gate_id="g",
    slot=0,
    side="candidate",
    attempt=0,
    task_id="t",
    body=DIGEST,
    error=None,
    verdict=VERDICT,
)
EXAMPLES: list[tuple[EventData, str]] = [
    (ev.RootRotated(version=1, metadata="{}", reason="a new year"), "trust"),
    (ev.KeyAdded(key_id=DIGEST, role="gate", public_key="PEM", root_version=1), "trust"),
    (ev.KeyRevoked(key_id=DIGEST, role="gate", reason="lost"), "trust"),
    (ev.CheckpointPublished(origin="o", size=1, root=DIGEST, note="n"), "trust/checkpoint"),
    (ev.ScenarioCreated(schema=DIGEST, policy_digest=DIGEST, policy={"a": 1}), "scenario"),
    (ev.PolicyChanged(policy_digest=DIGEST, policy={"a": 1}, reason="r"), "scenario"),
    (ev.ScenarioHeld(reason="r"), "scenario"),
    (ev.ScenarioResumed(reason="r"), "scenario"),
    (SUBMITTED, f"candidate/{DIGEST}"),
    (
        ev.CandidateAdmitted(candidate_id=DIGEST, schema=DIGEST, tensor_count=1, size_bytes=4),
        f"candidate/{DIGEST}",
    ),
    (ev.CandidateRefused(candidate_id=DIGEST, reasons=[REASON]), f"candidate/{DIGEST}"),
    (ev.CandidateRevoked(candidate_id=DIGEST, reason="r"), f"candidate/{DIGEST}"),
    (OPENED, "gate/g"),
    (TRIAL, "gate/g"),
    (ev.GatePassed(**DECISION), "gate/g"),
    (ev.GateFailed(**DECISION), "gate/g"),
    (ev.GateInconclusive(**DECISION), "gate/g"),
    (ev.GateErrored(**DECISION), "gate/g"),
    (ev.GateStale(gate_id="g", pointer_position=9), "gate/g"),
    (
        ev.ReleaseSigned(release_id=DIGEST, gate_id="g", key_id=DIGEST, bundle=DIGEST),
        f"release/{DIGEST}",
    ),
    (
        ev.ReleasePromoted(release_id=DIGEST, gate_id="g", base=None, channel="stable"),
        "release/stable",
    ),
    (ev.ReleaseRolledBack(release_id=DIGEST, channel="beta", reason="r"), "release/beta"),
    (ev.ReleaseRevoked(release_id=DIGEST, reason="r"), f"release/{DIGEST}"),
    (
        ev.NodeLoaded(
            node_id="n", release_id=DIGEST, channel="stable", serial=4, canary_difference="0.001"
        ),
        "node/n",
    ),
    (ev.NodeRefused(node_id="n", release_id=None, channel="stable", reasons=[REASON]), "node/n"),
]
AT = "2026-01-02T03:04:05.000006Z"
CALL: dict[str, Any] = {
    "interaction_id": "c",
    "at": AT,
    "tag": "s-1",
    "turn_type": "main",
    "model": "tiny",
    "release_id": DIGEST,
    "body": DIGEST,
    "size_bytes": 9,
}
JUDGE = ev.JudgeRecord(model="tiny", prompt_digest=DIGEST, settings={"votes": "3"})
PROBES: dict[str, Any] = {"judge": JUDGE, "asked": 20, "right": 15}
TRAINING: dict[str, Any] = {"batch_id": "x", "lease_id": "l", "line": "n"}
EXAMPLES += [
    (ev.GateClaimed(gate_id="g", worker="w", lease_id="l", replaces=None), "claim/g"),
    (ev.ReleaseApproved(release_id=DIGEST, gate_id="g", reason="r"), f"release/{DIGEST}"),
    (
        ev.WatchTrial(
            pointer_position=7,
            channel="stable",
            release_id=DIGEST,
            number=0,
            attempt=0,
            task_id="t",
            body=DIGEST,
            error=None,
            verdict=VERDICT,
            anew=False,
        ),
        "watch/7",
    ),
    (
        ev.WatchFallen(
            pointer_position=7, channel="stable", release_id=DIGEST, attestation={"a": 1}
        ),
        "watch/7",
    ),
    (
        ev.BodyErased(digest=DIGEST, kind="call", turn_id="c", reason="its author asked for it"),
        f"privacy/{DIGEST}",
    ),
    (
        ev.InteractionRecorded(**CALL, finish_reason="stop", token_count=2, token_fault=None),
        "session/c",
    ),
    (ev.InteractionFailed(**CALL, error="timed-out", status=None), "session/c"),
    (
        ev.TurnBound(interaction_id="c", session_id="a", follows="b", method="tag", replaces=None),
        "session/c",
    ),
    (
        ev.TurnUnbound(
            interaction_id="c", session_id="c", kind="main", reason="first-call", replaces=None
        ),
        "session/c",
    ),
    (ev.SessionExpired(session_id="a", last_at=AT, turn_count=2), "session/a"),
    (ev.SignalAlarmRaised(reason="first-call", unbound=9), "session/signal"),
    (ev.SignalAlarmCleared(reason="first-call"), "session/signal"),
    (
        ev.TurnJudged(
            turn_id="b",
            score=-1,
            about=1,
            target="a",
            votes=DIGEST,
            hints=[DIGEST],
            valid=2,
            asked=3,
            judge=JUDGE,
        ),
        "turn/b",
    ),
    (ev.TurnJudgingFailed(turn_id="b", attempt=1, error="away", judge=JUDGE), "turn/b"),
    (ev.ReportReceived(turn_id="b", score="0.5", feedback=DIGEST), "turn/b"),
    (ev.SampleRefused(turn_id="b", target="a", reason="stale"), "turn/b"),
    (ev.JudgeSuspended(**PROBES), "judge"),
    (ev.JudgeResumed(**PROBES), "judge"),
    (
        ev.BatchFormed(
            batch_id="x",
            channel="stable",
            release_id=DIGEST,
            samples=[ev.BatchSample(turn_id="b", target="a", release_id=DIGEST)],
        ),
        "batch/x",
    ),
    (ev.BatchClaimed(batch_id="x", lease_id="l", worker="w", lease_s=120), "batch/x"),
    (ev.BatchReleased(batch_id="x", lease_id="l", reason="expired"), "batch/x"),
    (ev.BatchRestored(batch_id="x", reason="the trainer was at fault"), "batch/x"),
    (ev.TrainingStarted(**TRAINING, parent=DIGEST, settings={"clip": "0.2"}, seed=7), "batch/x"),
    (ev.TrainingStep(**TRAINING, step=3, epoch=1, metrics={"loss": "0.5"}), "batch/x"),
    (
        ev.TrainingCompleted(
            **TRAINING,
            weights_id=DIGEST,
            steps=3,
            metrics={"kl_base": "0.01"},
            skipped=[ev.SkippedSample(turn_id="b", reason="too-long")],
            screening=ev.Screening(
                tasks=4, passed=2, right=3, base_passed=1, base_right=3, submits=True
            ),
        ),
        "batch/x",
    ),
    (ev.TrainingFailed(**TRAINING, reason="drift", detail="0.3 nats"), "batch/x"),
]
IDS = [data.TYPE for data, _ in EXAMPLES]


def envelope(data: EventData, **changes: Any) -> dict[str, Any]:
    return {
        "actor": "service",
        "causation_id": None,
        "correlation_id": None,
        "data": msgspec.to_builtins(data),
        "event_id": "01890a5d-ac96-774b-bcce-b302099a8057",
        "position": 0,
        "recorded_at": "2026-01-02T03:04:05.000006Z",
        "scenario": "homework",
        "schema_version": data.SCHEMA_VERSION,
        "stream": stream_of(data),
        "type": data.TYPE,
        "version": 1,
        **changes,
    }


def test_there_is_an_example_of_every_type_and_a_rule_for_each() -> None:
    assert list(EVENT_TYPES) == IDS
    assert set(VALIDATORS) == set(EVENT_TYPES.values())


@pytest.mark.parametrize(("data", "stream"), EXAMPLES, ids=IDS)
def test_an_event_comes_back_as_it_was_written(data: EventData, stream: str) -> None:
    body = canonical_json(envelope(data))
    event = decode(body)
    assert event.data == data
    assert type(event.data) is type(data)
    assert event.envelope.stream == stream == stream_of(data)
    assert bytes(event.envelope.data) == encode_data(data)
    assert canonical_json(msgspec.to_builtins(envelope(event.data))) == body


@pytest.mark.parametrize(("data", "stream"), EXAMPLES, ids=IDS)
def test_a_field_too_many_or_too_few_is_refused(data: EventData, stream: str) -> None:
    fields = msgspec.to_builtins(data)
    with pytest.raises(InvalidEvent, match="unknown field"):
        decode_data(data.TYPE, data.SCHEMA_VERSION, canonical_json({**fields, "force": True}))
    for name in fields:
        less = {key: value for key, value in fields.items() if key != name}
        with pytest.raises(InvalidEvent, match=f"missing required field `{name}`"):
            decode_data(data.TYPE, data.SCHEMA_VERSION, canonical_json(less))


@pytest.mark.parametrize(
    "name",
    sorted(
        msgspec.structs.asdict(
            decode(canonical_json(envelope(ev.ScenarioHeld(reason="r")))).envelope
        )
    ),
)
def test_an_envelope_has_all_its_fields_and_no_other(name: str) -> None:
    whole = envelope(ev.ScenarioHeld(reason="r"))
    decode(canonical_json(whole))
    with pytest.raises(InvalidEvent):
        decode(canonical_json({key: value for key, value in whole.items() if key != name}))
    with pytest.raises(InvalidEvent):
        decode(canonical_json({**whole, name + "2": 1}))


def test_an_unknown_type_is_refused_and_not_skipped() -> None:
    with pytest.raises(InvalidEvent, match=r"'scenario\.erased' is unknown") as caught:
        decode(canonical_json(envelope(ev.ScenarioHeld(reason="r"), type="scenario.erased")))
    assert "older than the log" in caught.value.next_step


@pytest.mark.parametrize("version", [2, 99, 0, -1])
def test_a_schema_version_that_this_reader_does_not_know_is_refused(version: int) -> None:
    with pytest.raises(InvalidEvent, match=r"this reader knows up to 1|canonical form"):
        decode(canonical_json(envelope(ev.ScenarioHeld(reason="r"), schema_version=version)))


def test_an_old_schema_version_is_upcast_step_by_step_when_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As if `scenario.held` had said `why` at first, then `cause`, and says `reason` today.
    monkeypatch.setattr(ev.ScenarioHeld, "SCHEMA_VERSION", 3)
    upcasters: dict[tuple[str, int], ev.Upcaster] = {
        ("scenario.held", 1): lambda data: {"cause": data["why"]},
        ("scenario.held", 2): lambda data: {"reason": data["cause"]},
    }
    stories: list[tuple[int, dict[str, str]]] = [
        (1, {"why": "odd answers"}),
        (2, {"cause": "odd answers"}),
        (3, {"reason": "odd answers"}),
    ]
    for version, data in stories:
        whole = envelope(ev.ScenarioHeld(reason=""), schema_version=version)
        body = canonical_json({**whole, "data": data})
        event = decode(body, upcasters)
        assert event.data == ev.ScenarioHeld(reason="odd answers")
        assert event.envelope.schema_version == version
        assert bytes(event.envelope.data) == canonical_json(data)


def test_a_root_of_the_time_before_roots_said_why_is_still_read() -> None:
    whole = envelope(ev.RootRotated(version=1, metadata="{}", reason=""), schema_version=1)
    body = canonical_json({**whole, "data": {"version": 1, "metadata": "{}"}})
    assert decode(body).data == ev.RootRotated(version=1, metadata="{}", reason="")


def test_an_upcaster_whose_result_does_not_fit_is_an_invalid_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ev.ScenarioHeld, "SCHEMA_VERSION", 2)
    upcasters: dict[tuple[str, int], ev.Upcaster] = {("scenario.held", 1): lambda data: data}
    with pytest.raises(InvalidEvent, match=r"scenario\.held is malformed"):
        decode_data("scenario.held", 1, b'{"why":"odd"}', upcasters)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"\xff\xfe",
        b"{",
        b'{"type":"scenario.held"}',
    ],
)
def test_bytes_that_are_no_envelope_are_refused(body: bytes) -> None:
    with pytest.raises(InvalidEvent):
        decode(body)


def test_an_envelope_in_another_form_than_the_canonical_one_is_refused() -> None:
    good = canonical_json(envelope(ev.ScenarioHeld(reason="r")))
    decode(good)
    twice = good.replace(b'"reason":"r"', b'"reason":"x","reason":"r"')
    spaced = good.replace(b'"reason":"r"', b'"reason": "r"')
    floating = good.replace(b'"position":0', b'"position":0.0')
    for other in (twice, spaced, floating, good + b"\n", b" " + good):
        with pytest.raises(InvalidEvent, match=r"not canonical|not an event envelope"):
            decode(other)


@pytest.mark.parametrize(
    ("field", "value"),
    [("position", "0"), ("version", None), ("type", 1), ("data", "text"), ("recorded_at", 5)],
)
def test_a_field_of_another_type_is_refused(field: str, value: Any) -> None:
    with pytest.raises(InvalidEvent):
        decode(canonical_json({**envelope(ev.ScenarioHeld(reason="r")), field: value}))


def test_a_candidate_is_full_weights_or_an_adapter() -> None:
    fields = msgspec.to_builtins(SUBMITTED)
    decode_data("candidate.submitted", 1, canonical_json({**fields, "kind": "lora"}))
    with pytest.raises(InvalidEvent, match="prompt"):
        decode_data("candidate.submitted", 1, canonical_json({**fields, "kind": "prompt"}))


@pytest.mark.parametrize("value", [b"NaN", b"Infinity", b"-Infinity", b"0.5", b"1e999"])
def test_a_metric_that_is_not_finite_or_a_float_cannot_stand_in_the_log(value: bytes) -> None:
    good = canonical_json(envelope(msgspec.structs.replace(SUBMITTED, metrics={"loss": "0.5"})))
    decode(good)
    with pytest.raises(InvalidEvent):
        decode(good.replace(b'"loss":"0.5"', b'"loss":' + value))


def test_data_with_a_float_is_never_written() -> None:
    with pytest.raises(BadRequest, match="is a float"):
        encode_data(msgspec.structs.replace(SUBMITTED, metrics={"loss": 0.5}))


def test_a_training_that_was_completed_without_figures_of_its_result_still_counts() -> None:
    old = {**TRAINING, "weights_id": DIGEST, "steps": 3, "skipped": [], "screening": None}
    data = ev.decode_data("training.completed", 1, canonical_json(old))
    assert data == ev.TrainingCompleted(**old, metrics={})
