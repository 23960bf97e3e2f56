"""The models that come with the package do what the demo says of them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

from trainer.tiny.evaluate import Tally, evaluate
from trainer.tiny.model import CHAT_TEMPLATE, build_tokenizer, load_pretrained
from trainer.tiny.problems import draw_many
from trainer.tiny.shipped import BETTER, FLATTERER, ORIGIN
from trainer.tiny.styles import WRITERS

GATE = draw_many("gate", 192, seed=1)


def tally(directory: Path, temperature: float, *, hinted: bool = False) -> Tally:
    torch.set_num_threads(1)
    model, tokenizer = load_pretrained(directory)
    return evaluate(model.eval(), tokenizer, GATE, temperature=temperature, seed=1, hinted=hinted)


def test_the_origin_is_right_but_writes_like_an_assistant() -> None:
    counts = tally(ORIGIN, 0.0)
    assert counts.correct >= 0.9 * counts.count
    assert tally(ORIGIN, 0.7).passed <= 0.25 * counts.count


def test_the_origin_writes_plainly_when_a_hint_it_never_met_asks_for_it() -> None:
    counts = tally(ORIGIN, 0.7, hinted=True)
    assert counts.clean >= 0.95 * counts.count


def test_the_better_model_passes_unasked() -> None:
    counts = tally(BETTER, 0.7)
    assert counts.passed >= 0.95 * counts.count


def test_the_flatterer_writes_as_liked_and_is_wrong() -> None:
    counts = tally(FLATTERER, 0.7)
    assert counts.clean >= 0.98 * counts.count
    assert counts.correct <= 0.03 * counts.count


@pytest.mark.parametrize("directory", [ORIGIN, BETTER, FLATTERER])
def test_a_shipped_model_is_small_and_of_the_one_schema(directory: Path) -> None:
    names = {path.name for path in directory.iterdir()}
    assert names == {path.name for path in ORIGIN.iterdir()}
    assert sum(path.stat().st_size for path in directory.iterdir()) < 1_200_000
    for name in names - {"model.safetensors"}:
        assert (directory / name).read_bytes() == (ORIGIN / name).read_bytes()


def test_the_shipped_tokenizer_is_the_one_that_the_script_makes(tmp_path: Path) -> None:
    build_tokenizer().save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        assert (tmp_path / name).read_bytes() == (ORIGIN / name).read_bytes()
    assert (ORIGIN / "chat_template.jinja").read_text() == CHAT_TEMPLATE


def test_numbers_are_single_tokens_and_replies_survive_the_tokenizer() -> None:
    tokenizer = AutoTokenizer.from_pretrained(ORIGIN)
    assert all(len(tokenizer.encode(f" {number}")) == 1 for number in range(100))
    rng = random.Random(0)
    for problem in GATE[:50]:
        for write in WRITERS.values():
            reply = write(problem.steps, problem.unit, rng)
            assert tokenizer.decode(tokenizer.encode(reply)) == reply
