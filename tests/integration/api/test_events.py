"""Events over HTTP: pages, filters, and a stream that can be resumed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest

from reef_release.api.routes import log
from reef_release.domain.canonical import canonical_json
from reef_release.log import EventLog
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import Site, Story, open_story

pytestmark = pytest.mark.anyio


async def page(story: Story, **params: Any) -> dict[str, Any]:
    found: dict[str, Any] = await story.get("audit", "/reef/events", params=params)
    return found


async def test_pages_follow_each_other_without_gap_or_repetition(standing: Story) -> None:
    whole = await standing.events()
    assert [event["position"] for event in whole] == list(range(len(whole)))
    for limit in (1, 2, 7, len(whole), 1000):
        found: list[Any] = []
        after = -1
        while len(found) < len(whole):
            part = await page(standing, after=after, limit=limit)
            assert len(part["events"]) <= limit
            found += part["events"]
            assert part["next_after"] == found[-1]["position"]
            after = part["next_after"]
        assert found == whole
    end = await page(standing, after=len(whole) - 1)
    assert (end["events"], end["next_after"], end["head"]) == ([], len(whole) - 1, len(whole) - 1)
    beyond = await page(standing, after=10**9)
    assert (beyond["events"], beyond["next_after"]) == ([], 10**9)


async def test_filters_choose_by_scenario_and_type(standing: Story) -> None:
    whole = await standing.events()
    for params in (
        {"scenario": "homework"},
        {"scenario": "_"},
        {"type": "gate.trial"},
        {"scenario": "homework", "type": "gate.trial"},
        {"scenario": "_", "type": "gate.trial"},
        {"scenario": "nobody"},
        {"type": "nothing"},
    ):
        found = await standing.events(**params)
        assert found == [
            event for event in whole if all(event[key] == value for key, value in params.items())
        ], params


async def test_a_filtered_page_ends_at_the_head_so_that_nothing_is_read_twice(
    standing: Story,
) -> None:
    head = (await page(standing))["head"]
    part = await page(standing, type="scenario.created")
    assert len(part["events"]) == 1
    assert part["next_after"] == head
    assert (await page(standing, type="scenario.created", after=head))["events"] == []


async def test_a_page_never_points_past_events_that_it_left_out(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event that is appended while a page is read must be on the next one."""
    await story.release()
    assert story.service is not None
    real = EventLog.read

    async def read(log: EventLog, *args: Any, **options: Any) -> Any:
        found = await real(log, *args, **options)
        if options.get("type") == "scenario.held":
            monkeypatch.undo()
            await story.lever("hold")
        return found

    monkeypatch.setattr(EventLog, "read", read)
    first = await page(story, type="scenario.held")
    assert first["events"] == []
    second = await page(story, type="scenario.held", after=first["next_after"])
    assert len(second["events"]) == 1


async def test_events_are_served_as_the_bytes_that_are_stored(standing: Story) -> None:
    assert standing.service is not None
    stored = await standing.service.log.read()
    response = await standing.ask("audit", "GET", "/reef/events", params={"limit": 1000})
    for event in stored:
        assert event.body in response.content
        assert canonical_json(json.loads(event.body)) == event.body


# The stream


@asynccontextmanager
async def following(
    story: Story, after: int | None = None, last_event_id: int | None = None, **params: Any
) -> AsyncIterator[AsyncIterator[tuple[int, dict[str, Any]]]]:
    """The (id, event) pairs of a stream; comments are left out."""
    headers = {"Authorization": f"Bearer {story.site.token('audit')}"}
    if last_event_id is not None:
        headers["Last-Event-ID"] = str(last_event_id)
    if after is not None:
        params["after"] = after
    async with story.http.stream(
        "GET", "/reef/events/stream", params=params, headers=headers, timeout=30
    ) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        yield _events(response)


async def _events(response: httpx.Response) -> AsyncIterator[tuple[int, dict[str, Any]]]:
    number = -1
    async for line in response.aiter_lines():
        if line.startswith("id: "):
            number = int(line[4:])
        elif line.startswith("data: "):
            yield number, json.loads(line[6:])


async def take(
    events: AsyncIterator[tuple[int, dict[str, Any]]], count: int
) -> list[tuple[int, dict[str, Any]]]:
    found = []
    with anyio.fail_after(30):
        async for pair in events:
            found.append(pair)
            if len(found) == count:
                break
    return found


@pytest.fixture
async def live(running: ServerProcess) -> AsyncIterator[Story]:
    """A scenario of its own on the module's server."""
    story = running.story()
    async with story.http:
        name = f"s{len((await story.get('audit', '/reef/scenarios'))['scenarios'])}"
        story.scenario = name
        await story.create_scenario()
        yield story


async def test_a_stream_gives_what_is_there_and_then_what_comes(live: Story) -> None:
    whole = await live.events()
    async with following(live) as events:
        there = await take(events, len(whole))
        assert [event for _, event in there] == whole
        assert [number for number, _ in there] == [event["position"] for event in whole]
        written = await live.lever("hold")
        ((number, event),) = await take(events, 1)
        assert (number, event["type"]) == (written["position"], "scenario.held")
        assert event["event_id"] == written["event_id"]


async def test_a_stream_resumes_after_a_position_or_the_last_event_id(live: Story) -> None:
    whole = await live.events()
    for options in ({"after": 3}, {"last_event_id": 3}, {"after": 0, "last_event_id": 3}):
        async with following(live, **options) as events:
            found = await take(events, len(whole) - 4)
        assert [event for _, event in found] == whole[4:]


async def test_a_stream_of_one_scenario_leaves_the_others_out(live: Story) -> None:
    async with following(live, scenario=live.scenario) as events:
        ((_, created),) = await take(events, 1)
        assert created["type"] == "scenario.created"
        other = Story(site=live.site, http=live.http, scenario=live.scenario + "-other")
        await other.create_scenario()
        await live.lever("hold")
        ((_, event),) = await take(events, 1)
        assert (event["scenario"], event["type"]) == (live.scenario, "scenario.held")


async def test_a_stream_survives_a_restart_of_the_server_by_its_last_event_id(
    running: ServerProcess, live: Story
) -> None:
    whole = await live.events()
    async with following(live) as events:
        seen = await take(events, len(whole))
        running.kill()
        with pytest.raises(httpx.HTTPError):
            await take(events, 1)
    running.restart()
    await live.lever("hold")
    async with following(live, last_event_id=seen[-1][0]) as events:
        more = await take(events, 1)
    assert more[0][1]["type"] == "scenario.held"
    assert more[0][0] == seen[-1][0] + 1


async def test_stopping_the_server_ends_streams_and_long_polls_promptly(site: Site) -> None:
    with ServerProcess(site) as server:
        story = server.story()
        async with story.http:
            await story.create_scenario()
            outcomes: list[str] = []

            async def stream() -> None:
                async with following(story) as events:
                    async for _ in events:
                        pass
                outcomes.append("stream ended")

            async def poll() -> None:
                response = await story.current(params={"wait": 60})
                outcomes.append(f"poll {response.status_code}")

            async with anyio.create_task_group() as group:
                group.start_soon(stream)
                group.start_soon(poll)
                await anyio.sleep(0.5)
                assert await anyio.to_thread.run_sync(server.stop) == 0
            # Had the grace run out, both would have been cut off with an error instead.
            assert sorted(outcomes) == ["poll 404", "stream ended"]
        assert "Traceback" not in server.log
        server.restart()


async def test_a_quiet_stream_is_kept_alive_by_comments(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "_PING_S", 0.01)
    assert story.service is not None
    head = story.service.state.position
    chunks = log._server_sent(story.service, head, None)
    assert await anext(chunks) == b": ping\n\n"
    assert await anext(chunks) == b": ping\n\n"
    await story.lever("hold")
    while (chunk := await anext(chunks)) == b": ping\n\n":
        pass
    assert chunk.startswith(b"id: %d\ndata: {" % (head + 1))
    story.service.stopping.set()
    assert [chunk async for chunk in chunks if chunk != b": ping\n\n"] == []


async def test_many_followers_see_the_same(site: Site) -> None:
    async with open_story(site) as story:
        await story.create_scenario()
        assert story.service is not None
        service = story.service
        seen: list[list[int]] = []

        async def follow() -> None:
            positions = []
            async for page_ in service.log.subscribe():
                positions += [event.position for event in page_]
                if positions[-1] >= service.state.position and story_done.is_set():
                    break
            seen.append(positions)

        story_done = anyio.Event()
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(follow)
            await story.release()
            story_done.set()
            await story.lever("hold")
        assert all(positions == list(range(len(positions))) for positions in seen)
