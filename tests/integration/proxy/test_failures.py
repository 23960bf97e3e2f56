"""What goes wrong on a call: what the client sees, and what is recorded; it is never judged."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.integration.api.story import SCENARIO, Site, until
from tests.integration.api.traffic import claim_turn, correlated
from tests.integration.proxy.desk import Desk, hello, open_desk
from tests.integration.proxy.upstream import Call, chunk, completion, event, streamed

pytestmark = pytest.mark.anyio

PARTS = streamed(["It ", "is ", "4."])


async def test_the_upstreams_error_reaches_the_client_unchanged(desk: Desk) -> None:
    body = b'{"error": {"message": "slow down",  "type": "rate_limit"}}'

    async def script(call: Call) -> None:
        await call.whole(body, 429, retry_after="7", x_request_id="r1", content_type="text/odd")

    desk.upstream.script = script
    for asked in (hello(), hello(stream=True)):
        response = await desk.ask(asked)
        assert (response.status_code, response.content) == (429, body)
        assert response.headers["retry-after"] == "7"
        assert response.headers["x-request-id"] == "r1"
        assert response.headers["content-type"] == "text/odd"
        assert response.headers["x-reef-agent-record-id"]
    for recorded in await desk.recorded(2):
        assert recorded.type == "interaction.failed"
        assert (recorded.data["error"], recorded.data["status"]) == ("upstream-error", 429)
        assert recorded.body.reply is None


async def test_an_upstream_that_is_away_is_a_bad_gateway(site: Site) -> None:
    async with open_desk(site, upstream_url="http://127.0.0.1:9/v1") as desk:
        await desk.story.create_scenario()
        response = await desk.ask()
        assert response.status_code == 502
        assert response.headers["content-type"] == "application/problem+json"
        problem = response.json()
        assert problem["type"] == "urn:reef-release:problem:upstream-unreachable"
        assert problem["error"]["code"] == "upstream-unreachable"
        (recorded,) = await desk.recorded()
        assert recorded.data["interaction_id"] == response.headers["x-reef-agent-record-id"]
        assert (recorded.data["error"], recorded.data["status"]) == ("upstream-error", None)
        response = await desk.story.http.get("/v1/models", headers=desk.headers())
        assert response.status_code == 502


async def test_a_silent_upstream_is_a_gateway_time_out_before_the_first_byte(site: Site) -> None:
    async def silent(call: Call) -> None:
        await call.left()

    async with open_desk(site, upstream_timeout_s=0.2) as desk:
        await desk.story.create_scenario()
        desk.upstream.script = silent
        for asked in (hello(), hello(stream=True)):
            response = await desk.ask(asked)
            assert response.status_code == 504
            assert response.json()["error"]["code"] == "upstream-timed-out"
            assert response.headers["x-reef-agent-record-id"]
        assert [each.data["error"] for each in await desk.recorded(2)] == ["timed-out"] * 2


async def test_an_upstream_that_falls_silent_breaks_the_stream_with_an_error(site: Site) -> None:
    async def silent(call: Call) -> None:
        await call.start()
        await call.send(*PARTS[:3])
        await call.left()

    async with open_desk(site, upstream_timeout_s=0.3) as desk:
        await desk.story.create_scenario()
        desk.upstream.script = silent
        response = await desk.ask(hello(stream=True))
        *before, last = _data(response.content)
        assert [each["choices"][0]["delta"].get("content") for each in before] == ["", "It ", "is "]
        assert last["error"]["code"] == "upstream-timed-out"
        (recorded,) = await desk.recorded()
        assert (recorded.data["error"], recorded.text) == ("timed-out", "It is ")
        assert recorded.body.token_ids == [10, 11]


async def test_a_connection_that_breaks_within_the_reply_is_an_error_of_the_stream(
    desk: Desk,
) -> None:
    sent = asyncio.Event()

    async def script(call: Call) -> None:
        await call.start()
        await call.send(*PARTS[:2])
        await sent.wait()
        call.drop()

    desk.upstream.script = script
    async with desk.stream() as response:
        received = b""
        async for piece in response.aiter_raw():
            received += piece
            if received.count(b"\n\n") == 2:
                sent.set()
    assert _data(received)[-1]["error"]["code"] == "upstream-unreachable"
    assert b"[DONE]" not in received
    (recorded,) = await desk.recorded()
    assert (recorded.data["error"], recorded.text) == ("upstream-error", "It ")


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param(PARTS[:3], id="an end without a finish reason"),
        pytest.param([], id="nothing at all"),
        pytest.param([*PARTS[:3], b"data: {"], id="half an event"),
        pytest.param([*PARTS[:3], event("[DONE]")], id="done without a finish reason"),
        pytest.param([*PARTS[:3], event("no json"), *PARTS[3:]], id="an event that is no JSON"),
        pytest.param(
            [*PARTS[:3], event({"error": {"message": "out of memory"}}), event("[DONE]")],
            id="an error of the upstream's own",
        ),
        pytest.param(
            [*PARTS[:-1], event({"error": {"message": "out of memory"}}), event("[DONE]")],
            id="an error after the finish reason",
        ),
    ],
)
async def test_a_stream_that_does_not_end_as_a_reply_is_recorded_as_failed(
    desk: Desk, parts: list[bytes]
) -> None:
    async def script(call: Call) -> None:
        await call.stream(*parts)

    desk.upstream.script = script
    response = await desk.ask(hello(stream=True))
    (recorded,) = await desk.recorded()
    assert recorded.type == "interaction.failed"
    assert (recorded.data["error"], recorded.data["status"]) == ("upstream-error", 200)
    if b"[DONE]" not in b"".join(parts):
        assert _data(response.content)[-1]["error"]["code"] == "upstream-unreachable"


async def test_a_stream_without_done_that_said_why_it_ended_is_whole(desk: Desk) -> None:
    async def script(call: Call) -> None:
        await call.stream(*PARTS[:-1])

    desk.upstream.script = script
    response = await desk.ask(hello(stream=True))
    assert b"error" not in response.content
    (recorded,) = await desk.recorded()
    assert (recorded.type, recorded.text) == ("interaction.recorded", "It is 4.")


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"choices": []}', b'{"error": "no"}'])
async def test_an_answer_that_is_no_reply_is_passed_on_and_recorded_as_failed(
    desk: Desk, body: bytes
) -> None:
    async def script(call: Call) -> None:
        await call.whole(body)

    desk.upstream.script = script
    response = await desk.ask()
    assert (response.status_code, response.content) == (200, body)
    (recorded,) = await desk.recorded()
    assert (recorded.data["error"], recorded.data["status"]) == ("upstream-error", 200)


async def test_a_client_that_leaves_a_stream_ends_the_upstreams_work(desk: Desk) -> None:
    left = asyncio.Event()

    async def script(call: Call) -> None:
        await call.start()
        await call.send(*PARTS[:3])
        await call.left()
        left.set()

    desk.upstream.script = script
    async with desk.stream() as response:
        received = b""
        async for piece in response.aiter_raw():
            received += piece
            if received.count(b"\n\n") == 3:
                break
    await asyncio.wait_for(left.wait(), 30)
    (recorded,) = await desk.recorded()
    assert (recorded.data["error"], recorded.text) == ("client-disconnected", "It is ")


async def test_a_client_that_leaves_before_the_answer_ends_the_upstreams_work(desk: Desk) -> None:
    left = asyncio.Event()

    async def script(call: Call) -> None:
        await call.left()
        left.set()

    desk.upstream.script = script
    asking = asyncio.create_task(desk.ask())
    await desk.upstream.arrived.acquire()
    asking.cancel()
    await asyncio.wait_for(left.wait(), 30)
    (recorded,) = await desk.recorded()
    assert recorded.data["error"] == "client-disconnected"
    assert recorded.body.reply is None


async def test_a_client_that_leaves_after_the_reply_has_got_it(desk: Desk) -> None:
    async def script(call: Call) -> None:
        await call.start()
        await call.send(*PARTS[:-1])
        await call.left()

    desk.upstream.script = script
    async with desk.stream() as response:
        async for piece in response.aiter_raw():
            if b'"stop"' in piece:
                break
    (recorded,) = await desk.recorded()
    assert (recorded.type, recorded.text) == ("interaction.recorded", "It is 4.")


async def test_a_call_that_a_watchdog_aborts_and_sends_again_is_one_sample(desk: Desk) -> None:
    slow = asyncio.Event()

    async def script(call: Call) -> None:
        if len(desk.upstream.calls) == 1:
            await call.start()
            await call.send(*PARTS[:2])
            slow.set()
            await call.left()
        else:
            await call.stream(*PARTS)

    desk.upstream.script = script
    question = hello(stream=True)
    async with desk.stream(question) as response:
        await anext(response.aiter_raw())
        await slow.wait()
    await desk.recorded()
    await desk.ask(question)
    reaction = hello(
        messages=[
            *question["messages"],
            {"role": "assistant", "content": "It is 4."},
            {"role": "user", "content": "Thanks, that is right."},
        ],
        stream=True,
    )
    await desk.ask(reaction)
    aborted, again, _ = await desk.recorded(3)
    view = await correlated(desk.story, 3)
    assert (view["total"]["failed"], view["total"]["bound"]) == (1, {"transcript": 1})
    turn = await claim_turn(desk.story)
    assert turn["turn_id"] == again.data["interaction_id"]
    assert turn["turn_id"] != aborted.data["interaction_id"]
    assert await claim_turn(desk.story) is None


REFUSED: list[tuple[Any, dict[str, str | None], int, str]] = [
    (hello(), {"x_reef_scenario": None}, 400, "x-reef-scenario"),
    (hello(), {"x_reef_scenario": "homewrok"}, 404, "homewrok"),
    (hello(), {"authorization": None}, 401, "Bearer"),
    (hello(), {"x_reef_tag_turn_type": "aside"}, 400, "x-reef-tag-turn-type"),
    (hello(), {"x_reef_tag_session": "x" * 501}, 400, "x-reef-tag-session"),
    (b"{", {}, 400, "JSON"),
    (b"[]", {}, 400, "JSON object"),
    (b'{"messages": [{"role": "user", "content": "\\ud800"}]}', {}, 400, "JSON"),
    ({"model": "policy"}, {}, 400, "messages"),
    (hello(messages=[]), {}, 400, "messages"),
    (hello(messages=["hi"]), {}, 400, "messages"),
    (hello(n=2), {}, 400, "several replies"),
    (hello("x" * 17_000_000), {}, 413, "more than"),
]


async def test_what_cannot_be_one_recorded_turn_is_refused_before_it_is_forwarded(
    desk: Desk,
) -> None:
    for body, headers, status, words in REFUSED:
        response = await desk.ask(body, **headers)
        assert response.status_code == status, (words, response.text)
        problem = response.json()
        assert words in problem["detail"] + problem["next_step"]
        assert words in problem["error"]["message"]
        assert problem["error"]["type"] == "invalid_request_error"
    assert desk.upstream.calls == []
    assert await desk.recorded(0) == []


async def test_another_role_or_another_scenarios_token_does_not_reach_the_upstream(
    desk: Desk,
) -> None:
    site = desk.story.site
    for token in (site.token("judge"), site.token("ingest", "other")):
        response = await desk.ask(authorization=f"Bearer {token}")
        assert response.status_code == 403
    assert desk.upstream.calls == []
    response = await desk.ask(authorization=f"bearer {site.token('ingest', SCENARIO)}")
    assert response.status_code == 200


async def test_without_an_upstream_the_answer_names_the_setting(site: Site) -> None:
    async with open_desk(site, upstream_url="") as desk:
        await desk.story.create_scenario()
        for response in (
            await desk.ask(),
            await desk.story.http.get("/v1/models", headers=desk.headers()),
        ):
            assert response.status_code == 503
            assert "REEF_UPSTREAM_URL" in response.json()["error"]["message"]


async def test_what_the_log_will_never_take_is_answered_and_set_aside(desk: Desk) -> None:
    long = "x" * 9_000_000

    async def script(call: Call) -> None:
        await call.whole(completion(long))

    desk.upstream.script = script
    response = await desk.ask(hello(long))
    assert response.status_code == 200
    service = desk.story.service
    assert service is not None

    async def aside() -> int:
        return service.spool.set_aside.count

    await until(aside)
    (path,) = service.spool.set_aside.directory.glob("*.json")
    kept = json.loads(path.read_text())
    assert path.stem == response.headers["x-reef-agent-record-id"]
    assert "at most" in kept["why"]
    assert kept["request"]["messages"][0]["content"] == long
    metrics = (await desk.story.http.get("/metrics")).text
    assert "reef_spool_set_aside 1.0" in metrics
    assert "reef_spool_calls 0.0" in metrics
    view = await desk.story.get("operate", desk.story.path("signal"))
    assert [each["code"] for each in view["findings"]] == ["set-aside"]


async def test_the_last_chunk_of_every_kind_names_the_record(desk: Desk) -> None:
    usage = event({"object": "chat.completion.chunk", "choices": [], "usage": {"total_tokens": 5}})

    async def script(call: Call) -> None:
        await call.stream(chunk({"content": "4"}), chunk({}, "length"), usage, event("[DONE]"))

    desk.upstream.script = script
    response = await desk.ask(hello(stream=True))
    first, finish, last = _data(response.content)
    record_id = response.headers["x-reef-agent-record-id"]
    assert "reef_agent_record_id" not in first
    assert finish["reef_agent_record_id"] == last["reef_agent_record_id"] == record_id


def _data(stream: bytes) -> list[Any]:
    """What the whole events of a stream say, without [DONE]."""
    found = [each.removeprefix(b"data: ") for each in stream.split(b"\n\n")[:-1]]
    return [json.loads(each) for each in found if each != b"[DONE]"]


@pytest.mark.parametrize("path", ["/v1", "/v1/embeddings", "/v1/chat", "/v1/models/policy"])
async def test_what_the_proxy_does_not_have_is_answered_with_what_it_has(
    desk: Desk, path: str
) -> None:
    response = await desk.story.http.post(path, json={}, headers=desk.headers())
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"
    message = response.json()["error"]["message"]
    assert path in message
    assert "POST /v1/chat/completions and GET /v1/models" in message


async def test_a_wrong_method_under_v1_is_told_to_openais_clients_as_well(desk: Desk) -> None:
    response = await desk.story.http.get("/v1/chat/completions", headers=desk.headers())
    assert response.status_code == 405
    assert response.headers["allow"]
    assert response.json()["error"]["code"] == "method-not-allowed"
