"""Weights into a real vLLM and out of it, measured against transformers."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from reef_release.errors import Refused
from reef_release.node.canary import Canary, parse_canaries
from reef_release.node.engine import EngineHealth, LoadedFiles, OnDisk
from reef_release.node.engine import HttpEngine as NodeEngine
from reef_release.node.loading import load
from tests.adapters import make_adapter
from tests.vllm.server import adapter
from trainer.engines.client import HttpEngine
from trainer.engines.protocol import Engine, Sampling
from trainer.engines.transformers_engine import TransformersEngine
from trainer.engines.weights import ModelFiles
from trainer.gate.canary import canary_blob
from trainer.tiny.problems import draw_many
from trainer.tiny.shipped import BETTER, ORIGIN

QUESTIONS = [problem.question for problem in draw_many("stream", 6, seed=0)]
WARM = Sampling(temperature=0.7, max_new_tokens=96)
GREEDY = Sampling(temperature=0.0, max_new_tokens=96)
TOLERANCE = 1e-3
PROMPTS = QUESTIONS[:2]


def on_disk(directory: Path, name: str) -> OnDisk:
    files = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in directory.iterdir()
    }
    return OnDisk(directory=directory, release_id=name, files=files)


def canaries(engine: Engine) -> tuple[Canary, ...]:
    """What a gate records on *engine*."""
    return parse_canaries(canary_blob(engine, PROMPTS), PROMPTS)


@pytest.fixture
def node(engine_url: str) -> Iterator[NodeEngine]:
    with closing(NodeEngine(engine_url)) as engine:
        yield engine


def chat(url: str, question: str, **changes: Any) -> Any:
    body = {
        "messages": [{"role": "user", "content": question}],
        "temperature": 0.0,
        "max_tokens": 48,
        "logprobs": True,
        "return_token_ids": True,
    }
    answer = httpx.post(f"{url}/v1/chat/completions", json=body | changes, timeout=300).json()
    choice = answer["choices"][0]
    return choice["token_ids"], [entry["logprob"] for entry in choice["logprobs"]["content"]]


@pytest.fixture(scope="session")
def cold(tied: str) -> Any:
    """What `tied` answers as long as it has had no other weights."""
    return [chat(tied, question) for question in QUESTIONS]


def test_replies_have_the_logprobs_that_transformers_gives_their_tokens(
    node: NodeEngine, engine_url: str, origin: TransformersEngine, figures: list[str]
) -> None:
    node.load(on_disk(ORIGIN, "origin"))
    largest, count = 0.0, 0
    with HttpEngine(engine_url) as engine:
        for question in QUESTIONS:
            for sampling in (WARM, GREEDY, Sampling(temperature=1.3, max_new_tokens=96)):
                reply = engine.generate(question, sampling, 5)
                assert reply.prompt_token_ids == origin.encode(question)
                expected = origin.score(
                    reply.prompt_token_ids, reply.token_ids, sampling.temperature
                )
                pairs = zip(reply.logprobs, expected, strict=True)
                largest = max(largest, *(abs(a - b) for a, b in pairs))
                count += len(expected)
                if sampling is GREEDY:
                    assert reply.token_ids == origin.generate(question, GREEDY, 0).token_ids
    figures.append(f"log-probabilities of {count} sampled tokens: at most {largest:.1e} nats apart")
    assert largest < TOLERANCE


def test_a_seed_gives_the_same_reply_again(node: NodeEngine, engine_url: str) -> None:
    node.load(on_disk(ORIGIN, "origin"))
    with HttpEngine(engine_url) as engine:
        first = engine.generate(QUESTIONS[0], WARM, 7)
        others = {engine.generate(QUESTIONS[0], WARM, seed).text for seed in range(8)}
        assert engine.generate(QUESTIONS[0], WARM, 7) == first
    assert len(others) > 1


def test_swaps_by_the_nodes_own_path_agree_with_the_canaries_of_transformers(
    node: NodeEngine, origin: TransformersEngine, better: TransformersEngine, figures: list[str]
) -> None:
    differences, seconds = [], []
    for _ in range(2):
        for directory, engine in ((ORIGIN, origin), (BETTER, better)):
            release = on_disk(directory, directory.name)
            began = time.monotonic()
            differences.append(load(node, release, None, canaries(engine), TOLERANCE))
            seconds.append(time.monotonic() - began)
            assert node.health() == EngineHealth(loaded=True, release_id=directory.name)
    figures.append(f"canary differences of four swaps: {', '.join(differences)} nats")
    figures.append(f"a swap with its canaries: {min(seconds):.2f} to {max(seconds):.2f} s")


def test_canaries_of_other_weights_are_refused(
    node: NodeEngine, origin: TransformersEngine
) -> None:
    with pytest.raises(Refused) as refused:
        load(node, on_disk(BETTER, "better"), None, canaries(origin), 1e-2)
    assert [reason.code for reason in refused.value.reasons] == ["canary"]


class Careless:
    """An engine that reloads vLLM's weights as a tutorial would, and believes the answer."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def load(self, release: OnDisk, foundation: OnDisk | None = None) -> LoadedFiles:
        body = {
            "method": "reload_weights",
            "kwargs": {"weights_path": str(release.directory)},
        }
        assert self._http.post("/collective_rpc", json=body).status_code == 200
        assert self._http.post("/reset_prefix_cache").json() == {"success": True}
        return LoadedFiles(release_id=release.release_id, files=dict(release.files))

    def score(self, prompt_token_ids: Sequence[int], token_ids: Sequence[int]) -> list[float]:
        ids = [*prompt_token_ids, *token_ids]
        body = {"prompt": ids, "max_tokens": 1, "prompt_logprobs": 0}
        answer = self._http.post("/v1/completions", json=body).json()
        entries = answer["choices"][0]["prompt_logprobs"]
        places = range(len(prompt_token_ids), len(ids))
        return [entries[place][str(ids[place])]["logprob"] for place in places]

    def health(self) -> EngineHealth:
        return EngineHealth(loaded=True)


def test_a_tied_vllm_is_refused_by_the_adapter_and_its_stale_head_found_by_the_canaries(
    tied: str,
    cold: Any,
    tmp_path: Path,
    origin: TransformersEngine,
    better: TransformersEngine,
    figures: list[str],
) -> None:
    with (
        adapter(tied, tmp_path) as url,
        closing(NodeEngine(url)) as node,
        pytest.raises(Refused) as refused,
    ):
        node.load(on_disk(ORIGIN, "origin"))
    found = [(reason.code, reason.where) for reason in refused.value.reasons]
    assert found == [("other-form", "config.json"), ("other-form", "lm_head.weight")]

    with httpx.Client(base_url=tied, timeout=300) as http:
        careless = Careless(http)
        # As it was started it serves the better model, so what follows is the reload's doing.
        for each in canaries(better):
            scores = careless.score(each.prompt_token_ids, each.token_ids)
            assert scores == pytest.approx(each.logprobs, abs=TOLERANCE)
        with pytest.raises(Refused) as stale:
            load(careless, on_disk(ORIGIN, "origin"), None, canaries(origin), 1e-2)
    [reason] = stale.value.reasons
    assert reason.code == "canary"
    figures.append(f"tied embeddings: {reason.message}")


def test_no_prefix_outlives_a_swap(
    cold: Any, node: NodeEngine, engine_url: str, figures: list[str]
) -> None:
    node.load(on_disk(ORIGIN, "origin"))
    before = [chat(engine_url, question) for question in QUESTIONS]
    assert [chat(engine_url, question) for question in QUESTIONS] == before
    node.load(on_disk(BETTER, "better"))
    after = [chat(engine_url, question) for question in QUESTIONS]
    assert [ids for ids, _ in after] == [ids for ids, _ in cold]
    gap = max(
        abs(a - b)
        for (_, one), (_, other) in zip(after, cold, strict=True)
        for a, b in zip(one, other, strict=True)
    )
    figures.append(f"after a swap against a cold vLLM: at most {gap:.1e} nats apart")
    assert gap < 1e-5
    assert [ids for ids, _ in before] != [ids for ids, _ in after]
    node.load(on_disk(ORIGIN, "origin"))
    assert [chat(engine_url, question) for question in QUESTIONS] == before


def test_adapters_come_and_go_under_new_names(
    node: NodeEngine, engine_url: str, upstream: str, tmp_path: Path, figures: list[str]
) -> None:
    foundation = on_disk(ORIGIN, "origin")
    expected = {}
    for name, size in (("mild", 0.05), ("strong", 0.2)):
        make_adapter(ORIGIN, tmp_path / name, size=size)
        expected[name] = TransformersEngine()
        expected[name].load(
            tmp_path / name, foundation=ModelFiles(directory=ORIGIN, release_id="origin")
        )
    names, differences = [], []
    for name in ("mild", "strong", "mild"):
        found = load(
            node, on_disk(tmp_path / name, name), foundation, canaries(expected[name]), TOLERANCE
        )
        differences.append(found)
        cards = httpx.get(f"{upstream}/v1/models").json()["data"]
        [card] = [card for card in cards if card["parent"] is not None]
        names.append(card["id"])
        with HttpEngine(engine_url) as engine:
            reply = engine.generate(QUESTIONS[0], GREEDY, 0)
        assert reply.token_ids == expected[name].generate(QUESTIONS[0], GREEDY, 0).token_ids
    assert len(set(names)) == 3
    figures.append(f"canary differences of three adapters: {', '.join(differences)} nats")
    plain = TransformersEngine()
    plain.load(BETTER)
    load(node, on_disk(BETTER, "better"), None, canaries(plain), TOLERANCE)
    cards = httpx.get(f"{upstream}/v1/models").json()["data"]
    assert [card["parent"] for card in cards] == [None]


def test_a_stream_comes_through_and_a_swap_waits_for_it(node: NodeEngine, engine_url: str) -> None:
    node.load(on_disk(ORIGIN, "origin"))
    asked = {"temperature": 0.7, "seed": 3, "max_tokens": 96}
    whole = chat(engine_url, QUESTIONS[1], **asked)
    body = {
        "messages": [{"role": "user", "content": QUESTIONS[1]}],
        **asked,
        "logprobs": True,
        "return_token_ids": True,
        "stream": True,
    }
    swap = threading.Thread(target=node.load, args=(on_disk(BETTER, "better"),))
    chunks: list[dict[str, Any]] = []
    url = f"{engine_url}/v1/chat/completions"
    with httpx.stream("POST", url, json=body, timeout=300) as stream:
        lines = (line.removeprefix("data: ") for line in stream.iter_lines() if line)
        for line in lines:
            if line != "[DONE]":
                chunks.append(json.loads(line))
            if len(chunks) == 1:
                swap.start()
    assert line == "[DONE]"
    swap.join()
    assert {chunk["system_fingerprint"] for chunk in chunks} == {"origin"}
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    ids = [token for choice in choices for token in choice.get("token_ids") or ()]
    entries = [
        entry for choice in choices if choice["logprobs"] for entry in choice["logprobs"]["content"]
    ]
    assert (ids, [entry["logprob"] for entry in entries]) == whole
    assert chunks[0]["prompt_token_ids"]
    assert node.health().release_id == "better"


def test_a_vllm_that_says_it_has_other_weights_serves_nothing(
    node: NodeEngine, engine_url: str, upstream: str
) -> None:
    release = on_disk(ORIGIN, "origin")
    node.load(release)
    httpx.post(f"{upstream}/update_weight_version", json={"new_version": "somebody else's"})
    asked = {"messages": [{"role": "user", "content": "1"}], "max_tokens": 1}
    answer = httpx.post(f"{engine_url}/v1/chat/completions", json=asked)
    assert (answer.status_code, answer.json()["detail"]) == (503, "no model is loaded")
    assert node.health() == EngineHealth(loaded=False)
    node.load(release)
    assert node.health().loaded


def test_the_same_tokens_come_with_and_without_the_adapter_at_these_speeds(
    node: NodeEngine, engine_url: str, upstream: str, figures: list[str]
) -> None:
    node.load(on_disk(ORIGIN, "origin"))

    def ids(engine: HttpEngine, seed: int) -> tuple[int, ...]:
        return engine.generate(QUESTIONS[0], WARM, seed).token_ids

    for count in (1, 16):
        found = {}
        for name, url in (("vLLM itself", upstream), ("the adapter", engine_url)):
            with HttpEngine(url) as engine, ThreadPoolExecutor(count) as pool:
                ids(engine, 0)
                began = time.monotonic()
                found[name] = list(pool.map(partial(ids, engine), range(64)))
                rate = sum(map(len, found[name])) / (time.monotonic() - began)
            figures.append(f"64 replies, {count} at once, from {name}: {rate:.0f} tokens/s")
        if count == 1:
            # In a batch the last bits depend on what else is in it, and with them a token.
            assert found["vLLM itself"] == found["the adapter"]
