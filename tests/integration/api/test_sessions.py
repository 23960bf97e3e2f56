"""Correlation in the service, over HTTP: what follows what, and what a restart does to it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from reef_release.ids import uuid7
from reef_release.tokens import Principal, TokenRole
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import Site, Story, open_story, until
from tests.integration.api.traffic import Agent, correlated, interaction, lines, signal, turns_of

pytestmark = pytest.mark.anyio

REACTION = "No, write it as a sum, please."


async def test_a_reply_is_followed_by_the_call_that_reacts_to_it(story: Story) -> None:
    agent = Agent(story=story)
    first = await agent.say("What is 2 + 2?", "It is 4, of course.")
    second = await agent.say(REACTION, "2 + 2 = 4, written as a sum.")
    view = await correlated(story, 2)
    assert sum(view["total"]["bound"].values()) == 1
    one, two = await turns_of(story, first)
    assert (one["next_id"], two["follows"], two["kind"]) == (second, first, "main")
    assert two["method"] == "transcript"
    assert one["reason"] == "first-call"


async def test_conversations_that_are_recorded_in_one_request_bind_as_if_one_by_one(
    story: Story,
) -> None:
    bodies = []
    for tag in ("one", "other"):
        messages: list[Any] = []
        for step in range(50):
            messages = [*messages, {"role": "user", "content": f"{tag} asks for step {step}"}]
            reply = {"role": "assistant", "content": f"This is step {step} of {tag}."}
            bodies.append(interaction(messages=messages, reply=reply, tag=tag))
            messages = [*messages, reply]
    headers = {"Content-Type": "application/x-ndjson"}
    path = story.path("interactions")
    await story.ask("ingest", "POST", path, content=lines(bodies), headers=headers)
    view = await correlated(story, 100)
    assert view["total"]["unbound"] == {"first-call": 2}
    assert sum(view["total"]["bound"].values()) == 98
    assert view["waiting"]["sessions"] == 2


async def test_a_retry_after_an_abort_is_one_sample_and_no_next_state(story: Story) -> None:
    agent = Agent(story=story, tag="t")
    first = await agent.say("What is 2 + 2?", "It is 4, of course.")
    await agent.say(REACTION, "", reply=None, error="client-disconnected")
    agent.messages.pop()
    await agent.say(REACTION, "2 + 2 = 4, written as a sum.")
    await agent.say("Now that is what I wanted.", "You are welcome, as always.")
    await correlated(story, 4)
    one, failed, retried, last = await turns_of(story, first)
    assert failed["error"] == "client-disconnected"
    assert failed["superseded_by"] == retried["turn_id"]
    assert last["follows"] == retried["turn_id"]
    view = await signal(story)
    assert view["waiting"]["to_judge"] == 2
    assert one["next_id"] == failed["turn_id"]


async def test_a_regenerated_answer_takes_the_place_of_the_one_before(story: Story) -> None:
    agent = Agent(story=story)
    first = await agent.say("What is 2 + 2?", "It is 4, of course.")
    await agent.say(REACTION, "Two and two is four, I would say.")
    agent.messages = agent.messages[:-2]
    await agent.say(REACTION, "2 + 2 = 4, written as a sum.")
    await agent.say("Now that is what I wanted.", "You are welcome, as always.")
    await correlated(story, 4)
    _, replaced, regenerated, last = await turns_of(story, first)
    assert regenerated["kind"] == "regeneration"
    assert replaced["superseded_by"] == regenerated["turn_id"]
    assert last["follows"] == regenerated["turn_id"]


async def test_a_side_call_trains_nothing(story: Story) -> None:
    agent = Agent(story=story, tag="t")
    await agent.say("What is 2 + 2?", "It is 4, of course.")
    await agent.say("Give this chat a title.", "Sums of small numbers", turn_type="side")
    view = await correlated(story, 2)
    assert (view["total"]["main"], view["total"]["side"]) == (1, 1)
    assert view["waiting"]["to_judge"] == 0


async def test_nine_calls_that_bind_to_nothing_raise_an_alarm_that_a_binding_clears(
    story: Story,
) -> None:
    for number in range(8):
        await Agent(story=story).say(f"Question number {number}?", f"Answer number {number}.")
    assert (await correlated(story, 8))["alarm"] is None
    agent = Agent(story=story)
    await agent.say("The ninth question?", "This is the ninth answer.")
    view = await until(lambda: signal(story), lambda view: view["alarm"] is not None)
    assert (view["alarm"], view["unbound_run"]) == ("first-call", 9)
    (raised,) = await story.events(type="signal.alarm_raised")
    assert raised["data"] == {"reason": "first-call", "unbound": 9}
    body = interaction("one more?")
    response = await story.ask("ingest", "POST", story.path("interactions"), json=body)
    assert response.headers["x-reef-signal-alarm"] == "first-call; unbound=9"
    assert (await story.get("operate", story.path()))["signal_alarm"] == "first-call"
    metrics = (await story.ask(None, "GET", "/metrics")).text
    assert 'reef_signal_alarm{scenario="homework"} 1.0' in metrics
    assert 'reef_signal_unbound{reason="first-call",scenario="homework"}' in metrics
    await agent.say(REACTION, "2 + 2 = 4, written as a sum.")
    await until(lambda: signal(story), lambda view: view["alarm"] is None)
    assert len(await story.events(type="signal.alarm_cleared")) == 1
    response = await story.ask("ingest", "POST", story.path("interactions"), json=body)
    assert "x-reef-signal-alarm" not in response.headers


async def test_the_alarm_says_why_nothing_binds_at_present(story: Story) -> None:
    for number in range(9):
        await Agent(story=story).say(f"Question number {number}?", f"Answer number {number}.")
    await until(lambda: signal(story), lambda view: view["alarm"] == "first-call")
    strange = [{"role": "assistant", "content": "No reply that was ever served."}]
    for number in range(10):
        agent = Agent(story=story, messages=[{"role": "user", "content": "Hm."}, *strange])
        await agent.say(f"Reaction number {number}.", f"Well, number {number}.")
    view = await until(lambda: signal(story), lambda view: view["unbound_run"] == 19)
    assert view["alarm"] == "unknown-reply"
    assert view["unbound_reasons"] == {"first-call": 9, "unknown-reply": 10}
    response = await story.ask("ingest", "POST", story.path("interactions"), json=interaction())
    assert response.headers["x-reef-signal-alarm"].startswith("unknown-reply; unbound=")
    assert (await story.get("operate", story.path()))["signal_alarm"] == "unknown-reply"


async def test_failed_calls_raise_no_alarm(story: Story) -> None:
    for number in range(10):
        failed = {"reply": None, "error": "upstream-error", "status": 500}
        await Agent(story=story).say(f"Question number {number}?", "", **failed)
    view = await correlated(story, 10)
    assert (view["alarm"], view["unbound_run"]) == (None, 0)
    assert view["total"]["errors"] == {"upstream-error": 10}
    assert view["total"]["main"] == 0


async def test_sessions_expire_by_the_time_of_the_calls(site: Site) -> None:
    async with open_story(site, session_expiry_s=600) as story:
        await story.create_scenario()
        old = Agent(story=story)
        first = await old.say("What is 2 + 2?", "It is 4, of course.")
        later = Agent(story=story, at=old.at + timedelta(seconds=700))
        await later.say("What is 3 + 3?", "It is 6, of course.")
        (event,) = await until(lambda: story.events(type="session.expired"))
        assert event["data"]["session_id"] == first
        await until(lambda: signal(story), lambda view: view["waiting"]["sessions"] == 1)
        old.at = later.at
        late = await old.say(REACTION, "2 + 2 = 4, written as a sum.")
        await correlated(story, 3)
        (turn,) = await turns_of(story, late)
        assert turn["reason"] == "expired"


async def test_sessions_are_listed_page_by_page(story: Story) -> None:
    firsts = [
        await Agent(story=story).say(f"Question {number}?", f"Answer {number}.")
        for number in range(3)
    ]
    await correlated(story, 3)
    page = await story.get("audit", story.path("sessions"), params={"limit": 2})
    assert [each["session_id"] for each in page["sessions"]] == firsts[:2]
    rest = await story.get("audit", story.path("sessions"), params={"after": page["next_after"]})
    assert [each["session_id"] for each in rest["sessions"]] == firsts[2:]
    assert rest["next_after"] is None


async def test_two_services_bind_each_call_once_and_alike(site: Site) -> None:
    async with open_story(site) as one, open_story(site) as other:
        await one.create_scenario()
        agents = [Agent(story=story, tag=f"t-{story is one}") for story in (one, other) * 3]
        for step in range(4):
            for number, agent in enumerate(agents):
                agent.system = f"You are helper {number}."
                await agent.say(f"{number}: step {step}?", f"{number}: reply to step {step}.")
        await correlated(one, 24)
        view = await correlated(other, 24)
        events = await one.events(type="turn.bound") + await one.events(type="turn.unbound")
        assert len({event["data"]["interaction_id"] for event in events}) == len(events) == 24
        for agent in agents:
            turns = await turns_of(other, agent.receipts[0])
            assert [turn["turn_id"] for turn in turns] == agent.receipts
        assert view["total"]["main"] == 24


async def test_what_is_bound_stays_bound_and_goes_on_after_a_restart(site: Site) -> None:
    async with open_story(site) as story:
        await story.create_scenario()
        agent = Agent(story=story)
        first = await agent.say("What is 2 + 2?", "It is 4, of course.")
        await agent.say(REACTION, "2 + 2 = 4, written as a sum.")
        await correlated(story, 2)
    async with open_story(site) as story:
        agent.story = story
        third = await agent.say("Now with 3, please.", "3 + 3 = 6, written as a sum.")
        await correlated(story, 3)
        turns = await turns_of(story, first)
        assert [turn["turn_id"] for turn in turns] == agent.receipts
        assert turns[-1]["turn_id"] == third
        assert len(await story.events(type="turn.bound")) == 2


async def test_an_old_call_before_a_restart_unbinds_no_open_session(site: Site) -> None:
    async with open_story(site) as story:
        await story.create_scenario()
        agent = Agent(story=story)
        await agent.say("What is 2 + 2?", "It is 4, of course.")
        old = interaction("Long ago.", at="2001-01-01T00:00:00Z")
        await story.post("ingest", story.path("interactions"), old)
        await correlated(story, 2)
    async with open_story(site) as story:
        agent.story = story
        await agent.say(REACTION, "2 + 2 = 4, written as a sum.")
        await correlated(story, 3)
        one, _ = await turns_of(story, agent.receipts[0])
        assert one["next_id"] == agent.receipts[1]


async def test_a_call_of_another_token_is_no_reaction(story: Story) -> None:
    agent = Agent(story=story)
    first = await agent.say("What is 2 + 2?", "It is 4, of course.")
    token = story.site.tokens.issue(
        Principal(name="somebody-else", role=TokenRole.INGEST, scenario=None)
    )
    body = {
        **interaction(),
        "messages": [
            {"role": "system", "content": agent.system},
            *agent.messages,
            {"role": "user", "content": "Wrong."},
        ],
    }
    answer = await story.ask(
        "ingest",
        "POST",
        story.path("interactions"),
        json=body,
        headers={"Authorization": f"Bearer {token}"},
    )
    view = await correlated(story, 2)
    (one,) = await turns_of(story, first)
    assert one["next_id"] is None
    (other,) = await turns_of(story, answer.json()["interaction_id"])
    assert other["reason"] == "other-client"
    assert view["total"]["unbound"] == {"first-call": 1, "other-client": 1}


async def test_a_service_killed_in_the_middle_of_its_traffic_loses_no_turn(site: Site) -> None:
    with ServerProcess(site) as server:
        story = server.story()
        async with story.http:
            await story.create_scenario()
            agents = [Agent(story=story, system=f"You are {number}.") for number in range(4)]
            for step in range(3):
                for number, agent in enumerate(agents):
                    await agent.say(f"{number}: step {step}?", f"{number}: reply to {step}.")
            server.kill()
        server.restart()
        story = server.story()
        async with story.http:
            for number, agent in enumerate(agents):
                agent.story = story
                await agent.say(f"{number}: the end?", f"{number}: yes, the end.")
            await correlated(story, 16)
            for agent in agents:
                turns = await turns_of(story, agent.receipts[0])
                assert [turn["turn_id"] for turn in turns] == agent.receipts


async def test_the_answer_to_a_call_is_lost_and_the_client_sends_it_again(site: Site) -> None:
    with ServerProcess(site) as server:
        story = server.story()
        async with story.http:
            await story.create_scenario()
            body = interaction(interaction_id=uuid7())
            await story.post("ingest", story.path("interactions"), body)
            server.kill()
        server.restart()
        story = server.story()
        async with story.http:
            again = await story.post("ingest", story.path("interactions"), body)
            assert again["duplicate"]
            assert (await correlated(story, 1))["total"]["calls"] == 1
