from __future__ import annotations

import hashlib
import shutil
import threading
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from reef_release.errors import BadRequest, Refused, Unavailable
from trainer.engines.decoding import Token
from trainer.engines.protocol import Sampling, TimedOut
from trainer.engines.transformers_engine import TransformersEngine
from trainer.tiny.degrade import nan_tensor, tampered
from trainer.tiny.problems import draw_many

QUESTION = draw_many("stream", 1, seed=0)[0].question
WARM = Sampling(temperature=0.7, max_new_tokens=96)
GREEDY = Sampling(temperature=0.0, max_new_tokens=96)


def digests(directory: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in directory.iterdir()
    }


def test_a_greedy_reply_is_the_one_that_transformers_itself_generates(
    engine: TransformersEngine, origin: Path
) -> None:
    model = AutoModelForCausalLM.from_pretrained(origin).eval()
    tokenizer = AutoTokenizer.from_pretrained(origin)
    for problem in draw_many("stream", 5, seed=1):
        reply = engine.generate(problem.question, GREEDY, 0)
        inputs = torch.tensor([reply.prompt_token_ids])
        expected = model.generate(inputs, do_sample=False, max_new_tokens=96)[0, inputs.shape[1] :]
        assert reply.token_ids == tuple(expected.tolist())
        assert reply.text == tokenizer.decode(expected, skip_special_tokens=True)
        assert reply.finish_reason == "stop"


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.3])
def test_scoring_a_reply_gives_the_logprobs_it_was_sampled_with(
    engine: TransformersEngine, temperature: float
) -> None:
    sampling = Sampling(temperature=temperature, max_new_tokens=96)
    for seed in range(4):
        reply = engine.generate(QUESTION, sampling, seed)
        scores = engine.score(reply.prompt_token_ids, reply.token_ids, temperature)
        assert len(reply.logprobs) == len(reply.token_ids)
        assert scores == pytest.approx(list(reply.logprobs), abs=1e-4)


def test_a_reply_is_a_function_of_prompt_and_seed_whatever_was_asked_between(
    engine: TransformersEngine,
) -> None:
    first = engine.generate(QUESTION, WARM, 7)
    others = {engine.generate(QUESTION, WARM, seed).text for seed in range(20)}
    assert engine.generate(QUESTION, WARM, 7) == first
    assert len(others) > 1


def test_sampled_tokens_follow_the_distribution_of_the_temperature(
    engine: TransformersEngine,
) -> None:
    one = Sampling(temperature=1.0, max_new_tokens=1)
    replies = [engine.generate(QUESTION, one, seed) for seed in range(300)]
    likeliest = max(replies, key=lambda reply: reply.logprobs[0])
    share = sum(reply.token_ids == likeliest.token_ids for reply in replies) / len(replies)
    probability = float(torch.tensor(likeliest.logprobs[0]).exp())
    assert share == pytest.approx(probability, abs=4 * (0.25 / 300) ** 0.5)


def test_a_reply_that_a_limit_cuts_says_length(engine: TransformersEngine) -> None:
    reply = engine.generate(QUESTION, Sampling(temperature=0.7, max_new_tokens=3), 1)
    assert (reply.finish_reason, len(reply.token_ids)) == ("length", 3)


def test_streamed_text_adds_up_to_the_reply(engine: TransformersEngine) -> None:
    events = list(engine.stream(QUESTION, WARM, 3))
    text = "".join(event.text for event in events if isinstance(event, Token))
    assert text == engine.generate(QUESTION, WARM, 3).text


def test_a_string_is_one_user_message(engine: TransformersEngine) -> None:
    messages = [{"role": "user", "content": QUESTION}]
    assert engine.generate(messages, WARM, 1) == engine.generate(QUESTION, WARM, 1)


def test_what_was_loaded_is_reported_by_digest(engine: TransformersEngine, origin: Path) -> None:
    assert engine.loaded == digests(origin)


def test_overwriting_the_files_changes_nothing_that_was_loaded(
    origin: Path, better: Path, tmp_path: Path
) -> None:
    served = tmp_path / "served"
    shutil.copytree(origin, served)
    engine = TransformersEngine()
    engine.load(served)
    before = engine.generate(QUESTION, WARM, 1)
    for path in better.iterdir():
        # In place, as no replacing write would: the bytes of the same inode change.
        with (served / path.name).open("r+b") as file:
            file.write(path.read_bytes())
    assert engine.generate(QUESTION, WARM, 1) == before
    assert engine.loaded == digests(origin)


def test_expected_digests_are_checked_against_the_bytes_that_were_read(
    origin: Path, tmp_path: Path
) -> None:
    altered = tmp_path / "altered"
    tampered(origin, altered)
    engine = TransformersEngine()
    engine.load(origin, digests(origin))
    with pytest.raises(Refused) as refused:
        engine.load(altered, digests(origin) | {"extra.json": "0" * 64})
    assert {(reason.code, reason.where) for reason in refused.value.reasons} == {
        ("digest-mismatch", "model.safetensors"),
        ("file-missing", "extra.json"),
    }
    assert engine.loaded == digests(origin)


def test_a_file_that_is_not_listed_has_no_effect(origin: Path, tmp_path: Path) -> None:
    served = tmp_path / "served"
    shutil.copytree(origin, served)
    save_file({"lm_head.weight": torch.zeros(768, 64)}, served / "zz.safetensors")
    engine = TransformersEngine()
    assert engine.load(served, digests(origin)) == digests(origin)


def test_a_listed_path_that_leads_out_of_the_directory_is_refused(origin: Path) -> None:
    for path in ("../origin/config.json", "/etc/hostname", ""):
        with pytest.raises(BadRequest):
            TransformersEngine().load(origin, {path: "0" * 64})


@pytest.mark.parametrize("attack", ["missing", "unexpected", "shape", "header", "config"])
def test_files_that_make_no_model_are_refused_and_the_old_weights_stay(
    attack: str, origin: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(origin, broken)
    weights = broken / "model.safetensors"
    tensors = load_file(weights)
    if attack == "missing":
        del tensors["model.layers.1.mlp.down_proj.weight"]
    elif attack == "unexpected":
        tensors["model.layers.9.mlp.down_proj.weight"] = torch.zeros(64, 192)
    elif attack == "shape":
        tensors["model.layers.1.mlp.down_proj.weight"] = torch.zeros(64, 191)
    save_file(tensors, weights, metadata={"format": "pt"})
    if attack == "header":
        weights.write_bytes(b"\xff" * 100)
    elif attack == "config":
        (broken / "config.json").write_text("{")
    engine = TransformersEngine()
    engine.load(origin)
    before = engine.generate(QUESTION, WARM, 1)
    with pytest.raises(Refused, match="was not loaded"):
        engine.load(broken)
    assert engine.generate(QUESTION, WARM, 1) == before


def test_a_swap_and_a_swap_back_equal_a_fresh_engine(origin: Path, better: Path) -> None:
    cold = TransformersEngine()
    cold.load(better)
    engine = TransformersEngine()
    engine.load(origin, release_id="a")
    first = engine.generate(QUESTION, WARM, 5)
    engine.load(better, release_id="b")
    assert engine.generate(QUESTION, WARM, 5) == cold.generate(QUESTION, WARM, 5) != first
    assert engine.release_id == "b"
    engine.load(origin)
    assert engine.generate(QUESTION, WARM, 5) == first


def test_the_output_head_stays_tied_after_a_swap(better: Path, engine: TransformersEngine) -> None:
    engine.load(better)
    stock = AutoModelForCausalLM.from_pretrained(better).eval()
    ids = list(engine.generate(QUESTION, WARM, 1).prompt_token_ids)
    with torch.inference_mode():
        logits = stock(torch.tensor([ids])).logits[0]
    expected = torch.log_softmax(logits.double(), -1)
    scores = engine.score(ids[:1], ids[1:], 1.0)
    wanted = [float(expected[place, token]) for place, token in enumerate(ids[1:])]
    assert scores == pytest.approx(wanted, abs=1e-5)


def test_an_untied_export_gives_the_same_replies(
    origin: Path, tmp_path: Path, engine: TransformersEngine
) -> None:
    untied = tmp_path / "untied"
    shutil.copytree(origin, untied)
    tensors = load_file(origin / "model.safetensors")
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    save_file(tensors, untied / "model.safetensors", metadata={"format": "pt"})
    config = (untied / "config.json").read_text()
    changed = config.replace('"tie_word_embeddings": true', '"tie_word_embeddings": false')
    (untied / "config.json").write_text(changed)
    before = engine.generate(QUESTION, WARM, 1)
    engine.load(untied)
    assert engine.generate(QUESTION, WARM, 1) == before


def test_a_swap_waits_for_the_reply_that_is_running(
    engine: TransformersEngine, origin: Path, better: Path
) -> None:
    expected = engine.generate(QUESTION, WARM, 2)
    stream = engine.stream(QUESTION, WARM, 2)
    next(stream)
    swap = threading.Thread(target=engine.load, args=(better,))
    swap.start()
    tokens = [event.token_id for event in stream if isinstance(event, Token)]
    swap.join()
    assert tuple(tokens) == expected.token_ids
    assert engine.loaded == digests(better)


def test_weights_that_give_nan_are_refused_at_the_first_token(
    origin: Path, tmp_path: Path, engine: TransformersEngine
) -> None:
    nan_tensor(origin, tmp_path / "nan")
    engine.load(tmp_path / "nan")
    with pytest.raises(Refused, match="not finite"):
        engine.generate(QUESTION, WARM, 1)
    with pytest.raises(Refused, match="not finite"):
        engine.score([1, 5], [6, 7], 1.0)


def test_an_engine_without_a_model_is_unavailable() -> None:
    with pytest.raises(Unavailable):
        TransformersEngine().generate(QUESTION, WARM, 1)


def test_what_no_engine_can_follow_is_refused(engine: TransformersEngine) -> None:
    for temperature in (-0.1, float("nan"), float("inf")):
        with pytest.raises(BadRequest):
            Sampling(temperature=temperature)
    with pytest.raises(BadRequest):
        Sampling(max_new_tokens=0)
    with pytest.raises(BadRequest, match="seed"):
        engine.generate(QUESTION, WARM, -1)
    with pytest.raises(BadRequest, match="fit"):
        engine.generate(QUESTION, Sampling(max_new_tokens=1024), 1)
    with pytest.raises(BadRequest, match="messages"):
        engine.generate([], WARM, 1)
    with pytest.raises(BadRequest, match="outside"):
        engine.score([1], [768], 1.0)
    with pytest.raises(BadRequest, match="empty"):
        engine.score([1], [], 1.0)


def test_a_reply_that_takes_too_long_is_given_up_and_the_next_is_not(
    engine: TransformersEngine,
) -> None:
    expected = engine.generate(QUESTION, WARM, 1)
    with pytest.raises(TimedOut, match=r"had 1 tokens after 0\.0 seconds"):
        engine.generate(QUESTION, WARM, 1, timeout_s=0.0)
    assert engine.generate(QUESTION, WARM, 1, timeout_s=600.0) == expected
