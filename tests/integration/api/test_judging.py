"""Judging over HTTP: a turn is shown whole, judged once, and every raw vote is kept."""

from __future__ import annotations

import asyncio
import json

import pytest

from reef_release.artifacts.blobs import unsalted
from reef_release.domain.judging import MAX_HINT_CHARACTERS
from reef_release.tokens import Principal, TokenRole
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import Problem, Site, Story, open_story, until
from tests.integration.api.traffic import (
    JUDGE,
    Agent,
    claim_turn,
    correlated,
    interaction,
    judge,
    judgment,
    signal,
    turns_of,
    vote,
)

pytestmark = pytest.mark.anyio

HINT = "Write it as a sum."


async def conversation(story: Story, *, turns: int = 2, system: str = "You help.") -> Agent:
    """A conversation whose last turn has no next state yet."""
    agent = Agent(story=story, system=system)
    before = (await signal(story))["total"]["calls"]
    for number in range(turns):
        await agent.say(f"Please do step {number}.", f"This is what step {number} gives.")
    await correlated(story, before + turns)
    return agent


async def test_a_judge_sees_request_reply_next_state_and_the_numbered_replies_before(
    story: Story,
) -> None:
    agent = await conversation(story, turns=3)
    first = await claim_turn(story)
    second = await claim_turn(story)
    assert [first["turn_id"], second["turn_id"]] == agent.receipts[:2]
    assert first["earlier"] == []
    assert second["earlier"] == [
        {"index": 1, "turn_id": agent.receipts[0], "reply": "This is what step 0 gives."}
    ]
    assert second["reply"] == "This is what step 1 gives."
    assert second["messages"][-1] == {"role": "user", "content": "Please do step 1."}
    assert second["next_state"] == {
        "role": "user",
        "messages": [{"role": "user", "content": "Please do step 2."}],
    }
    assert second["session_id"] == agent.receipts[0]
    assert await claim_turn(story) is None


async def test_all_results_of_parallel_tool_calls_are_the_next_state(story: Story) -> None:
    agent = Agent(story=story)
    calls = [
        {"id": f"call_{name}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        for name in ("weather", "clock")
    ]
    reply = {"role": "assistant", "content": None, "tool_calls": calls}
    await agent.record([{"role": "user", "content": "How is it outside?"}], reply)
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": f"result {call['id']}"}
        for call in calls
    ]
    await agent.record(results, "It is sunny, and it is noon.")
    await correlated(story, 2)
    turn = await claim_turn(story)
    assert turn["next_state"] == {"role": "tool", "messages": results}
    assert "weather" in turn["reply"]


async def test_the_votes_become_one_judgment_and_every_raw_vote_is_kept(story: Story) -> None:
    agent = await conversation(story)
    turn = await claim_turn(story)
    votes = [vote(-1, 1, HINT, keep="the result"), vote(-1, 1), vote(1, 1, valid=False)]
    written = await judge(story, turn, *votes)
    (event,) = await story.events(type="turn.judged")
    assert event["position"] == written["position"]
    data = event["data"]
    assert (data["score"], data["about"], data["target"]) == (-1, 1, agent.receipts[0])
    assert (data["valid"], data["asked"], len(data["hints"])) == (2, 3, 1)
    named = {**JUDGE["settings"], "token": "the-judge"}
    assert data["judge"] == {**JUDGE, "settings": named}
    assert "sum" not in json.dumps(event)
    assert story.service is not None
    stored = story.service.blobs.read_sync(data["votes"], 100_000)
    kept = json.loads(unsalted(stored, data["votes"]))
    assert kept["votes"] == votes
    assert kept["keep"] == "the result"
    assert await claim_turn(story) is None
    assert (await signal(story))["total"]["judged"] == 1


async def test_a_reaction_to_an_earlier_reply_judges_that_reply(story: Story) -> None:
    agent = await conversation(story, turns=3)
    await claim_turn(story)
    second = await claim_turn(story)
    await judge(story, second, vote(-1, 1))
    (event,) = await story.events(type="turn.judged")
    assert event["data"]["turn_id"] == agent.receipts[1]
    assert event["data"]["target"] == agent.receipts[0]


async def test_the_same_votes_again_get_the_first_result_and_others_are_a_conflict(
    story: Story,
) -> None:
    await conversation(story)
    turn = await claim_turn(story)
    first = await judge(story, turn, vote(1, 1))
    assert await judge(story, turn, vote(1, 1)) == first
    with pytest.raises(Problem) as problem:
        await judge(story, turn, vote(-1, 1))
    assert problem.value.status == 409
    assert len(await story.events(type="turn.judged")) == 1


async def test_two_workers_that_judge_one_turn_at_once_leave_one_judgment(site: Site) -> None:
    async with open_story(site) as one, open_story(site) as other:
        await one.create_scenario()
        await conversation(one)
        turns = [await claim_turn(one), await until(lambda: claim_turn(other, "judge-2"))]
        results = await asyncio.gather(
            judge(one, turns[0], vote(1, 1)),
            judge(other, turns[1], vote(-1, 1)),
            return_exceptions=True,
        )
        assert sum(isinstance(each, Problem) for each in results) == 1
        assert len(await one.events(type="turn.judged")) == 1


async def test_two_workers_of_one_service_are_given_two_turns(story: Story) -> None:
    await conversation(story, turns=3)
    one, other = await claim_turn(story, "judge-1"), await claim_turn(story, "judge-2")
    assert one["turn_id"] != other["turn_id"]
    renewed = await story.post("judge", f"/reef/leases/{one['lease_id']}/renew")
    assert renewed["lease_id"] == one["lease_id"]


async def test_an_outage_is_no_verdict_and_the_turn_is_tried_again_three_times_at_most(
    site: Site,
) -> None:
    async with open_story(site, judging_retry_s=0) as story:
        await story.create_scenario()
        await conversation(story)
        for attempt in range(1, 4):
            turn = await claim_turn(story)
            await judge(story, turn, error="the endpoint is away")
            events = await story.events(type="turn.judging_failed")
            assert [event["data"]["attempt"] for event in events] == list(range(1, attempt + 1))
        assert await claim_turn(story) is None
        view = await signal(story)
        assert (view["total"]["judging_failed"], view["total"]["judged"]) == (3, 0)


async def test_a_failure_whose_answer_was_lost_counts_once_and_a_success_after_it_counts(
    site: Site,
) -> None:
    async with open_story(site, judging_retry_s=0) as story:
        await story.create_scenario()
        await conversation(story)
        turn = await claim_turn(story)
        await judge(story, turn, error="away")
        with pytest.raises(Problem) as problem:
            await judge(story, turn, error="away")
        assert problem.value.status == 409
        assert len(await story.events(type="turn.judging_failed")) == 1
        await judge(story, await claim_turn(story), vote(1, 1))
        assert len(await story.events(type="turn.judged")) == 1


async def test_of_an_error_the_log_keeps_a_short_line(story: Story) -> None:
    await conversation(story)
    turn = await claim_turn(story)
    for error in ("away\u202e", "\x1b[2J", "two\nlines", "a\tb", "\u2028"):
        with pytest.raises(Problem) as problem:
            await judge(story, turn, error=error)
        assert problem.value.status == 400
        assert "one line of visible characters" in problem.value.body["detail"]
    await judge(story, turn, error="What the pupil said: " + "x" * 5_000)
    failed = (await story.events(type="turn.judging_failed"))[-1]["data"]["error"]
    assert failed == "What the pupil said: " + "x" * 178 + "…"
    assert len(failed) == 200


async def test_after_a_failure_a_turn_is_not_handed_out_at_once(story: Story) -> None:
    await conversation(story)
    await judge(story, await claim_turn(story), error="away")
    assert await claim_turn(story) is None


async def test_votes_on_a_reaction_that_was_taken_back_do_not_count(story: Story) -> None:
    """While the judge thinks, the user goes back and writes something else."""
    agent = await conversation(story)
    turn = await claim_turn(story)
    agent.messages = agent.messages[:-2]
    other = await agent.say("No, with the steps.", "Here they are, one by one.")
    await correlated(story, 3)
    with pytest.raises(Problem) as problem:
        await judge(story, turn, vote(1, 1), next_id=turn["next_id"])
    assert problem.value.status == 409
    again = await claim_turn(story)
    assert (again["turn_id"], again["next_id"]) == (turn["turn_id"], other)
    assert again["next_state"]["messages"][-1]["content"] == "No, with the steps."
    agent.messages.pop()
    await agent.record([], "Here they are: first this, then that.")
    await correlated(story, 4)
    await judge(story, again, vote(-1, 1), next_id=again["next_id"])
    assert len(await story.events(type="turn.judged")) == 1


async def test_a_reply_that_was_regenerated_and_continued_all_the_same_is_judged(
    story: Story,
) -> None:
    agent = await conversation(story)
    await judge(story, await claim_turn(story), vote(1, 1))
    kept = agent.messages.pop()
    other = await agent.record([], "Or this is what it gives.")
    await correlated(story, 3)
    shown = (await turns_of(story, agent.receipts[0]))[1]
    assert shown["superseded_by"] == other
    agent.messages[-1] = kept
    await agent.say("Thanks, the first one is better.", "You are welcome.")
    await correlated(story, 4)
    turn = await claim_turn(story)
    assert turn["turn_id"] == agent.receipts[1]
    await judge(story, turn, vote(1, 2))
    assert await claim_turn(story) is None


async def test_what_has_no_next_state_or_failed_is_never_judged(story: Story) -> None:
    agent = await conversation(story, turns=1)
    assert await claim_turn(story) is None
    with pytest.raises(Problem) as problem:
        await judge(story, {"turn_id": agent.receipts[0], "lease_id": "x"}, vote(1, 1))
    assert problem.value.status == 422
    body = interaction(reply=None, error="timed-out")
    failed = await story.post("ingest", story.path("interactions"), body)
    with pytest.raises(Problem) as problem:
        await judge(story, {"turn_id": failed["interaction_id"], "lease_id": "x"}, vote(1, 1))
    assert problem.value.status == 422


async def test_a_judge_that_knows_too_few_answers_is_suspended_until_it_knows_enough(
    story: Story,
) -> None:
    async def probe(asked: int, right: int) -> bool:
        body = {"judge": JUDGE, "asked": asked, "right": right}
        answer = await story.post("judge", story.path("judge", "probes"), body)
        return bool(answer["suspended"])

    assert not await probe(20, 16)
    assert not await probe(3, 0)
    assert await probe(20, 15)
    assert await probe(20, 15)
    assert await probe(4, 4)
    assert not await probe(20, 16)
    names = [event["type"] for event in await story.events() if event["stream"] == "judge"]
    assert names == ["judge.suspended", "judge.resumed"]
    with pytest.raises(Problem):
        await probe(2, 3)


async def test_a_service_killed_between_claim_and_judgment_judges_no_turn_twice(
    site: Site,
) -> None:
    with ServerProcess(site) as server:
        story = server.story()
        async with story.http:
            await story.create_scenario()
            await conversation(story)
            turn = await claim_turn(story)
            server.kill()
        server.restart()
        story = server.story()
        async with story.http:
            again = await claim_turn(story)
            assert again["turn_id"] == turn["turn_id"]
            with pytest.raises(Problem) as problem:
                await judge(story, turn, vote(1, 1))
            assert problem.value.status == 409  # the lease ended with the service
            first = await judge(story, again, vote(1, 1))
            assert await judge(story, turn, vote(1, 1)) == first
            assert len(await story.events(type="turn.judged")) == 1


@pytest.mark.parametrize("damage", ["erased", "damaged", "no body", "too deep"])
async def test_a_turn_that_cannot_be_handed_out_keeps_no_other_waiting(
    site: Site, damage: str
) -> None:
    async with open_story(site, judging_retry_s=0) as story:
        await story.create_scenario()
        bad = await conversation(story)
        good = await conversation(story, system="You translate whatever comes.")
        assert story.service is not None
        turns = story.service.scenario(story.scenario).traffic.turns
        store = story.service.blobs
        digest = turns[bad.receipts[0]].body
        if damage == "erased":
            await store.erase(digest)
        elif damage == "damaged":
            [stored] = site.home.glob(f"blobs/**/*{digest[-40:]}")
            stored.chmod(0o600)
            stored.write_bytes(b"x" * 100)
        elif damage == "no body":
            turns[bad.receipts[0]].body = await store.put_body(b'{"messages": 1}')
        else:
            deep = b"[" * 900 + b"]" * 900
            body = b'{"messages":[{"role":"user","content":' + deep + b'}],"reply":{"content":"x"}}'
            turns[bad.receipts[0]].body = await store.put_body(body)
        claimed = await claim_turn(story)
        assert claimed["turn_id"] == good.receipts[0]
        for _ in range(3):
            assert await claim_turn(story, "another") is None
        failed = await story.events(type="turn.judging_failed")
        assert [event["data"]["turn_id"] for event in failed] == [bad.receipts[0]] * 3
        await judge(story, claimed, vote(1, 1))


async def test_nothing_is_judged_without_the_lease_of_the_turn(story: Story) -> None:
    await conversation(story, turns=3)
    turn, other = await claim_turn(story), await claim_turn(story)
    for lease_id in ("", "x", other["lease_id"]):
        with pytest.raises(Problem) as problem:
            await judge(story, {**turn, "lease_id": lease_id}, vote(1, 1))
        assert problem.value.status == 409
    path = story.path("turns", turn["turn_id"], "judgment")
    with pytest.raises(Problem) as problem:
        await story.post("judge", path, judgment(turn["lease_id"], vote(1, 1)))
    assert problem.value.status == 400  # it does not say what the judge saw
    await judge(story, turn, vote(1, 1))


async def test_a_hint_without_end_counts_for_nothing(story: Story) -> None:
    await conversation(story)
    turn = await claim_turn(story)
    await judge(story, turn, vote(-1, 1, "use steps " * 120_000, HINT, rejected="no " * 10_000))
    (event,) = await story.events(type="turn.judged")
    assert len(event["data"]["hints"]) == 1
    assert len(HINT) < MAX_HINT_CHARACTERS


async def test_no_worker_suspends_or_resumes_the_judge_of_another(story: Story) -> None:
    async def probe(name: str, right: int) -> bool:
        token = story.site.tokens.issue(Principal(name=name, role=TokenRole.JUDGE, scenario=None))
        answer = await story.ask(
            "judge",
            "POST",
            story.path("judge", "probes"),
            json={"judge": JUDGE, "asked": 20, "right": right},
            headers={"Authorization": f"Bearer {token}"},
        )
        return bool(answer.json()["suspended"])

    assert await probe("one", 0)
    assert not await probe("other", 20)
    assert await probe("one", 0)
    assert (await signal(story))["suspended_judges"] == 1


@pytest.mark.parametrize("number", [10**400, 2**63, 10**7])
async def test_more_known_answers_than_anybody_asks_are_refused(story: Story, number: int) -> None:
    body = json.dumps({"judge": JUDGE, "asked": number, "right": number}).encode()
    with pytest.raises(Problem) as problem:
        await story.post("judge", story.path("judge", "probes"), body)
    assert problem.value.status == 400


async def test_a_reply_without_a_role_is_no_part_of_the_reaction_to_it(story: Story) -> None:
    agent = Agent(story=story)
    await agent.say("What is 2 + 2?", "Thanks, perfect! It is 4, of course.")
    del agent.messages[-1]["role"]
    await agent.say("Now with 3, please.", "It is 6.")
    await correlated(story, 2)
    turn = await claim_turn(story)
    assert turn["next_state"]["messages"] == [{"role": "user", "content": "Now with 3, please."}]
