"""What goes wrong on a call: what the client sees, and what is recorded; it is never judged."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from reef_release.api import lines
from reef_release.api.proxy import answer, reply, sse
from tests.integration.api.story import SCENARIO, Problem, Site, until
from tests.integration.api.traffic import claim_turn, correlated, interaction
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
    (hello(metadata=json.loads("[" * 200 + "]" * 200)), {}, 400, "nested deeper"),
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

    async def aside() -> bool:
        return service.spool.set_aside.count == 1 and not service.spool.waiting

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


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize(
    "reason", ["content_filter", "error", "abort", "cancelled", "st\0op", "x" * 600, 5]
)
async def test_a_reply_that_ended_otherwise_than_replies_do_is_recorded_as_failed(
    desk: Desk, streams: bool, reason: Any
) -> None:
    async def script(call: Call) -> None:
        if streams:
            await call.stream(*PARTS[:-2], chunk({}, reason), event("[DONE]"))
        else:
            whole = completion("It is 4.")
            whole["choices"][0]["finish_reason"] = reason
            await call.whole(whole)

    desk.upstream.script = script
    response = await desk.ask(hello(stream=streams))
    assert response.status_code == 200
    (recorded,) = await desk.recorded()
    assert (recorded.type, recorded.data["error"]) == ("interaction.failed", "upstream-error")
    assert recorded.text == "It is 4."
    service = desk.story.service
    assert service is not None
    assert service.spool.set_aside.count == 0


@pytest.mark.parametrize("reason", ["stop", "length", "tool_calls", "function_call"])
async def test_a_reply_that_ended_as_replies_do_is_recorded(desk: Desk, reason: str) -> None:
    async def script(call: Call) -> None:
        await call.stream(*PARTS[:-2], chunk({}, reason), event("[DONE]"))

    desk.upstream.script = script
    await desk.ask(hello(stream=True))
    (recorded,) = await desk.recorded()
    assert (recorded.type, recorded.data["finish_reason"]) == ("interaction.recorded", reason)


async def test_a_client_that_reads_nothing_ends_the_upstreams_work(site: Site) -> None:
    left = asyncio.Event()

    async def script(call: Call) -> None:
        await call.start()
        try:
            while True:
                await call.send(chunk({"content": "x" * 100_000}))
        except ConnectionError:
            left.set()

    async with open_desk(site, upstream_timeout_s=0.5) as desk:
        await desk.story.create_scenario()
        desk.upstream.script = script
        async with desk.stream():
            await asyncio.wait_for(left.wait(), 60)
            (recorded,) = await desk.recorded()
        assert recorded.data["error"] == "client-disconnected"


async def test_an_id_that_is_under_way_is_nobody_elses(desk: Desk) -> None:
    going_on = asyncio.Event()

    async def script(call: Call) -> None:
        await call.start()
        await call.send(*PARTS[:2])
        await going_on.wait()
        await call.send(*PARTS[2:])
        await call.finish()

    desk.upstream.script = script
    path = desk.story.path("interactions")
    async with desk.stream() as response:
        receipt = response.headers["x-reef-agent-record-id"]
        forged = interaction(interaction_id=receipt)
        with pytest.raises(Problem) as problem:
            await desk.story.post("ingest", path, forged)
        assert problem.value.status == 409
        bulk = await desk.story.ask(
            "ingest",
            "POST",
            path,
            content=json.dumps(forged).encode(),
            headers={"content-type": "application/x-ndjson"},
        )
        assert bulk.json()["problem"] == "conflict"
        going_on.set()
        assert b"[DONE]" in await response.aread()
    (recorded,) = await desk.recorded()
    assert (recorded.data["interaction_id"], recorded.text) == (receipt, "It is 4.")


@pytest.mark.parametrize("status", [101, 600, 999])
async def test_a_status_that_is_none_is_a_bad_gateway(desk: Desk, status: int) -> None:
    async def script(call: Call) -> None:
        await call.whole(completion("4"), status)

    desk.upstream.script = script
    for asked in (hello(), hello(stream=True)):
        assert (await desk.ask(asked)).status_code == 502
    listed = await desk.story.http.get("/v1/models", headers=desk.headers())
    assert listed.status_code == 502
    assert [each.data["error"] for each in await desk.recorded(2)] == ["upstream-error"] * 2


async def test_headers_of_any_bytes_are_passed_on(desk: Desk) -> None:
    async def script(call: Call) -> None:
        await call.whole(
            completion("4"),
            x_request_id="r\u20ac\xe9",
            content_type="application/json; x=\u65e5",
            openai_organization="the operator's",
            x_ratelimit_limit_requests="7",
            x_ratelimit_odd="x",
        )

    desk.upstream.script = script
    response = await desk.ask()
    assert response.status_code == 200
    raw = dict(response.headers.raw)
    assert raw[b"x-request-id"] == "r\u20ac\xe9".encode()
    assert raw[b"content-type"] == "application/json; x=\u65e5".encode()
    assert raw[b"x-ratelimit-limit-requests"] == b"7"
    assert not {b"openai-organization", b"x-ratelimit-odd"} & raw.keys()
    (recorded,) = await desk.recorded()
    assert recorded.type == "interaction.recorded"
    listed = await desk.story.http.get("/v1/models", headers=desk.headers())
    assert listed.status_code == 200


async def test_numbers_that_no_float_holds_are_no_defect(desk: Desk) -> None:
    huge = b"1" + b"0" * 400

    async def script(call: Call) -> None:
        whole = json.dumps(completion("4")).encode()
        await call.whole(whole.replace(b"-1.5", b"-" + huge))

    desk.upstream.script = script
    body = json.dumps(hello()).encode().replace(b"{", b'{"temperature": ' + huge + b", ", 1)
    assert (await desk.ask(body)).status_code == 200
    (recorded,) = await desk.recorded()
    assert recorded.data["token_fault"] == "not-a-log-probability"


async def test_names_with_nulls_are_recorded_without_them(desk: Desk) -> None:
    async def script(call: Call) -> None:
        await call.whole(completion("4", model="a\0b", system_fingerprint="\0"))

    desk.upstream.script = script
    await desk.ask()
    (recorded,) = await desk.recorded()
    assert (recorded.type, recorded.data["model"]) == ("interaction.recorded", "a\ufffdb")


def nested(depth: int) -> Any:
    value: Any = "deep"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("streams", [True, False])
async def test_a_reply_that_is_nested_too_deeply_is_passed_on_and_recorded_as_failed(
    desk: Desk, streams: bool
) -> None:
    async def script(call: Call) -> None:
        if streams:
            await call.stream(chunk({"content": nested(200)}, "stop"), event("[DONE]"))
        else:
            await call.whole(completion({"role": "assistant", "content": nested(200)}))

    desk.upstream.script = script
    response = await desk.ask(hello(stream=streams))
    assert b"deep" in response.content
    (recorded,) = await desk.recorded()
    assert (recorded.data["error"], recorded.body.reply) == ("upstream-error", None)


async def test_what_is_longer_than_any_reply_is_passed_on_and_not_taken_in(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reply, "_MOST_BYTES", 100_000)
    monkeypatch.setattr(answer, "_WHOLE_BYTES", 100_000)
    long = "x" * 1000

    async def script(call: Call) -> None:
        if call.json.get("stream"):
            await call.stream(*(chunk({"content": long}) for _ in range(300)), *PARTS[-2:])
        else:
            await call.whole(completion(long * 300))

    desk.upstream.script = script
    for streams in (True, False):
        response = await desk.ask(hello(stream=streams))
        assert response.content.count(long.encode()) == 300
    for recorded in await desk.recorded(2):
        assert (recorded.data["error"], recorded.body.reply) == ("upstream-error", None)


async def test_an_event_that_is_too_large_ends_the_stream(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "_MOST_BYTES", 100_000)

    async def script(call: Call) -> None:
        await call.start()
        await call.send(*PARTS[:2], b"data: {", b"x" * 200_000)
        await call.left()

    desk.upstream.script = script
    response = await desk.ask(hello(stream=True))
    assert _data(response.content)[-1]["error"]["code"] == "upstream-unreachable"
    (recorded,) = await desk.recorded()
    assert (recorded.data["error"], recorded.text) == ("upstream-error", "It ")


async def test_events_of_any_form_behind_the_end_stay_json(desk: Desk) -> None:
    async def script(call: Call) -> None:
        await call.stream(*PARTS[:-1], event({}), event([{"q": 1}]), event({"a": 1}), PARTS[-1])

    desk.upstream.script = script
    response = await desk.ask(hello(stream=True))
    record = {"reef_agent_record_id": response.headers["x-reef-agent-record-id"]}
    assert _data(response.content)[-3:] == [record, [{"q": 1}], {**record, "a": 1}]


async def test_a_body_that_stops_half_way_is_told_so(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "_PATIENCE_S", 0.1)
    url = desk.story.http.base_url
    for path in ("/v1/chat/completions", desk.story.path("interactions")):
        reader, writer = await asyncio.open_connection(url.host, url.port)
        head = [f"POST {path} HTTP/1.1", "host: x", "content-length: 100"]
        head += [f"{name}: {value}" for name, value in desk.headers().items()]
        writer.write("\r\n".join([*head, "", '{"messages": [']).encode())
        answered = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
        assert answered.startswith(b"HTTP/1.1 408 ")
        writer.close()
    assert desk.upstream.calls == []


async def test_bodies_have_a_room_that_they_share(desk: Desk) -> None:
    service = desk.story.service
    assert service is not None
    free = service.bodies.free_bytes
    service.bodies.free_bytes = 100
    assert (await desk.ask(hello("x" * 200))).status_code == 503
    service.bodies.free_bytes = free
    assert (await desk.ask()).status_code == 200
    assert service.bodies.free_bytes == free
