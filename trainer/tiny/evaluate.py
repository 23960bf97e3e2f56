"""How well a tiny model does its homework: ``python -m trainer.tiny.evaluate DIR``.

What always holds: the reading here is for reporting on our own generated replies; it is not the
gate's verifier, and decides nothing. A reply cut by the length limit counts as failed and is
reported apart.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch

from trainer.tiny.model import load_pretrained
from trainer.tiny.phrases import hints, with_hint
from trainer.tiny.problems import SPLITS, Problem, draw_many

__all__ = ["Reading", "Tally", "evaluate", "read_reply"]

_MAX_NEW_TOKENS = 96
_BATCH = 64
_ANSWER = re.compile(r"answer(?: is|:)\W*?(-?\d+)", re.IGNORECASE)
_EQUATION = re.compile(r"(\d+) ([-+*]) (\d+) = (\d+)")
_MARKDOWN = re.compile(r"\*\*|^\s*(?:\d+\.|-) |final answer", re.IGNORECASE | re.MULTILINE)


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What one reply shows."""

    correct: bool
    shown: bool
    """Two or more different right calculations."""
    clean: bool
    """No bold, list or final-answer line."""

    @property
    def passed(self) -> bool:
        return self.correct and self.shown and self.clean


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """Counts over a set of replies."""

    count: int
    correct: int
    shown: int
    clean: int
    passed: int
    cut: int


def read_reply(reply: str, answer: int) -> Reading:
    """Read a reply that was written in one of the styles of ``styles``."""
    found = _ANSWER.findall(reply)
    right = {
        equation
        for equation in _EQUATION.findall(reply)
        if _value(int(equation[0]), equation[1], int(equation[2])) == int(equation[3])
    }
    return Reading(
        correct=bool(found) and int(found[-1]) == answer,
        shown=len(right) >= 2,
        clean=_MARKDOWN.search(reply) is None,
    )


def _value(left: int, operator: str, right: int) -> int:
    return {"+": left + right, "-": left - right, "*": left * right}[operator]


@torch.inference_mode()
def evaluate(
    model: Any,
    tokenizer: Any,
    problems: Sequence[Problem],
    *,
    temperature: float,
    seed: int = 0,
    hinted: bool = False,
) -> Tally:
    """Answer ``problems`` in batches; ``hinted`` adds a style hint the model was not trained on."""
    torch.manual_seed(seed)
    readings: list[Reading] = []
    cut = 0
    style_hints = hints("style", "held_out")
    for start in range(0, len(problems), _BATCH):
        batch = problems[start : start + _BATCH]
        conversations = []
        for place, problem in enumerate(batch, start):
            messages = [{"role": "user", "content": problem.question}]
            if hinted:
                messages = with_hint(messages, style_hints[place % len(style_hints)])
            conversations.append(messages)
        encoded = tokenizer.apply_chat_template(
            conversations,
            add_generation_prompt=True,
            return_dict=True,
            return_tensors="pt",
            padding=True,
        )
        sampling: dict[str, Any] = {"do_sample": False}
        if temperature > 0:
            sampling = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
        output = model.generate(**encoded, max_new_tokens=_MAX_NEW_TOKENS, **sampling)
        replies = output[:, encoded["input_ids"].shape[1] :]
        for problem, ids in zip(batch, replies, strict=True):
            if tokenizer.eos_token_id not in ids:
                cut += 1
                readings.append(Reading(correct=False, shown=False, clean=False))
                continue
            text = tokenizer.decode(ids, skip_special_tokens=True)
            readings.append(read_reply(text, problem.answer))
    return Tally(
        count=len(readings),
        correct=sum(reading.correct for reading in readings),
        shown=sum(reading.shown for reading in readings),
        clean=sum(reading.clean for reading in readings),
        passed=sum(reading.passed for reading in readings),
        cut=cut,
    )


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m trainer.tiny.evaluate", description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--count", type=int, default=512, help="problems per split")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--split", choices=SPLITS, action="append", help="gate and unseen")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model, tokenizer = load_pretrained(options.directory)
    model.eval()
    print("split       T    hint  count  correct  shown  clean  passed  cut")
    for split in options.split or ("gate", "unseen"):
        problems = draw_many(split, options.count, options.seed)
        for temperature in (0.0, 0.7):
            for hinted in (False, True):
                tally = evaluate(
                    model,
                    tokenizer,
                    problems,
                    temperature=temperature,
                    seed=options.seed,
                    hinted=hinted,
                )
                shares = [
                    f"{value / tally.count:6.3f}"
                    for value in (tally.correct, tally.shown, tally.clean, tally.passed)
                ]
                print(
                    f"{split:10} {temperature:3.1f}  {'yes' if hinted else 'no':4} "
                    f"{tally.count:6}   {'  '.join(shares)}  {tally.cut:3}",
                    flush=True,
                )


if __name__ == "__main__":
    _main()
