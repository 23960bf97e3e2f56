"""Requests through the adapter to vLLM, and answers back."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx
import pytest

from tests.unit.trainer.vllm.scripted import RECORDED, TOKENS, ScriptedVllm, logprob
from tests.unit.trainer.vllm.test_swapping import load
from trainer.engines.client import HttpEngine
from trainer.engines.protocol import Sampling
from trainer.tiny.shipped import ORIGIN

ASKED: dict[str, Any] = {
    "model": "policy",
    "messages": [{"role": "user", "content": "1 + 1"}],
    "temperature": 0.7,
    "max_tokens": 96,
    "seed": 11,
    "logprobs": True,
    "return_token_ids": True,
}


@pytest.fixture
def served(adapter: httpx.Client) -> httpx.Client:
    assert load(adapter, ORIGIN, "release-1").status_code == 200
    return adapter


def chat(served: httpx.Client, **changes: Any) -> httpx.Response:
    return served.post("/v1/chat/completions", json=ASKED | changes)


def lines(served: httpx.Client, **changes: Any) -> list[str]:
    body = ASKED | {"stream": True} | changes
    with served.stream("POST", "/v1/chat/completions", json=body) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        return [line.removeprefix("data: ") for line in stream.iter_lines() if line]


def test_the_engine_client_reads_a_whole_reply(served: httpx.Client, vllm: ScriptedVllm) -> None:
    with HttpEngine(str(served.base_url)) as engine:
        reply = engine.generate("1 + 1", Sampling(temperature=0.7, max_new_tokens=96), 11)
    assert reply.token_ids == TOKENS
    assert reply.logprobs == tuple(logprob(vllm.weights, token) for token in TOKENS)
    assert list(reply.prompt_token_ids) == RECORDED["chat"]["prompt_token_ids"]
    assert reply.finish_reason == "stop"


def test_what_would_come_from_the_models_files_is_given_with_every_request(
    served: httpx.Client, vllm: ScriptedVllm
) -> None:
    chat(served, model=None, temperature=None, max_tokens=None, seed=None, user="u")
    [asked] = vllm.asked
    assert asked == {
        "model": "policy",
        "messages": ASKED["messages"],
        "temperature": 1.0,
        "max_tokens": 256,
        "logprobs": True,
        "return_token_ids": True,
        "stream": False,
        "n": 1,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
    }


def test_an_answer_names_the_release(served: httpx.Client) -> None:
    answer = chat(served).json()
    assert (answer["model"], answer["system_fingerprint"]) == ("policy", "release-1")
    assert answer["object"] == "chat.completion"


def test_tools_reach_vllm(served: httpx.Client, vllm: ScriptedVllm) -> None:
    tools = [{"type": "function", "function": {"name": "look"}}]
    messages = [{"role": "assistant", "content": None, "tool_calls": []}]
    assert chat(served, tools=tools, tool_choice="auto", messages=messages).status_code == 200
    asked = vllm.asked[-1]
    assert (asked["tools"], asked["tool_choice"], asked["messages"]) == (tools, "auto", messages)


@pytest.mark.parametrize(
    "given",
    [
        {"top_p": 0.9},
        {"stop": ["\n"]},
        {"response_format": {"type": "json_object"}},
        {"n": 2},
        {"ignore_eos": True},
        {"allowed_token_ids": [1]},
        {"temperature": -1},
        {"seed": -1},
        {"messages": "hello"},
    ],
)
def test_settings_under_which_log_probabilities_would_be_others_are_refused(
    given: dict[str, Any], served: httpx.Client, vllm: ScriptedVllm
) -> None:
    for stream in (False, True):
        answer = chat(served, stream=stream, **given)
        assert answer.status_code == 400
        assert answer.headers["content-type"] == "application/problem+json"
    assert vllm.asked == []
    assert chat(served, model="gpt").status_code == 404


def test_what_vllm_refuses_is_refused_with_its_words(
    served: httpx.Client, vllm: ScriptedVllm
) -> None:
    vllm.failing = "chat/completions"
    answer = chat(served, stream=True)
    assert answer.status_code == 503
    assert "vLLM failed with status 500" in answer.json()["detail"]


def test_a_stream_comes_through_chunk_by_chunk(served: httpx.Client, vllm: ScriptedVllm) -> None:
    *chunks, end = lines(served)
    assert end == "[DONE]"
    parsed = [json.loads(chunk) for chunk in chunks]
    assert {(each["model"], each["system_fingerprint"]) for each in parsed} == {
        ("policy", "release-1")
    }
    assert parsed[0]["prompt_token_ids"]
    choices = [choice for each in parsed[1:] for choice in each["choices"]]
    assert [choice["token_ids"] for choice in choices] == [[token] for token in TOKENS]
    assert choices[-1]["finish_reason"] is not None


def chunk(**changes: Any) -> dict[str, Any]:
    whole: dict[str, Any] = json.loads(json.dumps(RECORDED["chat_chunks"][1]))
    whole["choices"][0] |= changes
    return whole


@pytest.mark.parametrize(
    "broken",
    [
        [],
        [{"error": {"message": "out of memory"}}],
        [chunk(finish_reason="abort")],
        [chunk() | {"model": "another"}],
        [chunk(logprobs={"content": [{"logprob": None}]})],
    ],
    ids=["cut", "error", "aborted", "another", "nan"],
)
def test_a_stream_that_breaks_ends_with_an_error_and_no_done(
    broken: list[Any], served: httpx.Client, vllm: ScriptedVllm
) -> None:
    vllm.chunks = broken
    found = lines(served)
    assert "[DONE]" not in found
    assert json.loads(found[-1])["error"]["status"] == 503
    vllm.chunks = None
    assert lines(served)[-1] == "[DONE]"


def test_a_client_that_goes_away_ends_its_reply(served: httpx.Client, vllm: ScriptedVllm) -> None:
    vllm.go.clear()
    body = ASKED | {"stream": True}
    with served.stream("POST", "/v1/chat/completions", json=body) as stream:
        next(stream.iter_lines())
    while not vllm.aborted:
        time.sleep(0.005)
    vllm.go.set()
    assert load(served, ORIGIN, "release-2").status_code == 200


def test_scores_are_at_temperature_1_only(served: httpx.Client, vllm: ScriptedVllm) -> None:
    body = {"prompt_token_ids": [1, 5], "token_ids": [6, 7], "temperature": 1.0}
    expected = [logprob(vllm.weights, token) for token in (6, 7)]
    for temperature in (1.0, 0.0):
        answer = served.post("/v1/score", json=body | {"temperature": temperature})
        assert answer.json() == {"logprobs": expected, "release_id": "release-1"}
    assert vllm.asked[-1]["prompt_logprobs"] == 0
    for given in ({"temperature": 0.7}, {"token_ids": []}, {"prompt_token_ids": []}):
        assert served.post("/v1/score", json=body | given).status_code == 400
