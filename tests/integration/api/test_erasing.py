"""Erasing over HTTP: the event, then every copy; what is erased is gone for all and for good."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from typing import Any

import pytest

from reef_release.api.erasing import Erasing
from reef_release.api.recording import append, prepare
from reef_release.domain.canonical import sha256_hex
from reef_release.errors import QueueFull, Refused
from reef_release.log import Appended, EventLog, NewEvent
from reef_release.traffic_wire import InteractionRequest
from tests.erasing import SECRET, WHY, holding
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import Problem, Site, Story, open_story, until
from tests.integration.api.traffic import (
    HINT,
    JUDGE,
    REACTION,
    Agent,
    claim_batch,
    claim_turn,
    correlated,
    interaction,
    judge,
    judged_turn,
    signal,
    vote,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
async def small(site: Site) -> AsyncIterator[Story]:
    """A service that serves an origin and forms batches of two."""
    async with open_story(site, batch_size=2) as story:
        await story.create_scenario()
        await story.release()
        yield story


async def erase(story: Story, **wanted: Any) -> Any:
    return await story.post("operate", story.path("erasures"), {**WHY, **wanted})


async def body_of(story: Story, turn: str) -> str:
    events = await story.events(scenario=story.scenario)
    return str(next(e["data"]["body"] for e in events if e["data"].get("interaction_id") == turn))


async def test_an_erased_body_is_gone_and_readers_are_told_when_and_why(story: Story) -> None:
    agent = Agent(story=story, tag="s")
    turn = await agent.say(SECRET, "Hello Ada.")
    digest = await body_of(story, turn)
    assert (await story.ask("audit", "GET", f"/reef/blobs/{digest}")).status_code == 200
    assert holding(story.site.home, SECRET)
    view = await story.post("operate", f"/reef/blobs/{digest}/erase", WHY)
    assert (view["kind"], view["turn_id"], view["scenario"]) == ("call", turn, story.scenario)
    assert holding(story.site.home, SECRET) == []
    for method in ("GET", "HEAD"):
        assert (await story.ask("audit", method, f"/reef/blobs/{digest}")).status_code == 410
    problem = (await story.ask("audit", "GET", f"/reef/blobs/{digest}")).json()
    assert problem["type"] == "urn:reef-release:problem:blob-erased"
    assert problem["reason"] == WHY["reason"]
    assert (problem["position"], problem["event_id"]) == (view["position"], view["event_id"])
    [event] = await story.events(type="body.erased")
    assert event["data"] == {"digest": digest, "kind": "call", "turn_id": turn, **WHY}
    assert (event["actor"], event["recorded_at"]) == ("the-operate", problem["erased_at"])
    assert event["stream"] == f"privacy/{digest}"
    again = await story.post("operate", f"/reef/blobs/{digest}/erase", {"reason": "again"})
    assert again == view


async def test_an_erased_body_does_not_come_back_by_an_upload(story: Story) -> None:
    turn = await Agent(story=story).say(SECRET, "Hello Ada.")
    digest = await body_of(story, turn)
    assert story.service is not None
    stored = await story.service.blobs.read(digest, 10_000)
    await story.post("operate", f"/reef/blobs/{digest}/erase", WHY)
    put = await story.ask("operate", "PUT", f"/reef/blobs/{digest}", content=stored)
    part = await story.ask(
        "operate",
        "PUT",
        f"/reef/blobs/{digest}",
        content=stored[:10],
        headers={"Content-Range": f"bytes 0-9/{len(stored)}"},
    )
    assert (put.status_code, part.status_code) == (410, 410)
    assert holding(story.site.home, SECRET) == []


async def test_an_unfinished_upload_of_an_erased_body_goes_with_it(story: Story) -> None:
    turn = await Agent(story=story).say(SECRET, "Hello Ada.")
    digest = await body_of(story, turn)
    assert story.service is not None
    blobs = story.service.blobs
    stored = await blobs.read(digest, 10_000)
    await blobs.erase(digest)  # another machine's copy is not here yet
    await story.ask(
        "operate",
        "PUT",
        f"/reef/blobs/{digest}",
        content=stored[:-1],
        headers={"Content-Range": f"bytes 0-{len(stored) - 2}/{len(stored)}"},
    )
    assert holding(story.site.home, SECRET)
    await story.post("operate", f"/reef/blobs/{digest}/erase", WHY)
    assert holding(story.site.home, SECRET) == []


@pytest.mark.parametrize("role", ["audit", "ingest", "train", "gate", "judge", "serve", "approve"])
async def test_only_an_operator_erases(story: Story, role: str) -> None:
    turn = await Agent(story=story).say("Hello.", "Hello.")
    digest = await body_of(story, turn)
    for path, body in (
        (f"/reef/blobs/{digest}/erase", WHY),
        (story.path("erasures"), {**WHY, "turn_id": turn}),
    ):
        with pytest.raises(Problem) as caught:
            await story.post(role, path, body)
        assert caught.value.status == 403
    assert await story.events(type="body.erased") == []


async def test_an_operator_of_another_scenario_erases_nothing_here(story: Story) -> None:
    turn = await Agent(story=story).say("Hello.", "Hello.")
    digest = await body_of(story, turn)
    token = story.site.token("operate", "elsewhere")
    answer = await story.http.post(
        f"/reef/blobs/{digest}/erase", json=WHY, headers={"Authorization": f"Bearer {token}"}
    )
    assert answer.status_code == 403


async def test_what_promotions_follow_from_is_refused_with_its_reason(small: Story) -> None:
    events = await small.events()
    named = {
        "trial": next(e["data"]["body"] for e in events if e["type"] == "gate.trial"),
        "suite": sha256_hex(small.suite),
        "schema": next(e["data"]["schema"] for e in events if e["type"] == "scenario.created"),
        "bundle": next(e["data"]["bundle"] for e in events if e["type"] == "release.signed"),
        "canary": next(e["data"]["canary"] for e in events if e["type"] == "gate.passed"),
        "weights": next(
            e["data"]["files"][0]["sha256"] for e in events if e["type"] == "candidate.submitted"
        ),
    }
    for what, digest in named.items():
        with pytest.raises(Problem) as caught:
            await small.post("operate", f"/reef/blobs/{digest}/erase", WHY)
        assert (caught.value.status, caught.value.codes) == (422, ["kept"]), what
        assert (await small.ask("audit", "GET", f"/reef/blobs/{digest}")).status_code == 200
    with pytest.raises(Problem) as caught:
        await small.post("operate", f"/reef/blobs/{'0' * 64}/erase", WHY)
    assert caught.value.status == 404
    with pytest.raises(Problem) as caught:
        await small.post("operate", f"/reef/blobs/{'0' * 64}/erase", {"reason": ""})
    assert caught.value.status in (400, 404)


async def test_a_turn_is_erased_with_all_that_repeats_or_quotes_it(story: Story) -> None:
    agent = Agent(story=story, tag="s")
    first = await agent.say("Hello.", "Hello, what is your name?")
    turn = await agent.say(SECRET, "Hello Ada.")
    await agent.say(REACTION, "I am sorry.")
    await correlated(story, 3)
    assignment = await claim_turn(story)
    assert assignment["turn_id"] == first
    await judge(story, assignment, vote(-1, 1, f"Somebody said: {SECRET}", raw=SECRET))
    report = {"score": 1, "feedback": f"It knew me: {SECRET}", "references": [turn]}
    await story.post("ingest", "/reef/report", report)
    planned = await erase(story, turn_id=turn, dry_run=True)
    assert await story.events(type="body.erased") == []
    assert [each["position"] for each in planned["bodies"]] == [None] * len(planned["bodies"])
    done = await erase(story, turn_id=turn)
    assert [each["digest"] for each in done["bodies"]] == [
        each["digest"] for each in planned["bodies"]
    ]
    assert sorted(each["kind"] for each in done["bodies"]) == [
        "call",
        "call",
        "feedback",
        "hint",
        "votes",
    ]
    assert (done["calls"], done["remaining"]) == (2, 0)
    assert holding(story.site.home, SECRET) == []
    assert holding(story.site.home, "what is your name?")
    assert (await signal(story))["total"]["erased"] == 2
    again = await erase(story, turn_id=turn)
    assert (again["bodies"], again["calls"], again["remaining"]) == ([], 0, 0)
    view = await story.get("operate", story.path("sessions", first))
    assert [each["erased"] for each in view["turns"]] == [False, True, True]


async def test_sessions_and_tags_are_erased_whole(story: Story) -> None:
    one, two = (Agent(story=story, tag=tag) for tag in ("one", "two"))
    for agent in (one, two):
        await agent.say(f"{SECRET} {agent.tag}", "Hello.")
        await agent.say("Again.", "Hello.")
    await correlated(story, 4)
    await erase(story, session_id=one.receipts[0])
    assert holding(story.site.home, f"{SECRET} one") == []
    assert holding(story.site.home, f"{SECRET} two")
    await erase(story, tag="two")
    assert holding(story.site.home, SECRET) == []


@pytest.mark.parametrize(
    ("wanted", "status"),
    [
        ({}, 400),
        ({"tag": "a", "turn_id": "b"}, 400),
        ({"turn_id": "x"}, 404),
        ({"session_id": "x"}, 404),
        ({"tag": "x"}, 404),
        ({"older_than_s": 0}, 400),
        ({"older_than_s": 1e300}, 400),
    ],
    ids=str,
)
async def test_an_unclear_erasure_is_refused(story: Story, wanted: Any, status: int) -> None:
    with pytest.raises(Problem) as caught:
        await erase(story, **wanted)
    assert caught.value.status == status


@pytest.mark.parametrize("kind", ["turn_id", "session_id"])
async def test_the_beginning_of_an_id_is_refused_with_where_the_whole_one_stands(
    story: Story, kind: str
) -> None:
    turn = await Agent(story=story).say("Hello.", "Hello.")
    await correlated(story, 1)
    answer = await story.ask(
        "operate", "POST", story.path("erasures"), json={**WHY, kind: turn[:8]}
    )
    assert answer.status_code == 404
    assert "whole" in answer.json()["next_step"]


async def test_an_erasure_needs_a_reason(story: Story) -> None:
    await Agent(story=story, tag="a").say("Hello.", "Hello.")
    with pytest.raises(Problem) as caught:
        await erase(story, tag="a", reason="  ")
    assert caught.value.status == 400
    assert await story.events(type="body.erased") == []


async def test_a_feedback_that_several_turns_share_is_erased_for_all(story: Story) -> None:
    turns = [await Agent(story=story).say(f"Hello {n}.", "Hello.") for n in range(2)]
    await story.post(
        "ingest", "/reef/report", {"score": 1, "feedback": SECRET, "references": turns}
    )
    events = await story.events(type="report.received")
    [digest] = {event["data"]["feedback"] for event in events}
    view = await story.post("operate", f"/reef/blobs/{digest}/erase", WHY)
    assert view["kind"] == "feedback"
    assert holding(story.site.home, SECRET) == []
    assert len(await story.events(type="body.erased")) == 1
    assert (await erase(story, turn_id=turns[1]))["bodies"][0]["kind"] == "call"


async def test_a_judgment_of_an_erased_turn_comes_too_late_and_leaves_nothing(story: Story) -> None:
    agent = Agent(story=story, tag="s")
    turn = await agent.say("What is 2 + 2?", "5")
    await agent.say(REACTION, "4")
    await correlated(story, 2)
    assignment = await claim_turn(story)
    await erase(story, turn_id=turn, only=True)
    with pytest.raises(Problem) as caught:
        await judge(story, assignment, vote(-1, 1, f"He said {SECRET}", raw=SECRET))
    assert (caught.value.status, caught.value.codes) == (409, ["erased"])
    assert holding(story.site.home, SECRET) == []
    assert await claim_turn(story) is None
    assert await story.events(type="turn.judging_failed") == []


async def test_a_sample_of_something_erased_trains_nothing(small: Story) -> None:
    turn = await judged_turn(small)
    await erase(small, turn_id=turn)
    refused = await until(lambda: small.events(type="sample.refused"))
    assert [event["data"]["reason"] for event in refused] == ["erased"]
    assert (await signal(small))["total"]["refused"] == {"erased": 1}


async def test_a_batch_that_waits_is_dissolved_and_its_other_samples_wait_again(
    small: Story,
) -> None:
    turns = [await judged_turn(small) for _ in range(2)]
    await until(lambda: small.events(type="batch.formed"))
    await erase(small, turn_id=turns[0])
    [released] = await until(lambda: small.events(type="batch.released"))
    assert released["data"]["reason"] == "body-missing"
    other = await judged_turn(small)
    batch = await until(lambda: claim_batch(small))
    assert [each["turn_id"] for each in batch["samples"]] == [turns[1], other]


async def test_a_batch_that_is_being_trained_is_taken_from_its_trainer(small: Story) -> None:
    turns = [await judged_turn(small) for _ in range(2)]
    batch = await until(lambda: claim_batch(small))
    await erase(small, turn_id=turns[0])
    await until(lambda: small.events(type="batch.released"))
    path = small.path("batches", batch["batch_id"], "release")
    with pytest.raises(Problem) as caught:
        await small.post("train", path, {"lease_id": batch["lease_id"]})
    assert caught.value.status == 409


async def test_a_hint_alone_can_be_erased(small: Story) -> None:
    turn = await judged_turn(small)
    [event] = await small.events(type="turn.judged")
    [hint] = event["data"]["hints"]
    assert (await small.post("operate", f"/reef/blobs/{hint}/erase", WHY))["turn_id"] == turn
    await until(lambda: small.events(type="sample.refused"))
    assert len(holding(small.site.home, HINT)) == 1  # the votes still have it


async def test_the_same_call_again_is_a_conflict_once_it_is_erased(story: Story) -> None:
    agent = Agent(story=story)
    turn = await agent.say(SECRET, "Hello Ada.")
    await erase(story, turn_id=turn)
    agent.messages.clear()
    with pytest.raises(Problem) as caught:
        await agent.say(SECRET, "Hello Ada.", interaction_id=turn)
    assert caught.value.status == 409
    assert holding(story.site.home, SECRET) == []


async def test_a_call_that_the_log_refuses_leaves_no_body(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert story.service is not None

    async def refuse(*_: Any, **__: Any) -> None:
        raise Refused("not this one")

    with monkeypatch.context() as patch:
        patch.setattr(story.service.commands, "append", refuse)
        with pytest.raises(Problem) as caught:
            await Agent(story=story).say(SECRET, "Hello Ada.")
        assert caught.value.status == 422
        assert holding(story.site.home, SECRET) == []


async def test_a_crash_between_event_and_file_is_completed_at_the_next_start(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_story(site) as story:
        await story.create_scenario()
        turn = await Agent(story=story).say(SECRET, "Hello Ada.")
        with monkeypatch.context() as patch:

            async def nothing(_self: Erasing) -> None:
                return None

            patch.setattr(Erasing, "settle", nothing)
            await erase(story, turn_id=turn)
            digest = await body_of(story, turn)
            assert holding(site.home, SECRET)
            assert (await story.ask("audit", "GET", f"/reef/blobs/{digest}")).status_code == 410
    assert holding(site.home, SECRET)
    async with open_story(site) as story:
        assert holding(site.home, SECRET) == []
        assert (await story.ask("audit", "GET", f"/reef/blobs/{digest}")).status_code == 410
        assert story.service is not None
        assert story.service.state.violations == []


async def test_a_file_that_cannot_be_removed_is_no_success_and_is_tried_again(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = await Agent(story=story).say(SECRET, "Hello Ada.")
    assert story.service is not None

    def broken(_digest: str) -> bool:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(story.service.blobs, "erase_sync", broken)
        with pytest.raises(Problem) as caught:
            await erase(story, turn_id=turn)
        assert caught.value.status == 503
        assert len(await story.events(type="body.erased")) == 1
    await until(lambda: _async(not holding(story.site.home, SECRET)))


async def _async(value: Any) -> Any:
    return value


async def test_two_services_of_one_directory_erase_once_and_neither_reads_it(site: Site) -> None:
    async with open_story(site) as one, open_story(site) as two:
        await one.create_scenario()
        turn = await Agent(story=one).say(SECRET, "Hello Ada.")
        digest = await body_of(one, turn)
        assert two.service is not None
        await two.service.live.catch_up()
        views = await asyncio.gather(
            *(each.post("operate", f"/reef/blobs/{digest}/erase", WHY) for each in (one, two))
        )
        assert views[0] == views[1]
        assert len(await one.events(type="body.erased")) == 1
        for each in (one, two):
            assert (await each.ask("audit", "GET", f"/reef/blobs/{digest}")).status_code == 410
        assert holding(site.home, SECRET) == []


async def test_two_services_with_directories_of_their_own_each_erase_their_copy(
    site: Site,
) -> None:
    other = site.home / "other-blobs"
    async with open_story(site) as one:
        await one.create_scenario()
        turn = await Agent(story=one).say(SECRET, "Hello Ada.")
        digest = await body_of(one, turn)
        shutil.copytree(site.home / "blobs", other)
        async with open_story(site, blobs=other):
            assert len(holding(site.home, SECRET)) == 2
            await one.post("operate", f"/reef/blobs/{digest}/erase", WHY)
            await until(lambda: _async(not holding(site.home, SECRET)))


async def test_a_killed_service_completes_the_erasure_when_it_starts_again(
    site: Site,
) -> None:
    with ServerProcess(site) as server:
        story = server.story()
        async with story.http:
            await story.create_scenario()
            turn = await Agent(story=story, tag="t").say(SECRET, "Hello Ada.")
            digest = await body_of(story, turn)
            path = site.home / "blobs" / "blobs" / digest[:2] / digest[2:]
            kept = path.read_bytes()
            await erase(story, turn_id=turn)
            assert not path.exists()
            await asyncio.to_thread(server.kill)
            path.write_bytes(kept)  # as if it had been killed before the file went
            server.launch()
            await asyncio.to_thread(server.await_ready)
            assert not path.exists()
            answer = await story.ask("audit", "GET", f"/reef/blobs/{digest}")
            assert answer.status_code == 410


@pytest.mark.parametrize("step", ["interaction.recorded", "report.received", "turn.judged"])
async def test_what_a_full_queue_did_not_take_leaves_no_blob(
    small: Story, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(story=small, tag="s")
    turn = await agent.say("Hello", "Hi")
    await agent.say("No.", "Sorry.")
    await correlated(small, 2)
    claimed = await claim_turn(small)
    full(monkeypatch, step)
    judged = {"lease_id": claimed["lease_id"], "next_id": claimed["next_id"], "judge": JUDGE}
    path, role, body = {
        "interaction.recorded": (small.path("interactions"), "ingest", interaction(SECRET)),
        "report.received": ("/reef/report", "ingest", {"feedback": SECRET, "references": [turn]}),
        "turn.judged": (
            small.path("turns", turn, "judgment"),
            "judge",
            {**judged, "votes": [vote(-1, 1, SECRET)] * 3},
        ),
    }[step]
    with pytest.raises(Problem) as problem:
        await small.post(role, path, body)
    assert problem.value.status == 503
    assert holding(small.site.home, SECRET) == []


async def test_what_its_sender_keeps_stays_for_the_next_try(
    small: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an earlier try whose answer was lost, the event may be in the log: it names the blob."""
    service = small.service
    assert service is not None
    request = InteractionRequest(
        messages=[{"role": "user", "content": SECRET}],
        reply={"role": "assistant", "content": "Hi"},
    )
    scenario = service.scenario(small.scenario)
    prepared = await prepare(service, scenario, request, salt=b"s" * 32)
    full(monkeypatch, "interaction.recorded")
    with pytest.raises(QueueFull):
        await append(service, "the-ingest", scenario, prepared)
    assert len(holding(small.site.home, SECRET)) == 1


def full(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """From now on, the log's queue has no room for events of type *step*."""
    real = EventLog.append

    async def append(log: EventLog, new: NewEvent) -> Appended:
        if new.type == step:
            raise QueueFull("Too many wait.")
        return await real(log, new)

    monkeypatch.setattr(EventLog, "append", append)
