"""What is forwarded, what comes back, and what is recorded of a call that goes well."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from reef_release.api import reports
from tests.integration.api.story import Problem, Site, until
from tests.integration.api.traffic import signal
from tests.integration.proxy.desk import Desk, hello, open_desk
from tests.integration.proxy.upstream import Call, chunk, completion, event, streamed

pytestmark = pytest.mark.anyio


async def test_a_call_is_forwarded_answered_and_recorded_with_its_tokens(desk: Desk) -> None:
    answer = completion("It is 4.")

    async def script(call: Call) -> None:
        await call.whole(answer)

    desk.upstream.script = script
    tools = [{"type": "function", "function": {"name": "add", "parameters": {}}}]
    asked = hello(temperature=0.7, tools=tools)
    response = await desk.ask(asked, x_reef_tag_session="talk-1", x_reef_tag_turn_type="main")
    assert response.status_code == 200
    assert response.json() == answer
    (call,) = desk.upstream.calls
    assert (call.method, call.path) == ("POST", "/v1/chat/completions")
    assert call.json == {**asked, "logprobs": True, "return_token_ids": True}
    (recorded,) = await desk.recorded()
    assert recorded.type == "interaction.recorded"
    assert recorded.data["interaction_id"] == response.headers["x-reef-agent-record-id"]
    assert recorded.data["tag"] == "talk-1"
    assert recorded.data["turn_type"] == "main"
    assert recorded.data["model"] == "policy"
    assert recorded.data["finish_reason"] == "stop"
    assert recorded.data["token_fault"] is None
    assert recorded.body.messages == asked["messages"]
    assert recorded.body.tools == tools
    assert recorded.body.temperature == 0.7
    assert recorded.body.reply == {"role": "assistant", "content": "It is 4."}
    assert recorded.body.prompt_token_ids == [1, 2, 3]
    assert recorded.body.token_ids == [4, 5]
    assert recorded.body.logprobs == [-0.25, -1.5]


async def test_a_streamed_reply_is_passed_on_byte_by_byte_and_put_together(desk: Desk) -> None:
    parts = streamed(["It ", "is ", "4."])

    async def script(call: Call) -> None:
        await call.stream(*parts)

    desk.upstream.script = script
    response = await desk.ask(hello(stream=True))
    record_id = response.headers["x-reef-agent-record-id"]
    assert response.headers["content-type"] == "text/event-stream"
    named = parts[-2].replace(b"{", b'{"reef_agent_record_id":"%b",' % record_id.encode(), 1)
    assert response.content == b"".join([*parts[:-2], named, parts[-1]])
    (recorded,) = await desk.recorded()
    assert recorded.data["interaction_id"] == record_id
    assert recorded.data["token_fault"] is None
    assert recorded.body.reply == {"role": "assistant", "content": "It is 4."}
    assert recorded.body.prompt_token_ids == [1, 2, 3]
    assert recorded.body.token_ids == [10, 11, 12]
    assert recorded.body.logprobs == [-0.5, -0.5, -0.5]


async def test_every_event_reaches_the_client_before_the_upstream_sends_the_next(
    desk: Desk,
) -> None:
    seen = asyncio.Semaphore(0)
    parts = streamed(["It ", "is ", "4."])

    async def script(call: Call) -> None:
        await call.start()
        for part in parts:
            await call.send(part)
            await seen.acquire()
        await call.finish()

    desk.upstream.script = script
    received = b""
    async with desk.stream() as response:
        async for piece in response.aiter_raw():
            received += piece
            if piece.endswith(b"\n\n"):
                seen.release()
    assert received.count(b"\n\n") == len(parts)


async def test_a_sign_of_life_reaches_the_client_before_anything_else_comes(desk: Desk) -> None:
    seen = asyncio.Event()

    async def script(call: Call) -> None:
        await call.start()
        await call.send(b": still thinking\n")
        await seen.wait()
        await call.send(b"\n", *streamed(["4"]))
        await call.finish()

    desk.upstream.script = script
    async with desk.stream() as response:
        pieces = response.aiter_raw()
        assert await anext(pieces) == b": still thinking\n"
        seen.set()
        assert b"".join([piece async for piece in pieces]).endswith(b"data: [DONE]\n\n")
    (recorded,) = await desk.recorded()
    assert recorded.text == "4"


async def test_odd_but_valid_streams_are_understood(desk: Desk) -> None:
    def crlf(part: bytes) -> bytes:
        return part.replace(b"\n", b"\r\n")

    opening, middle, end = streamed(["It is 4."])[:3]
    lines = json.dumps(json.loads(middle[6:]), indent=1).encode().split(b"\n")
    spread = b"".join(b"data:%b\n" % line for line in lines) + b"\n"
    whole = b"".join(
        [
            b"\xef\xbb\xbf: hello\n\n",
            crlf(opening),
            b"event: message\nid: 7\nretry: 10\n" + spread,
            b": nothing\n",
            crlf(end),
            b"data:[DONE]\n\n",
        ]
    )

    async def script(call: Call) -> None:
        await call.start()
        for at in range(0, len(whole), 7):
            await call.send(whole[at : at + 7])
        await call.finish()

    desk.upstream.script = script
    response = await desk.ask(hello(stream=True))
    assert response.content.replace(b"\r", b"").startswith(whole.replace(b"\r", b"")[:200])
    assert response.content.endswith(b"data:[DONE]\n\n")
    (recorded,) = await desk.recorded()
    assert recorded.data["token_fault"] is None
    assert recorded.text == "It is 4."


async def test_tool_calls_and_reasoning_are_put_together_from_their_pieces(desk: Desk) -> None:
    def call_piece(index: int, arguments: str, **more: Any) -> dict[str, Any]:
        function = {"arguments": arguments, **({"name": more.pop("name")} if more else {})}
        return {"index": index, "function": function, **more}

    parts = [
        chunk({"role": "assistant", "content": None, "reasoning_content": "Let me "}),
        chunk({"reasoning_content": "see."}),
        chunk({"tool_calls": [call_piece(0, "", name="add", id="c1", type="function")]}),
        chunk({"tool_calls": [call_piece(1, '{"b"', name="sub", id="c2", type="function")]}),
        chunk({"tool_calls": [call_piece(0, '{"a":'), call_piece(1, ": 2}")]}),
        chunk({"tool_calls": [call_piece(0, " 1}")]}),
        chunk({}, "tool_calls"),
        event("[DONE]"),
    ]

    async def script(call: Call) -> None:
        await call.stream(*parts)

    desk.upstream.script = script
    await desk.ask(hello(stream=True))
    (recorded,) = await desk.recorded()
    assert recorded.data["finish_reason"] == "tool_calls"
    assert recorded.data["token_fault"] == "no-token-data"
    assert recorded.body.reply == {
        "role": "assistant",
        "content": None,
        "reasoning_content": "Let me see.",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}},
            {"id": "c2", "type": "function", "function": {"name": "sub", "arguments": '{"b": 2}'}},
        ],
    }


async def test_nothing_of_the_client_but_its_body_gets_to_the_upstream(site: Site) -> None:
    async with open_desk(site, upstream_key="the upstream's own") as desk:
        await desk.story.create_scenario()

        async def script(call: Call) -> None:
            await call.whole(completion("4"), set_cookie="a=secret; Path=/")

        desk.upstream.script = script
        for _ in range(2):
            response = await desk.ask(x_reef_tag_session="secret", x_other="secret", cookie="a=b")
            assert "set-cookie" not in response.headers
        for call in desk.upstream.calls:
            assert call.headers["authorization"] == "Bearer the upstream's own"
            assert "secret" not in str(call.headers)
            assert not any(name.startswith("x-reef") for name in call.headers)
            assert "cookie" not in call.headers


async def test_without_the_setting_the_body_is_forwarded_as_it_came(site: Site) -> None:
    async with open_desk(site, upstream_token_data=False) as desk:
        await desk.story.create_scenario()
        body = b' {"messages" : [{"role":"user","content":"hi"}], "seed": 123456789012345678901}\n'
        await desk.ask(body)
        assert desk.upstream.calls[0].body == body


async def test_the_clients_own_bytes_stay_beside_what_is_added(desk: Desk) -> None:
    body = b'{"messages":[{"role":"user","content":"hi"}],"seed":123456789012345678901,"x":1e400}'
    await desk.ask(body.replace(b',"x":1e400', b""))
    asked = desk.upstream.calls[0].body
    assert asked.startswith(b'{"logprobs":true,"return_token_ids":true,"messages"')
    assert b"123456789012345678901" in asked


async def test_token_data_are_asked_for_also_when_the_client_says_that_it_needs_none(
    desk: Desk,
) -> None:
    await desk.ask(hello(logprobs=False, return_token_ids=None))
    assert desk.upstream.calls[0].json == hello(logprobs=True, return_token_ids=True)
    await desk.ask(hello(logprobs=True))
    assert desk.upstream.calls[1].json == hello(logprobs=True, return_token_ids=True)


async def test_the_release_is_the_one_that_the_upstream_names(desk: Desk) -> None:
    release = await desk.story.release()
    named = [("vllm-1", "policy"), (release, "policy"), (None, release), ("vllm-1", release)]

    async def script(call: Call) -> None:
        fingerprint, model = named[len(desk.upstream.calls) - 1]
        await call.whole(completion("4", system_fingerprint=fingerprint, model=model))

    desk.upstream.script = script
    for _ in named:
        await desk.ask()
    recorded = await desk.recorded(4)
    assert [each.data["release_id"] for each in recorded] == [None, release, release, release]


async def test_a_model_that_the_client_asked_for_by_a_releases_name_is_no_release(
    desk: Desk,
) -> None:
    release = await desk.story.release()

    async def script(call: Call) -> None:
        await call.whole(completion("4", model=call.json["model"]))

    desk.upstream.script = script
    await desk.ask(hello(model=release))
    (recorded,) = await desk.recorded()
    assert (recorded.data["model"], recorded.data["release_id"]) == (release, None)


async def test_a_stream_of_two_fingerprints_is_of_no_release(desk: Desk) -> None:
    release = await desk.story.release()
    first, *rest = streamed(["It ", "is ", "4."])

    def by(fingerprint: str, part: bytes) -> bytes:
        return part.replace(b"{", b'{"system_fingerprint": "%b", ' % fingerprint.encode(), 1)

    async def script(call: Call) -> None:
        others = [by("another", part) for part in rest[:-1]]
        await call.stream(by(release, first), *others, rest[-1])

    desk.upstream.script = script
    await desk.ask(hello(stream=True))
    (recorded,) = await desk.recorded()
    assert (recorded.type, recorded.data["release_id"]) == ("interaction.recorded", None)


async def test_what_was_sampled_otherwise_than_by_the_temperature_is_not_to_be_trained_on(
    desk: Desk,
) -> None:
    await desk.ask(hello(top_p=0.9))
    await desk.ask(hello(top_p=1, temperature=0.7))
    one, other = await desk.recorded(2)
    assert (one.data["token_fault"], other.data["token_fault"]) == ("other-sampling", None)


async def test_a_receipt_can_be_reported_on_at_once(desk: Desk) -> None:
    for _ in range(5):
        receipt = (await desk.ask()).headers["x-reef-agent-record-id"]
        report = {"references": [receipt], "score": 1}
        view = await desk.story.post("ingest", "/reef/report", report)
        assert len(view["positions"]) == 1


async def test_a_receipt_of_a_call_on_its_way_is_to_be_reported_on_later(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "_SPOOLED_S", 0.01)

    async def script(call: Call) -> None:
        await call.start()
        await call.left()

    desk.upstream.script = script
    async with desk.stream() as response:
        report = {"references": [response.headers["x-reef-agent-record-id"]], "score": 1}
        with pytest.raises(Problem, match="not in the log yet"):
            await desk.story.post("ingest", "/reef/report", report)


async def test_the_models_are_the_upstreams(desk: Desk) -> None:
    listed = {"object": "list", "data": [{"id": "policy", "object": "model"}]}

    async def script(call: Call) -> None:
        await call.whole(listed)

    desk.upstream.script = script
    response = await desk.story.http.get("/v1/models", headers=desk.headers())
    assert response.json() == listed
    assert (desk.upstream.calls[0].method, desk.upstream.calls[0].path) == ("GET", "/v1/models")


async def test_calls_that_bind_to_nothing_are_told_so_on_the_call(desk: Desk) -> None:
    for number in range(9):
        await desk.ask(hello(f"Unrelated question number {number}?"))
    await until(lambda: signal(desk.story), lambda view: view["alarm"] is not None)
    response = await desk.ask(hello("Another?"))
    assert response.headers["x-reef-signal-alarm"].endswith("unbound=9")
