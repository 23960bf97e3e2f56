"""What the adapter has vLLM do when it is given a release, and what it leaves alone."""

from __future__ import annotations

import hashlib
import json
import shutil
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from safetensors.torch import load_file, save_file

from reef_release.errors import SettingsError
from reef_release.node.engine import EngineHealth, LoadedFiles, OnDisk
from reef_release.node.engine import HttpEngine as NodeEngine
from tests.unit.trainer.vllm.conftest import adapting
from tests.unit.trainer.vllm.scripted import ScriptedVllm, logprob, weights_of
from trainer.engines.vllm.engine import VllmEngine
from trainer.engines.vllm.upstream import VllmServer
from trainer.tiny.shipped import ORIGIN

SWAP = [
    "pause?mode=wait",
    "collective_rpc",
    "reset_prefix_cache",
    "update_weight_version",
    "resume",
]
ASKED = {"messages": [{"role": "user", "content": "1 + 1"}]}


def digests(directory: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in directory.iterdir()
    }


def request(directory: Path, name: str = "a", foundation: Path | None = None) -> dict[str, Any]:
    body: dict[str, Any] = {
        "directory": str(directory),
        "release_id": name,
        "files": digests(directory),
    }
    if foundation is not None:
        body["foundation"] = request(foundation, "below")
    return body


def load(adapter: httpx.Client, *given: Any) -> httpx.Response:
    return adapter.post("/reef/load", json=request(*given))


def routes(vllm: ScriptedVllm) -> list[str]:
    found = [name for name, _ in vllm.calls]
    vllm.calls.clear()
    return found


def test_nothing_is_served_before_a_release_is_loaded(
    adapter: httpx.Client, vllm: ScriptedVllm
) -> None:
    assert adapter.get("/health").json() == {"status": "ok", "loaded": False, "release_id": None}
    assert adapter.get("/v1/models").json()["data"] == []
    for answer in (
        adapter.get("/reef/loaded"),
        adapter.post("/v1/chat/completions", json=ASKED),
        adapter.post("/v1/chat/completions", json=ASKED | {"stream": True}),
        adapter.post("/v1/score", json={"prompt_token_ids": [1], "token_ids": [2]}),
    ):
        assert (answer.status_code, answer.json()["detail"]) == (503, "no model is loaded")
    assert vllm.asked == []


def test_a_release_is_reloaded_under_a_pause_from_a_private_untied_copy(
    adapter: httpx.Client, vllm: ScriptedVllm, trained: Path, tmp_path: Path
) -> None:
    answer = load(adapter, trained, "release-1")
    loaded = {"release_id": "release-1", "files": digests(trained), "foundation": None}
    assert (answer.status_code, answer.json()) == (200, loaded)
    assert adapter.get("/reef/loaded").json() == loaded
    copy = Path(dict(vllm.calls)["collective_rpc"]["kwargs"]["weights_path"])
    assert routes(vllm) == SWAP
    assert json.loads((copy / "config.json").read_text())["tie_word_embeddings"] is False
    tensors = {
        name: each for path in copy.glob("*.safetensors") for name, each in load_file(path).items()
    }
    assert tensors["lm_head.weight"].equal(tensors["model.embed_tokens.weight"])
    assert stat.S_IMODE((tmp_path / "work").stat().st_mode) == 0o700
    assert vllm.weights == weights_of(str(copy))
    assert adapter.get("/v1/models").json()["data"][0]["root"] == "release-1"
    assert adapter.get("/v1/models").json()["data"][0]["max_model_len"] == 512
    # The next load leaves nothing of it.
    load(adapter, ORIGIN, "release-2")
    assert not copy.exists()
    assert len(list((tmp_path / "work").iterdir())) == 1


def test_an_adapter_gets_a_new_name_each_time_and_its_foundation_is_read_once(
    adapter: httpx.Client, vllm: ScriptedVllm, trained: Path, lora: Path
) -> None:
    answer = load(adapter, lora, "adapter-a", ORIGIN).json()
    assert answer["files"] == digests(lora)
    assert answer["foundation"] == {"release_id": "below", "files": digests(ORIGIN)}
    assert routes(vllm) == [*SWAP[:2], "load_lora_adapter", *SWAP[2:]]
    [first] = vllm.adapters
    load(adapter, lora, "adapter-a", ORIGIN)
    assert routes(vllm) == [SWAP[0], "unload_lora_adapter", "load_lora_adapter", *SWAP[2:]]
    [second] = vllm.adapters
    assert second != first
    adapter.post("/v1/chat/completions", json=ASKED)
    assert vllm.asked[-1]["model"] == second
    load(adapter, lora, "adapter-b", trained)
    assert routes(vllm) == [
        *SWAP[:1],
        "unload_lora_adapter",
        SWAP[1],
        "load_lora_adapter",
        *SWAP[2:],
    ]
    load(adapter, trained, "full")
    assert routes(vllm) == [SWAP[0], "unload_lora_adapter", *SWAP[2:]]
    assert vllm.adapters == {}


def test_other_files_than_listed_are_refused_and_vllm_is_left_alone(
    adapter: httpx.Client, vllm: ScriptedVllm, trained: Path
) -> None:
    load(adapter, ORIGIN, "good")
    routes(vllm)
    body = request(trained, "bad")
    body["files"]["config.json"] = "0" * 64
    body["files"]["tokenizer.model"] = "0" * 64
    answer = adapter.post("/reef/load", json=body)
    assert answer.status_code == 422
    assert {(each["code"], each["where"]) for each in answer.json()["reasons"]} == {
        ("digest-mismatch", "config.json"),
        ("file-missing", "tokenizer.model"),
    }
    body["files"] = {"../secret": "0" * 64}
    assert adapter.post("/reef/load", json=body).status_code == 400
    assert (
        adapter.post("/reef/load", json=request(trained) | {"directory": "/no"}).status_code == 400
    )
    assert routes(vllm) == []
    assert adapter.get("/health").json()["release_id"] == "good"


def other_tokenizer(release: Path) -> None:
    (release / "chat_template.jinja").write_text("{{ messages }}")


def other_shape(release: Path) -> None:
    tensors = load_file(release / "model.safetensors")
    tensors["model.norm.weight"] = tensors["model.norm.weight"][:32]
    save_file(tensors, release / "model.safetensors", metadata={"format": "pt"})


def other_configuration(release: Path) -> None:
    config = json.loads((release / "config.json").read_text())
    config["rope_parameters"]["rope_theta"] = 1.0
    (release / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("change", [other_tokenizer, other_shape, other_configuration])
def test_a_release_that_needs_more_than_other_weights_is_refused(
    change: Callable[[Path], None], adapter: httpx.Client, vllm: ScriptedVllm, trained: Path
) -> None:
    change(trained)
    answer = load(adapter, trained)
    assert answer.status_code == 422
    assert [reason["code"] for reason in answer.json()["reasons"]] == ["other-form"]
    assert vllm.calls == []


def test_who_wrote_a_configuration_makes_no_difference(
    adapter: httpx.Client, trained: Path
) -> None:
    config = json.loads((trained / "config.json").read_text())
    (trained / "config.json").write_text(json.dumps(config | {"transformers_version": "6.0"}))
    assert load(adapter, trained).status_code == 200


def test_an_adapter_with_a_tokenizer_of_its_own_is_refused(
    adapter: httpx.Client, lora: Path
) -> None:
    shutil.copy(ORIGIN / "tokenizer.json", lora)
    assert load(adapter, lora, "a", ORIGIN).status_code == 200
    (lora / "tokenizer.json").write_text("{}")
    answer = load(adapter, lora, "a", ORIGIN)
    assert [reason["where"] for reason in answer.json()["reasons"]] == ["tokenizer.json"]
    (lora / "adapter_model.safetensors").unlink()
    answer = load(adapter, lora, "a", ORIGIN)
    assert [reason["code"] for reason in answer.json()["reasons"]] == ["file-missing"]


def test_a_vllm_that_was_started_otherwise_is_refused(
    adapter: httpx.Client, vllm: ScriptedVllm, lora: Path
) -> None:
    vllm.lora = False
    answer = load(adapter, lora, "a", ORIGIN).json()
    assert [each["message"] for each in answer["reasons"]] == ["vLLM runs without --enable-lora"]
    vllm.logprobs_mode = "raw_logprobs"
    [reason] = load(adapter, ORIGIN).json()["reasons"]
    assert reason["message"] == "--logprobs-mode must be processed_logprobs"
    vllm.logprobs_mode, vllm.directory = "processed_logprobs", ORIGIN
    answer = load(adapter, ORIGIN).json()
    assert {each["where"] for each in answer["reasons"]} == {"config.json", "lm_head.weight"}
    vllm.directory = Path("/nowhere")
    answer = load(adapter, ORIGIN).json()
    assert "cannot be read" in answer["detail"]
    assert vllm.calls == []


@pytest.mark.parametrize("step", ["pause", "collective_rpc", "reset_prefix_cache", "resume"])
def test_a_swap_that_fails_leaves_nothing_served_until_one_succeeds(
    step: str, adapter: httpx.Client, vllm: ScriptedVllm, trained: Path
) -> None:
    load(adapter, ORIGIN, "good")
    vllm.failing = step
    answer = load(adapter, trained, "better")
    assert (answer.status_code, answer.json()["title"]) == (503, "Temporarily unavailable")
    assert adapter.get("/health").json()["loaded"] is False
    assert adapter.post("/v1/chat/completions", json=ASKED).status_code == 503
    assert load(adapter, ORIGIN, "good").status_code == 200
    assert not vllm.paused
    assert adapter.post("/v1/chat/completions", json=ASKED).json()["system_fingerprint"] == "good"


def test_a_vllm_that_was_restarted_serves_nothing_until_the_next_load(
    adapter: httpx.Client, vllm: ScriptedVllm, trained: Path, lora: Path
) -> None:
    load(adapter, trained, "good")
    vllm.restart()
    assert adapter.post("/v1/chat/completions", json=ASKED).status_code == 503
    assert adapter.get("/health").json()["loaded"] is False
    # With the foundation's weights gone as well, an adapter on it needs them read again.
    load(adapter, lora, "adapter", trained)
    vllm.restart()
    routes(vllm)
    load(adapter, lora, "adapter", trained)
    assert "collective_rpc" in routes(vllm)


def test_without_vllm_the_adapter_says_so(tmp_path: Path) -> None:
    with adapting("http://127.0.0.1:9", tmp_path / "work") as adapter:
        for answer in (adapter.get("/health"), load(adapter, ORIGIN)):
            assert answer.status_code == 503
            assert "vLLM did not answer" in answer.json()["detail"]


def test_a_swap_waits_for_the_reply_that_is_running(
    adapter: httpx.Client, vllm: ScriptedVllm, trained: Path
) -> None:
    load(adapter, ORIGIN, "old")
    routes(vllm)
    vllm.go.clear()
    swap = threading.Thread(target=load, args=(adapter, trained, "new"))
    with adapter.stream("POST", "/v1/chat/completions", json=ASKED | {"stream": True}) as stream:
        lines = stream.iter_lines()
        first = next(lines)
        swap.start()
        swap.join(0.2)
        assert routes(vllm) == []
        vllm.go.set()
        rest = [line for line in lines if line]
    swap.join()
    assert rest[-1] == "data: [DONE]"
    chunks = [json.loads(line.removeprefix("data: ")) for line in [first, *rest[:-1]]]
    assert {chunk["system_fingerprint"] for chunk in chunks} == {"old"}
    assert routes(vllm) == SWAP
    assert adapter.get("/health").json()["release_id"] == "new"


def test_a_swap_that_requests_hold_up_for_too_long_is_given_up(
    upstream: str, vllm: ScriptedVllm, trained: Path, tmp_path: Path
) -> None:
    with adapting(upstream, tmp_path / "work", drain_s=0.1) as adapter:
        load(adapter, ORIGIN, "old")
        routes(vllm)
        vllm.go.clear()
        asked = ASKED | {"stream": True}
        with adapter.stream("POST", "/v1/chat/completions", json=asked) as stream:
            answer = load(adapter, trained, "new")
            vllm.go.set()
            assert "data: [DONE]" in list(stream.iter_lines())
        assert (answer.status_code, routes(vllm)) == (503, [])
        assert "1 requests still run" in answer.json()["detail"]
        assert adapter.get("/health").json()["release_id"] == "old"
        assert load(adapter, trained, "new").status_code == 200


def test_the_node_drives_it_like_any_engine(
    adapter: httpx.Client, vllm: ScriptedVllm, trained: Path
) -> None:
    node = NodeEngine(str(adapter.base_url))
    release = OnDisk(directory=trained, release_id="r", files=digests(trained))
    assert node.load(release) == LoadedFiles(release_id="r", files=digests(trained))
    assert node.health() == EngineHealth(loaded=True, release_id="r")
    assert node.score([1, 5], [6, 7]) == [logprob(vllm.weights, token) for token in (6, 7)]
    node.close()


def test_copies_that_a_killed_process_left_are_removed(tmp_path: Path) -> None:
    (tmp_path / "work" / "load-left").mkdir(parents=True)
    (tmp_path / "work" / "other").mkdir()
    VllmEngine(VllmServer("http://127.0.0.1:9"), tmp_path / "work")
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["other"]
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="cannot be used"):
        VllmEngine(VllmServer("http://127.0.0.1:9"), tmp_path / "file")
