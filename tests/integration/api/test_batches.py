"""Batches over HTTP: what may be trained forms batches, each is trained once, nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from reef_release.artifacts.directory_store import DirectoryBlobStore
from tests.integration.api.story import SCENARIO, Problem, Site, Story, open_story, until
from tests.integration.api.traffic import (
    HINT,
    JUDGE,
    REACTION,
    Agent,
    claim_batch,
    claim_turn,
    judge,
    judged_turn,
    signal,
    vote,
)
from tests.integration.api.trainer import TrainerJob

pytestmark = pytest.mark.anyio


@pytest.fixture
async def small(site: Site) -> AsyncIterator[Story]:
    """A service that serves an origin and forms batches of two."""
    async with open_story(site, batch_size=2, sample_limit_tokens=100) as story:
        await story.create_scenario()
        await story.release()
        yield story


async def refusals(story: Story, count: int = 1) -> list[str]:
    events = await until(
        lambda: story.events(type="sample.refused"), lambda found: len(found) >= count
    )
    return [event["data"]["reason"] for event in events]


async def test_judged_turns_of_the_release_served_form_a_batch_that_one_trainer_claims(
    small: Story,
) -> None:
    turns = [
        await judged_turn(small, temperature=0.7),
        await judged_turn(small, score=1, hint=""),
    ]
    batch = await until(lambda: claim_batch(small))
    release = await small.serving()
    assert batch["release_id"] == release
    one, other = batch["samples"]
    assert [one["turn_id"], other["turn_id"]] == turns
    assert (one["score"], one["hints"]) == (-1, [HINT])
    assert (one["token_ids"], one["logprobs"]) == ([4, 5], [-0.25, -1.5])
    assert (one["temperature"], other["temperature"]) == (0.7, None)
    assert one["reply"]["content"].startswith("It is ")
    assert one["next_state"] == [{"role": "user", "content": REACTION}]
    assert (one["policy"], one["distillation"], one["hinted"]) == (True, True, True)
    assert (other["policy"], other["distillation"], other["hinted"]) == (True, True, False)
    assert await claim_batch(small, "trainer-2") is None
    view = await signal(small)
    assert (view["total"]["batched"], view["waiting"]["claimed"]) == (2, 1)


async def test_a_neutral_turn_gives_no_sample(small: Story) -> None:
    await judged_turn(small, score=0, hint="")
    view = await signal(small)
    assert (view["total"]["neutral"], view["waiting"]["samples"]) == (1, 0)


async def test_malformed_token_data_are_refused_with_an_event_and_never_padded(
    small: Story,
) -> None:
    await judged_turn(small, logprobs=[-0.1, -0.2, -0.3])
    await judged_turn(small, token_ids=[7] * 101, logprobs=[-0.5] * 101)
    await judged_turn(small, release_id=None)
    await judged_turn(small, release_id="ab" * 32)
    assert await refusals(small, 4) == [
        "length-mismatch",
        "too-long",
        "unknown-release",
        "unknown-release",
    ]
    assert (await signal(small))["total"]["refused"]["length-mismatch"] == 1
    assert await small.events(type="batch.formed") == []


async def test_what_can_never_be_batched_is_refused_although_nothing_is_served(
    story: Story,
) -> None:
    agent = Agent(story=story, tag="s-1")
    await agent.say("Add two and two, please.", "Four.", token_ids=None)
    await agent.say("Show your steps.", "2 + 2 = 4, and that is all.")
    await agent.say("Much better now.", "You are welcome, as always.")
    for number in (1, 2):
        turn = await until(lambda: claim_turn(story))
        await judge(story, turn, vote(-1, number))
    assert await refusals(story, 2) == ["incomplete-token-data", "unknown-release"]
    view = await signal(story)
    assert view["total"]["refused"] == {"incomplete-token-data": 1, "unknown-release": 1}
    assert (view["waiting"]["samples"], view["waiting"]["held"]) == (0, 0)
    assert [each["code"] for each in view["findings"]] == ["nothing-served", "untrainable"]
    metrics = (await story.ask(None, "GET", "/metrics")).text
    assert 'reef_signal_refused{reason="unknown-release",scenario="homework"} 1.0' in metrics
    assert 'reef_signal_untrainable{reason="unknown-release",scenario="homework"} 2.0' in metrics
    assert 'reef_signal_waiting{scenario="homework",what="batch"} 0.0' in metrics


async def test_a_gate_task_is_refused_however_it_is_written(small: Story) -> None:
    await judged_turn(small, question="what is  7 + 2?")
    assert await refusals(small) == ["gate-task"]


async def test_two_reactions_to_one_reply_train_it_once(small: Story) -> None:
    agent = Agent(story=small, release_id=await small.serving())
    await agent.say("Add two and two, please.", "Four.")
    await agent.say("Now three and three.", "Six, as you might know.")
    await agent.say("Your first answer lacks its steps.", "2 + 2 = 4, and that is all.")
    first = await until(lambda: claim_turn(small))
    await judge(small, first, vote(-1, 1))
    second = await until(lambda: claim_turn(small))
    await judge(small, second, vote(-1, 1))
    assert await refusals(small) == ["turn-used"]


async def test_what_a_suspended_judge_says_feeds_no_batch(small: Story) -> None:
    probe = {"judge": JUDGE, "asked": 20, "right": 10}
    await judged_turn(small)
    await small.post("judge", small.path("judge", "probes"), probe)
    await judged_turn(small)
    assert await refusals(small) == ["judge-suspended"]
    await until(lambda: signal(small), lambda view: view["waiting"]["held"] == 1)
    await small.post("judge", small.path("judge", "probes"), {**probe, "right": 20})
    await judged_turn(small)
    assert await until(lambda: claim_batch(small)) is not None


async def test_a_batch_given_back_is_claimed_again_and_nothing_is_lost(small: Story) -> None:
    turns = [await judged_turn(small), await judged_turn(small)]
    batch = await until(lambda: claim_batch(small))
    path = small.path("batches", batch["batch_id"], "release")
    with pytest.raises(Problem) as problem:
        await small.post("train", path, {"lease_id": "another"})
    assert problem.value.status == 409
    await small.post("train", path, {"lease_id": batch["lease_id"]})
    again = await until(lambda: claim_batch(small, "trainer-2"))
    assert again["batch_id"] == batch["batch_id"]
    assert again["lease_id"] != batch["lease_id"]
    assert [each["turn_id"] for each in again["samples"]] == turns
    with pytest.raises(Problem) as problem:
        await small.post("train", path, {"lease_id": batch["lease_id"]})
    assert problem.value.status == 409


async def test_a_mask_is_recorded_with_the_reply_and_handed_out_with_the_sample(
    small: Story,
) -> None:
    await judged_turn(small, mask=[1, 0])
    await judged_turn(small)
    batch = await until(lambda: claim_batch(small))
    assert [each["mask"] for each in batch["samples"]] == [[1, 0], None]


async def test_a_batch_may_hold_replies_of_so_many_releases_ago_as_is_set(site: Site) -> None:
    async with open_story(site, batch_size=2, batch_max_lag=1) as story:
        await story.create_scenario()
        first = await story.release()
        older = await judged_turn(story)
        second = await story.release()
        newer = await judged_turn(story)
        batch = await until(lambda: claim_batch(story))
        assert (batch["release_id"], batch["releases"]) == (second, [first, second])
        assert [(each["turn_id"], each["release_id"]) for each in batch["samples"]] == [
            (older, first),
            (newer, second),
        ]
        job = TrainerJob(story=story, base=second)
        await job.train(batch)
        await judged_turn(story, release_id=first)
        await story.release()
        assert (await refusals(story))[0] == "stale"


async def test_a_trainer_is_given_batches_of_its_channel_alone(small: Story) -> None:
    beta = (await small.submit(channel="beta"))["candidate_id"]
    await small.gate()
    await small.sign(beta)
    await small.promoted(beta)
    stable = [await judged_turn(small), await judged_turn(small)]
    other = [await judged_turn(small, release_id=beta) for _ in range(2)]
    batch = await until(lambda: claim_batch(small, channel="beta"))
    assert (batch["channel"], batch["release_id"]) == ("beta", beta)
    assert [each["turn_id"] for each in batch["samples"]] == other
    assert await claim_batch(small, channel="beta") is None
    assert await claim_batch(small, channel="gamma") is None
    batch = await until(lambda: claim_batch(small))
    assert [each["turn_id"] for each in batch["samples"]] == stable


async def test_a_claim_that_lapses_is_released_with_an_event(site: Site) -> None:
    async with open_story(site, batch_size=1, lease_s=1) as story:
        await story.create_scenario()
        await story.release()
        await judged_turn(story)
        batch = await until(lambda: claim_batch(story))
        await story.post("train", f"/reef/leases/{batch['lease_id']}/renew")
        assert len(await story.events(type="batch.claimed")) == 2
        (event,) = await until(lambda: story.events(type="batch.released"))
        assert event["data"]["reason"] == "expired"
        again = await until(lambda: claim_batch(story, "trainer-2"))
        assert again["batch_id"] == batch["batch_id"]


async def test_trainers_that_claim_at_once_never_share_a_batch(site: Site) -> None:
    async with (
        open_story(site, batch_size=1) as one,
        open_story(site, batch_size=1) as other,
    ):
        await one.create_scenario()
        await one.release()
        turns = {await judged_turn(one), await judged_turn(one)}
        await until(lambda: other.events(type="batch.formed"), lambda found: len(found) == 2)
        found: list[Any] = []
        while len(found) < 2:
            claims = await asyncio.gather(
                *(claim_batch(story, f"t-{n}") for n, story in enumerate([one, other] * 2))
            )
            found += [each for each in claims if each is not None]
        assert {each["samples"][0]["turn_id"] for each in found} == turns
        assert len(found) == 2
        assert len(await one.events(type="batch.formed")) == 2


async def test_turns_and_batches_of_a_release_served_no_more_are_refused_as_stale(
    small: Story,
) -> None:
    await judged_turn(small)
    await judged_turn(small)
    (formed,) = await until(lambda: small.events(type="batch.formed"))
    await judged_turn(small)
    await small.release()
    assert await refusals(small, 3) == ["stale"] * 3
    (released,) = await small.events(type="batch.released")
    assert released["data"] == {
        "batch_id": formed["data"]["batch_id"],
        "lease_id": None,
        "reason": "stale",
    }
    assert await claim_batch(small) is None
    assert (await signal(small))["total"]["batched"] == 0


@pytest.mark.parametrize("what", ["body", "next body", "hint"])
@pytest.mark.parametrize("how", ["erased", "damaged", "too large"])
async def test_a_sample_that_cannot_be_given_dissolves_its_batch_and_frees_the_others(
    small: Story, what: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await judged_turn(small)
    other = await judged_turn(small)
    await until(lambda: small.events(type="batch.formed"))
    assert small.service is not None
    turns = small.service.scenario(SCENARIO).traffic.turns
    turn = turns[first]
    assert turn.judged is not None
    digest = {
        "body": turn.body,
        "next body": turns[turn.next_id or ""].body,
        "hint": turn.judged.hints[0],
    }[what]
    blobs = small.service.blobs
    path = blobs.root / "blobs" / digest[:2] / digest[2:]
    if how == "erased":
        await blobs.erase(digest)
    elif how == "damaged":
        path.chmod(0o600)
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    else:
        real = DirectoryBlobStore.read_body

        async def read_body(store: DirectoryBlobStore, asked: str, limit_bytes: int) -> bytes:
            return await real(store, asked, 1 if asked == digest else limit_bytes)

        monkeypatch.setattr(DirectoryBlobStore, "read_body", read_body)
    assert await claim_batch(small) is None
    assert await refusals(small) == ["body-missing"]
    assert await small.events(type="batch.claimed") == []
    (released,) = await small.events(type="batch.released")
    assert (released["data"]["lease_id"], released["data"]["reason"]) == (None, "body-missing")
    await judged_turn(small)
    batch = await until(lambda: claim_batch(small))
    assert batch["samples"][0]["turn_id"] == other
    assert len(await small.events(type="batch.formed")) == 2
