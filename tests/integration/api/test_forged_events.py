"""SQL by hand with the service's password: whatever it appends has no effect on the pointer.

The password lets a thief call `append_events` and nothing else. The database refuses what has no
structure; what has one, but no signature behind it, stands in the log as a violation.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import AsyncIterator
from functools import partial

import asyncpg
import httpx
import pytest
import structlog

from reef_release.api.service import open_service
from reef_release.domain import events as ev
from reef_release.domain.events import EventData, VerdictRecord, encode_data
from reef_release.domain.validation import stream_of
from reef_release.errors import InvalidEvent
from reef_release.ids import uuid7
from reef_release.log import Appended, EventLog, NewEvent, RuleRefused
from reef_release.signing.keys import Role, create_key
from reef_release.signing.weights import sign_bundle
from tests.integration.api.story import Problem, Site, Story, open_story, until
from tests.integration.api.traffic import claim_batch, judged_turn
from tests.integration.api.trainer import TrainerJob
from tests.world import facts

pytestmark = pytest.mark.anyio


class Thief:
    """Somebody with the service's database password and keys of their own making."""

    def __init__(self, story: Story, log: EventLog) -> None:
        self.story = story
        self.log = log

    async def append(self, data: EventData, scenario: str | None = None) -> Appended:
        stream = stream_of(data)
        own = "_" if stream.startswith("trust") else self.story.scenario
        return await self.log.append(
            NewEvent(
                event_id=uuid7(),
                scenario=scenario or own,
                stream=stream,
                type=data.TYPE,
                schema_version=data.SCHEMA_VERSION,
                actor="service",
                causation_id=None,
                correlation_id=None,
                data=encode_data(data),
                expected_version=None,
            )
        )


@pytest.fixture
async def thief(story: Story) -> AsyncIterator[Thief]:
    async with EventLog.open(story.site.database.service_dsn) as log:
        yield Thief(story, log)


async def forged_chain(thief: Thief, identity: str) -> list[EventData]:
    """What would promote *identity*, had the thief the gate's and the release key."""
    story = thief.story
    base = await story.serving()
    gate_id = "f" * 32
    opened = ev.GateOpened(
        gate_id=gate_id,
        candidate_id=identity,
        base=base,
        channel="stable",
        phase="standard" if base else "bootstrap",
        # A digest of no signed policy would end it in the database already.
        policy_digest=(await story.get("audit", story.path()))["policy_digest"],
        suite="0" * 64,
        checkpoint_position=1,
        seed="0" * 64,
    )
    trials = [
        ev.GateTrial(
            gate_id=gate_id,
            slot=slot,
            side="candidate",
            attempt=0,
            task_id=f"sum-{slot:03}",
            body="0" * 64,
            error=None,
            verdict=VerdictRecord(passed=True, checks={"answer@1": True}),
        )
        for slot in range(2)
    ]
    passed = ev.GatePassed(
        gate_id=gate_id,
        candidate_id=identity,
        base=base,
        channel="stable",
        attestation={
            "payload": "",
            "payloadType": "application/vnd.in-toto+json",
            "signatures": [],
        },
        canary="0" * 64,
    )
    key = create_key(Role.RELEASE)
    files = {file["path"]: file["sha256"] for file in (await story.candidate(identity))["files"]}
    signed = ev.ReleaseSigned(
        release_id=identity,
        gate_id=gate_id,
        key_id=key.key_id,
        bundle=await story.put_blob(sign_bundle(files, key)),
    )
    promoted = ev.ReleasePromoted(release_id=identity, gate_id=gate_id, base=base, channel="stable")
    return [opened, *trials, passed, signed, promoted]


def served(response: httpx.Response) -> str:
    """The release that a current document names."""
    release = json.loads(base64.b64decode(response.json()["payload"]))["release_id"]
    return str(release)


async def caught_up(story: Story, appended: Appended) -> None:
    assert story.service is not None
    await story.service.live.wait_for(appended.position)


async def all_drawn(story: Story) -> bool:
    assert story.service is not None
    return not story.service.state.scenarios["homework"].undrawn


async def test_a_forged_chain_up_to_a_promotion_does_not_move_the_pointer(
    story: Story, thief: Thief
) -> None:
    """Attacks 49 and 53."""
    origin = await story.release()
    identity = (await story.submit())["candidate_id"]
    assert story.service is not None
    document = await until(story.current, lambda seen: seen.status_code == 200)
    # The checkpoint after the admission draws the candidate's tasks, whoever forges what.
    await until(partial(all_drawn, story))
    before = facts(story.service.state)["scenarios"]

    chain = await forged_chain(thief, identity)
    for data in chain:
        appended = await thief.append(data)
    await caught_up(story, appended)

    state = story.service.state
    violations = [violation.type for violation in state.violations]
    assert violations == [data.TYPE for data in chain]
    assert facts(state)["scenarios"] == before
    assert await story.serving() == origin
    ready = (await story.ask(None, "GET", "/readyz")).json()
    assert ready["status"] == "ok"
    assert ready["violations"] == len(chain)
    assert ready["last_violation"]["type"] == "release.promoted"
    assert ready["last_violation"]["position"] == appended.position
    assert "no-passed-gate" in ready["last_violation"]["codes"]
    metrics = (await story.ask(None, "GET", "/metrics")).text
    assert f"reef_log_violations {len(chain)}.0" in metrics
    assert "reef_log_broken 0.0" in metrics

    assert served(await story.current()) == served(document) == origin
    async with open_story(story.site) as restarted:
        assert await restarted.serving() == origin
        assert restarted.service is not None
        found = [violation.type for violation in restarted.service.state.violations]
        assert found == violations


async def test_a_forged_pass_in_a_real_gate_has_no_effect(story: Story, thief: Thief) -> None:
    origin = await story.release()
    identity = (await story.submit())["candidate_id"]
    assignment = await story.claim_soon()
    gate = await story.run_trials(assignment, "+")
    opened = assignment.opened
    forged = ev.GatePassed(
        gate_id=opened.gate_id,
        candidate_id=identity,
        base=opened.base,
        channel="stable",
        attestation=(await story.decision(gate, outcome="passed", key=create_key(Role.GATE)))[
            "attestation"
        ],
        canary="0" * 64,
    )
    await caught_up(story, await thief.append(forged))
    assert await story.serving() == origin
    assert (await story.candidate(identity))["status"] == "admitted"
    assert (await story.ask(None, "GET", "/readyz")).json()["violations"] == 1


async def test_what_has_no_structure_is_refused_by_the_database(story: Story, thief: Thief) -> None:
    origin = await story.release()
    identity = (await story.submit())["candidate_id"]
    chain = await forged_chain(thief, identity)
    for skipped in (chain[-1:], chain[-2:-1], chain[1:2], chain[3:4]):
        with pytest.raises(RuleRefused):
            await thief.append(skipped[0])
    assert await story.serving() == origin
    assert (await story.ask(None, "GET", "/readyz")).json()["violations"] == 0


@pytest.mark.parametrize(
    "statement",
    [
        "insert into reef.events select * from reef.events limit 1",
        "update reef.events set body = ''",
        "delete from reef.events",
        "truncate reef.events",
        "update reef.head set position = 0",
        "alter table reef.events disable trigger all",
        "drop schema reef cascade",
        "set session_replication_role = replica",
        "set role reef_owner",
        "create table reef.mine ()",
    ],
)
async def test_the_services_role_can_do_nothing_else_by_hand(story: Story, statement: str) -> None:
    await story.release()
    before = await story.events()
    connection = await asyncpg.connect(story.site.database.service_dsn)
    try:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(statement)
    finally:
        await connection.close()
    assert (await story.events())[: len(before)] == before


async def test_forged_trust_has_no_effect(story: Story, thief: Thief) -> None:
    origin = await story.release()
    mine = create_key(Role.GATE)
    forged: list[EventData] = [
        ev.KeyAdded(key_id=mine.key_id, role="gate", public_key=mine.public.pem, root_version=1),
        ev.RootRotated(version=2, metadata=story.site.anchor, reason="a new year"),
        ev.CheckpointPublished(
            origin="reef-release.local/log", size=1, root="0" * 64, note="nothing"
        ),
    ]
    for data in forged:
        appended = await thief.append(data)
    await caught_up(story, appended)
    assert (await story.ask(None, "GET", "/readyz")).json()["violations"] == len(forged)
    assert mine.key_id not in (story.service.state.keys if story.service else {})
    better = await story.release()
    assert await story.serving() == better != origin


async def test_two_rollbacks_bring_the_database_and_the_fold_together_again(
    story: Story, thief: Thief
) -> None:
    """The database takes the forged release for the served one, so it lets nothing be gated
    on the real one; both agree again as soon as a pointer event is valid for both."""
    first = await story.release()
    second = await story.release()
    identity = (await story.submit())["candidate_id"]
    for data in await forged_chain(thief, identity):
        appended = await thief.append(data)
    await caught_up(story, appended)
    assert await story.serving() == second

    async def blocked() -> list[str]:
        with structlog.testing.capture_logs() as told:
            assert await story.claim() is None
        return [each["why"] for each in told if each["event"] == "gate not opened"]

    assert "the base is not the release" in (await until(blocked))[0]

    await story.lever("rollback", release_id=first)
    await story.lever("rollback", release_id=second)
    assert await story.serving() == second
    gate = await story.gate()
    assert gate.opened.candidate_id == identity
    await story.sign(identity)
    await story.promoted(identity)
    assert await story.serving() == identity


async def test_forged_training_leaves_no_batch_stuck(site: Site) -> None:
    """What the fold does not believe does not keep a trainer from its batch, nor the next one."""
    async with (
        open_story(site, batch_size=1, lease_s=2.0) as story,
        EventLog.open(site.database.service_dsn) as log,
    ):
        await story.create_scenario()
        origin = await story.release()
        thief = Thief(story, log)
        job = TrainerJob(story=story, base=origin)
        batch = await job.claim()
        place = {"batch_id": batch["batch_id"], "lease_id": batch["lease_id"], "line": job.line}
        junk = ev.TrainingCompleted(
            **place, weights_id="0" * 64, steps=9, metrics={}, skipped=[], screening=None
        )
        failed = ev.TrainingFailed(**place, reason="kl", detail="")
        abandoned = ev.BatchReleased(
            batch_id=batch["batch_id"], lease_id=batch["lease_id"], reason="abandoned"
        )
        nothing = ev.BatchSample(turn_id="nope", target="nope", release_id=origin)
        unheard = ev.BatchFormed(
            batch_id="z" * 32, channel="stable", release_id=origin, samples=[nothing]
        )
        for data in (junk, failed, abandoned, unheard):
            with pytest.raises(RuleRefused):
                await thief.append(data)
        # A start that the fold refuses opens the database to all that may follow one.
        begun = ev.TrainingStarted(**place, parent="0" * 64, settings={}, seed=1)
        for data in (begun, junk, failed, abandoned):
            appended = await thief.append(data)
        await caught_up(story, appended)
        assert (await job.batch(batch))["stage"] == "claimed"
        assert (await story.ask(None, "GET", "/readyz")).json()["violations"] == 4
        again = await until(lambda: claim_batch(story))
        assert again["batch_id"] == batch["batch_id"]
        await job.train(again)
        assert (await job.batch(batch))["stage"] == "trained"


async def test_a_batch_forms_although_its_name_was_taken_by_hand(site: Site) -> None:
    async with (
        open_story(site, batch_size=2) as story,
        EventLog.open(site.database.service_dsn) as log,
    ):
        await story.create_scenario()
        origin = await story.release()
        turns = [await judged_turn(story)]
        assert story.service is not None
        samples = [ev.BatchSample(turn_id=turns[0], target=turns[0], release_id=origin)]
        taken = hashlib.sha256(f"0/{turns[0]}".encode()).hexdigest()[:32]
        # The database does not compare releases, the fold does.
        forged = ev.BatchFormed(
            batch_id=taken, channel="stable", release_id="0" * 64, samples=samples
        )
        await caught_up(story, await Thief(story, log).append(forged))
        assert (await story.ask(None, "GET", "/readyz")).json()["violations"] == 1
    async with open_story(site, batch_size=1) as story:
        found = await until(lambda: claim_batch(story))
        assert [each["turn_id"] for each in found["samples"]] == turns
        assert found["batch_id"] != taken


@pytest.mark.parametrize(
    "data", [b'{"reason":"x", "reason":"y"}', b"{}", b'{"reason":1}', b'{"force":true}']
)
async def test_data_of_another_form_has_no_effect(story: Story, thief: Thief, data: bytes) -> None:
    origin = await story.release()
    malformed = NewEvent(
        event_id=uuid7(),
        scenario=story.scenario,
        stream="scenario",
        type="scenario.held",
        schema_version=1,
        actor="service",
        causation_id=None,
        correlation_id=None,
        data=data,
        expected_version=None,
    )
    await caught_up(story, await thief.log.append(malformed))
    ready = (await story.ask(None, "GET", "/readyz")).json()
    assert (ready["status"], ready["violations"]) == ("ok", 1)
    assert (await story.get("audit", story.path()))["held_reason"] is None
    # The database, which reads no data of a hold, believes it: a real one and its end mend that.
    await story.lever("hold")
    await story.lever("resume")
    better = await story.release()
    assert await story.serving() == better != origin


async def test_a_log_changed_by_its_superuser_stops_the_service_where_it_was(
    story: Story,
) -> None:
    """An event that cannot follow: nothing after it can be trusted, what was before still can."""
    origin = await story.release()
    document = await until(story.current, lambda seen: seen.status_code == 200)
    connection = await asyncpg.connect(story.site.database.owner_dsn)
    try:
        await connection.execute("alter table reef.events disable trigger all")
        await connection.execute(
            "insert into reef.events select position + 1, gen_random_uuid(), scenario, stream,"
            " version + 1, type, recorded_at, body, chain"
            " from reef.events order by position desc limit 1"
        )
    finally:
        await connection.close()
    ready = await until(
        lambda: story.ask(None, "GET", "/readyz"), lambda seen: seen.status_code == 503
    )
    assert ready.json()["status"] == "unavailable"
    assert "reef_log_broken 1.0" in (await story.ask(None, "GET", "/metrics")).text
    assert await story.serving() == origin
    assert served(await story.current()) == served(document) == origin
    with pytest.raises(Problem) as refused:
        await story.lever("hold")
    assert refused.value.status == 503
    with pytest.raises(InvalidEvent):
        async with open_service(story.site.settings()):
            raise AssertionError("it must not start on such a log")
