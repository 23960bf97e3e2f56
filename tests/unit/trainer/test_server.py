from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from reef_release.errors import BadRequest, NotFound, Refused, Unavailable
from trainer.engines.client import HttpEngine
from trainer.engines.protocol import Engine, Sampling, TimedOut
from trainer.engines.transformers_engine import TransformersEngine
from trainer.tiny.degrade import nan_tensor, tampered
from trainer.tiny.problems import draw_many

QUESTION = draw_many("stream", 1, seed=0)[0].question
ASKED: dict[str, Any] = {
    "model": "policy",
    "messages": [{"role": "user", "content": QUESTION}],
    "temperature": 0.7,
    "max_tokens": 96,
    "seed": 11,
    "logprobs": True,
    "return_token_ids": True,
}
WARM = Sampling(temperature=0.7, max_new_tokens=96)


def digests(directory: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in directory.iterdir()
    }


def load(server: httpx.Client, directory: Path, release_id: str) -> httpx.Response:
    body = {
        "directory": str(directory),
        "release_id": release_id,
        "files": digests(directory),
    }
    return server.post("/reef/load", json=body)


def chat(server: httpx.Client, **changes: Any) -> httpx.Response:
    return server.post("/v1/chat/completions", json=ASKED | changes)


def test_a_completion_has_the_fields_that_vllm_gives(
    server: httpx.Client, origin: Path, engine: TransformersEngine
) -> None:
    load(server, origin, "release-a")
    answer = chat(server).json()
    expected = engine.generate(QUESTION, WARM, 11)
    choice = answer["choices"][0]
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "policy"
    assert answer["system_fingerprint"] == "release-a"
    assert answer["prompt_token_ids"] == list(expected.prompt_token_ids)
    assert choice["token_ids"] == list(expected.token_ids)
    assert choice["message"] == {"role": "assistant", "content": expected.text}
    assert choice["finish_reason"] == "stop"
    logprobs = [entry["logprob"] for entry in choice["logprobs"]["content"]]
    assert logprobs == list(expected.logprobs)
    assert answer["usage"]["completion_tokens"] == len(expected.token_ids)


def test_ids_and_logprobs_are_given_only_when_asked_for(server: httpx.Client, origin: Path) -> None:
    load(server, origin, "a")
    answer = chat(server, logprobs=False, return_token_ids=False).json()
    assert "prompt_token_ids" not in answer
    assert "token_ids" not in answer["choices"][0]
    assert answer["choices"][0]["logprobs"] is None


def test_a_stream_gives_token_by_token_what_the_whole_answer_gives(
    server: httpx.Client, origin: Path
) -> None:
    load(server, origin, "a")
    whole = chat(server).json()
    with server.stream("POST", "/v1/chat/completions", json=ASKED | {"stream": True}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line]
    assert lines.pop() == "[DONE]"
    chunks = [json.loads(line) for line in lines]
    assert chunks[0]["prompt_token_ids"] == whole["prompt_token_ids"]
    choices = [chunk["choices"][0] for chunk in chunks]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert [token for choice in choices for token in choice.get("token_ids", [])] == whole[
        "choices"
    ][0]["token_ids"]
    text = "".join(choice["delta"].get("content", "") for choice in choices)
    assert text == whole["choices"][0]["message"]["content"]
    assert [choice["finish_reason"] for choice in choices if choice["finish_reason"]] == ["stop"]


def test_a_load_answers_with_the_digests_of_what_was_read(
    server: httpx.Client, origin: Path, better: Path
) -> None:
    for directory, release_id in ((origin, "a"), (better, "b")):
        answer = load(server, directory, release_id)
        assert answer.status_code == 200
        loaded = {"release_id": release_id, "files": digests(directory), "foundation": None}
        assert answer.json() == loaded
        assert server.get("/reef/loaded").json() == answer.json()
        assert chat(server).json()["system_fingerprint"] == release_id


def test_a_client_that_does_not_read_its_stream_holds_up_no_swap(
    server: httpx.Client, origin: Path, better: Path
) -> None:
    load(server, origin, "a")
    asked = ASKED | {"stream": True}
    with server.stream("POST", "/v1/chat/completions", json=asked) as unread:
        assert load(server, better, "b").json()["release_id"] == "b"
        lines = [line.removeprefix("data: ") for line in unread.iter_lines() if line]
    # Begun before the swap, so from its first to its last token on the weights of then.
    assert {json.loads(line)["system_fingerprint"] for line in lines[:-1]} == {"a"}


def test_replies_asked_for_at_once_are_those_asked_for_one_by_one(
    server: httpx.Client, origin: Path, engine: TransformersEngine
) -> None:
    load(server, origin, "a")
    expected = [engine.generate(QUESTION, WARM, seed) for seed in range(8)]
    with HttpEngine(str(server.base_url)) as far, ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda seed: far.generate(QUESTION, WARM, seed), range(8)))
    assert replies == expected


def test_a_defect_is_a_problem_that_gives_nothing_away(
    server: httpx.Client,
    origin: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: Any) -> None:
        raise KeyError("a secret")

    monkeypatch.setattr(TransformersEngine, "score", fail)
    answer = server.post("/v1/score", json={"prompt_token_ids": [1], "token_ids": [2]})
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "secret" not in answer.text
    assert "a secret" in caplog.text


def test_a_load_that_fails_keeps_the_old_weights_and_says_why(
    server: httpx.Client, origin: Path, tmp_path: Path
) -> None:
    load(server, origin, "a")
    before = chat(server).json()["choices"]
    tampered(origin, tmp_path / "tampered")
    body = {
        "directory": str(tmp_path / "tampered"),
        "release_id": "b",
        "files": digests(origin),
    }
    answer = server.post("/reef/load", json=body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert [reason["code"] for reason in answer.json()["reasons"]] == ["digest-mismatch"]
    assert chat(server).json()["choices"] == before
    assert server.get("/reef/loaded").json()["release_id"] == "a"


def test_a_server_without_a_model_answers_503_until_one_is_loaded(
    server: httpx.Client, origin: Path
) -> None:
    assert server.get("/health").json() == {"status": "ok", "loaded": False, "release_id": None}
    assert server.get("/v1/models").json()["data"] == []
    for answer in (chat(server), server.get("/reef/loaded")):
        assert answer.status_code == 503
        assert "oad a release" in answer.json()["next_step"] or "/reef/load" in answer.text
    load(server, origin, "a")
    assert chat(server).status_code == 200
    assert [model["id"] for model in server.get("/v1/models").json()["data"]] == ["policy"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"messages": 3}',
        b'{"messages": []}',
        b'{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}',
        b'{"messages": [{"role": "user", "content": "x"}], "temperature": NaN}',
        b'{"messages": [{"role": "user", "content": "x"}], "temperature": -1}',
        b'{"messages": [{"role": "user", "content": "x"}], "max_tokens": 0}',
        b'{"messages": [{"role": "user", "content": "x"}], "max_tokens": 5000}',
        b'{"messages": [{"role": "user", "content": "x"}], "seed": -1}',
        b'{"messages": [{"role": "user", "content": "x"}], "seed": 1.5}',
        b'{"messages": [{"role": "user", "content": "x"}], "top_p": 0.9}',
        b'{"messages": [{"role": "user", "content": "x"}], "n": 2}',
        b'{"messages": [{"role": "user", "content": "x"}], "stop": ["a"]}',
        b'{"messages": [{"role": "user", "content": "\xff"}]}',
    ],
)
def test_a_request_that_cannot_be_followed_is_400_and_says_what_to_do(
    body: bytes, server: httpx.Client, origin: Path
) -> None:
    load(server, origin, "a")
    answer = server.post("/v1/chat/completions", content=body)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"]
    assert answer.json()["next_step"]


def test_settings_at_their_neutral_values_are_accepted(server: httpx.Client, origin: Path) -> None:
    load(server, origin, "a")
    assert chat(server, top_p=1.0, n=1, stop=None, user="somebody").status_code == 200


def test_unknown_models_and_routes_are_problems_too(server: httpx.Client, origin: Path) -> None:
    load(server, origin, "a")
    for answer in (chat(server, model="other"), server.get("/nowhere")):
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"


def test_openai_clients_find_the_error_where_they_look(server: httpx.Client, origin: Path) -> None:
    load(server, origin, "a")
    for answer, code in (
        (chat(server, tools=[{"type": "function"}]), "bad-request"),
        (chat(server, model="other"), "not-found"),
        (server.get("/nowhere"), "http-404"),
    ):
        error = answer.json()["error"]
        assert error["type"] == "invalid_request_error"
        assert error["code"] == code
        assert error["message"]


def test_the_http_engine_is_the_local_one_from_afar(
    server: httpx.Client, origin: Path, engine: TransformersEngine
) -> None:
    load(server, origin, "a")
    with HttpEngine(str(server.base_url)) as far:
        engines: list[Engine] = [engine, far]
        replies = [one.generate(QUESTION, WARM, 3) for one in engines]
        assert replies[0] == replies[1]
        reply = replies[0]
        scores = [one.score(reply.prompt_token_ids, reply.token_ids, 0.7) for one in engines]
        assert scores[0] == scores[1] == pytest.approx(list(reply.logprobs), abs=1e-4)


def test_the_http_engine_raises_what_the_local_one_raises(
    server: httpx.Client, origin: Path, tmp_path: Path
) -> None:
    with HttpEngine(str(server.base_url)) as far:
        with pytest.raises(Unavailable, match="no model"):
            far.generate(QUESTION, WARM, 1)
        nan_tensor(origin, tmp_path / "nan")
        load(server, tmp_path / "nan", "nan")
        with pytest.raises(Refused) as refused:
            far.generate(QUESTION, WARM, 1)
        assert refused.value.reasons[0].code == "non-finite-logits"
        with pytest.raises(BadRequest, match="fit"):
            far.generate(QUESTION, Sampling(max_new_tokens=2000), 1)
    with (
        HttpEngine(str(server.base_url), model="other") as far,
        pytest.raises(NotFound, match="other"),
    ):
        far.generate(QUESTION, WARM, 1)
    with HttpEngine("http://127.0.0.1:9") as far, pytest.raises(Unavailable, match="answer"):
        far.generate(QUESTION, WARM, 1)


def test_an_answer_without_a_logprob_for_each_token_is_never_padded() -> None:
    choice = {
        "message": {"content": "x"},
        "finish_reason": "stop",
        "token_ids": [1, 2],
        "logprobs": {"content": [{"logprob": -0.1}]},
    }
    answer = {"choices": [choice], "prompt_token_ids": [1]}
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=answer))
    with (
        HttpEngine("http://engine", transport=transport) as far,
        pytest.raises(Unavailable, match="1 log-probabilities for 2 tokens"),
    ):
        far.generate(QUESTION, WARM, 1)


def test_the_server_is_a_process_that_ends_at_sigterm(origin: Path) -> None:
    command = [sys.executable, "-m", "trainer.engines.server", "--model", str(origin)]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [*command, "--port", "0"], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("serving policy at http://127.0.0.1:")
    with HttpEngine(line.split()[-1]) as far:
        assert far.generate(QUESTION, WARM, 3).finish_reason == "stop"
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode in (0, -signal.SIGTERM)


def test_an_engine_that_does_not_answer_in_time_is_told_from_one_that_is_away() -> None:
    limits = []

    def late(request: httpx.Request) -> httpx.Response:
        limits.append(request.extensions["timeout"]["read"])
        raise httpx.ReadTimeout("too late", request=request)

    with HttpEngine("http://engine", transport=httpx.MockTransport(late)) as engine:
        with pytest.raises(TimedOut, match=r"within 2\.5 s"):
            engine.generate(QUESTION, WARM, 1, timeout_s=2.5)
        with pytest.raises(TimedOut, match=r"within 120\.0 s"):
            engine.generate(QUESTION, WARM, 1)
    assert limits == [2.5, 120.0]
