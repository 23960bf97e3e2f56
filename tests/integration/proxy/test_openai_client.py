"""OpenAI's own Python client, used as its documentation says, through the proxy."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from tests.integration.api.traffic import correlated, turns_of
from tests.integration.proxy.desk import Desk, hello
from tests.integration.proxy.upstream import Call, chunk, completion, event, streamed

pytestmark = pytest.mark.anyio

USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
ADD: Any = {
    "type": "function",
    "function": {
        "name": "add",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
            "additionalProperties": False,
        },
    },
}


def usage_chunk() -> bytes:
    return event(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "policy",
            "choices": [],
            "usage": USAGE,
        }
    )


async def test_a_completion_with_its_usage_and_its_receipt(desk: Desk) -> None:
    async with desk.openai() as client:
        raw = await client.chat.completions.with_raw_response.create(
            **hello(), extra_headers={"x-reef-tag-session": "talk-1"}
        )
        answer = raw.parse()
        assert answer.choices[0].message.content == "It is 4."
        assert answer.usage is not None
        assert answer.usage.total_tokens == 5
        (recorded,) = await desk.recorded()
        assert recorded.data["interaction_id"] == raw.headers["x-reef-agent-record-id"]
        assert recorded.data["tag"] == "talk-1"


async def test_a_stream_with_its_usage_and_its_receipt(desk: Desk) -> None:
    *parts, done = streamed(["It ", "is ", "4."])

    async def script(call: Call) -> None:
        await call.stream(*parts, usage_chunk(), done)

    desk.upstream.script = script
    async with desk.openai() as client:
        stream = await client.chat.completions.create(
            **hello(), stream=True, stream_options={"include_usage": True}
        )
        chunks = [each async for each in stream]
        words = [each.choices[0].delta.content or "" for each in chunks if each.choices]
        assert "".join(words) == "It is 4."
        assert chunks[-1].usage is not None
        receipt = (chunks[-1].model_extra or {})["reef_agent_record_id"]
        assert receipt == stream.response.headers["x-reef-agent-record-id"]
        (recorded,) = await desk.recorded()
        assert recorded.data["interaction_id"] == receipt
        assert desk.upstream.calls[0].json["stream_options"] == {"include_usage": True}


async def test_the_streaming_helper_gives_the_whole_completion(desk: Desk) -> None:
    *parts, done = streamed(["It ", "is ", "4."])

    async def script(call: Call) -> None:
        await call.stream(*parts, usage_chunk(), done)

    desk.upstream.script = script
    async with desk.openai() as client, client.chat.completions.stream(**hello()) as stream:
        kinds = [each.type async for each in stream]
        final = await stream.get_final_completion()
    assert "content.delta" in kinds
    assert final.choices[0].message.content == "It is 4."
    assert final.usage is not None
    assert final.usage.total_tokens == 5


async def test_a_tool_is_called_in_a_stream_and_its_result_is_the_next_call(desk: Desk) -> None:
    def piece(arguments: str, **more: Any) -> dict[str, Any]:
        name = {"name": "add"} if more else {}
        function = {"arguments": arguments, **name}
        return {"tool_calls": [{"index": 0, "function": function, **more}]}

    async def script(call: Call) -> None:
        if len(desk.upstream.calls) == 1:
            await call.stream(
                chunk({"role": "assistant", "content": None}),
                chunk(piece("", id="c1", type="function")),
                chunk(piece('{"a": 2,')),
                chunk(piece(' "b": 2}')),
                chunk({}, "tool_calls"),
                event("[DONE]"),
            )
        else:
            await call.whole(completion("It is 4."))

    desk.upstream.script = script
    asked = hello(tools=[ADD])
    async with desk.openai() as client:
        async with client.chat.completions.stream(**asked) as stream:
            async for _ in stream:
                pass
            message = (await stream.get_final_completion()).choices[0].message
        (call,) = message.tool_calls or []
        assert json.loads(call.function.arguments) == {"a": 2, "b": 2}
        result = {"role": "tool", "tool_call_id": call.id, "content": "4"}
        echoed = message.model_dump(exclude_none=True, exclude={"parsed"})
        for tool_call in echoed["tool_calls"]:
            tool_call["function"].pop("parsed_arguments", None)
        messages = [*asked["messages"], echoed, result]
        final = await client.chat.completions.create(**{**asked, "messages": messages})
    assert final.choices[0].message.content == "It is 4."
    first, second = await desk.recorded(2)
    assert (first.body.reply or {})["tool_calls"][0]["function"]["name"] == "add"
    await correlated(desk.story, 2)
    _, turn = await turns_of(desk.story, first.data["interaction_id"])
    assert turn["turn_id"] == second.data["interaction_id"]
    assert turn["follows"] == first.data["interaction_id"]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, openai.BadRequestError),
        (404, openai.NotFoundError),
        (422, openai.UnprocessableEntityError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
        (503, openai.InternalServerError),
    ],
)
async def test_the_upstreams_errors_are_raised_as_they_would_be_without_a_proxy(
    desk: Desk, status: int, kind: type[openai.APIStatusError]
) -> None:
    error = {"message": "no", "type": "t", "param": None, "code": "c"}

    async def script(call: Call) -> None:
        await call.whole({"error": error}, status, retry_after="3")

    desk.upstream.script = script
    async with desk.openai() as client:
        with pytest.raises(kind) as raised:
            await client.chat.completions.create(**hello())
    assert raised.value.body == error
    assert raised.value.response.headers["retry-after"] == "3"
    assert raised.value.response.headers["x-reef-agent-record-id"]


async def test_the_services_own_errors_are_raised_with_what_to_do(desk: Desk) -> None:
    async with desk.openai(default_headers={}) as client:
        with pytest.raises(openai.BadRequestError, match="x-reef-scenario"):
            await client.chat.completions.create(**hello())
    async with desk.openai(api_key="nonsense") as client:
        with pytest.raises(openai.AuthenticationError):
            await client.chat.completions.create(**hello())
    async with desk.openai() as client:
        with pytest.raises(openai.BadRequestError, match="several replies"):
            await client.chat.completions.create(**hello(), n=3)


async def test_a_stream_that_breaks_is_an_error_and_not_a_short_reply(desk: Desk) -> None:
    async def script(call: Call) -> None:
        await call.start()
        await call.send(*streamed(["It ", "is "])[:3])
        call.drop()

    desk.upstream.script = script
    async with desk.openai() as client:
        stream = await client.chat.completions.create(**hello(), stream=True)
        with pytest.raises(openai.APIError, match="upstream"):
            async for _ in stream:
                pass
    (recorded,) = await desk.recorded()
    assert recorded.data["error"] == "upstream-error"


async def test_the_clients_own_retry_is_one_failed_and_one_good_call(desk: Desk) -> None:
    async def script(call: Call) -> None:
        if len(desk.upstream.calls) == 1:
            await call.whole({"error": {"message": "no"}}, 503, retry_after_ms="1")
        else:
            await call.whole(completion("It is 4."))

    desk.upstream.script = script
    async with desk.openai(max_retries=2) as client:
        answer = await client.chat.completions.create(**hello())
    assert answer.choices[0].message.content == "It is 4."
    failed, good = await desk.recorded(2)
    assert (failed.type, good.type) == ("interaction.failed", "interaction.recorded")


async def test_the_models_are_listed(desk: Desk) -> None:
    async def script(call: Call) -> None:
        entry = {"id": "policy", "object": "model", "created": 1, "owned_by": "us"}
        await call.whole({"object": "list", "data": [entry]})

    desk.upstream.script = script
    async with desk.openai() as client:
        assert [each.id async for each in client.models.list()] == ["policy"]
