"""Generated arithmetic word problems, split by what has to be calculated.

What always holds:

- every number a solver meets, results included, lies in 0..99;
- every problem takes at least two different calculations;
- a problem belongs to exactly one split, decided by a hash of its family and its numbers. Two
  splits therefore never share a calculation inside a family, whatever names and things the
  story is told with, and never a question text;
- the ``unseen`` families occur in no other split. They are for reporting, never for training
  and never for a gate.
"""

from __future__ import annotations

import argparse
import hashlib
import random
from collections.abc import Iterator
from pathlib import Path

import msgspec

from trainer.tiny.families import FAMILIES, HOLDERS, NAMES, THINGS, UNSEEN_FAMILIES, Step

__all__ = [
    "SPLITS",
    "Problem",
    "draw",
    "draw_many",
    "export",
    "split_of",
]

# Shares of the hash space, in hundredths. The gate's share is large enough for a suite of
# several hundred tasks that use every family.
_SHARES = {"warm_start": 60, "stream": 15, "development": 10, "gate": 15}
SPLITS = (*_SHARES, "unseen")


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A question, the calculations that answer it, and the answer."""

    family: str
    numbers: tuple[int, ...]
    question: str
    steps: tuple[Step, ...]
    unit: str
    """What the answer counts, in the plural."""

    @property
    def answer(self) -> int:
        return self.steps[-1].result

    @property
    def id(self) -> str:
        """First 16 hex digits of the question's sha256."""
        return hashlib.sha256(self.question.encode()).hexdigest()[:16]

    @property
    def split(self) -> str:
        return split_of(self.family, self.numbers)


def split_of(family: str, numbers: tuple[int, ...]) -> str:
    """The one split that problems of this family with these numbers belong to."""
    if family in UNSEEN_FAMILIES:
        return "unseen"
    text = f"{family}:{','.join(map(str, numbers))}"
    place = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % 100
    for split, share in _SHARES.items():
        if place < share:
            return split
        place -= share
    raise AssertionError("the shares add up to 100")


def draw(rng: random.Random, split: str) -> Problem:
    """Draw one problem of ``split``; families are equally likely.

    Raises ``ValueError`` when there is no such split.
    """
    if split not in SPLITS:
        raise ValueError(f"no split {split!r}; use one of {', '.join(SPLITS)}")
    families = UNSEEN_FAMILIES if split == "unseen" else FAMILIES
    name = rng.choice(tuple(families))
    family = families[name]
    while True:
        numbers = family.numbers(rng)
        steps = family.steps(*numbers)
        within = all(0 <= step.result <= 99 for step in steps)
        if within and len(set(steps)) == len(steps) and split_of(name, numbers) == split:
            break
    one, two, three = rng.sample(NAMES, 3)
    words = {
        "one": one,
        "two": two,
        "three": three,
        "things": rng.choice(THINGS),
        "holders": rng.choice(HOLDERS),
    }
    return Problem(
        family=name,
        numbers=numbers,
        question=family.story.format(*numbers, **words),
        steps=steps,
        unit=family.unit.format(**words),
    )


def draw_many(split: str, count: int, seed: int) -> list[Problem]:
    """``count`` problems of ``split`` with different questions, the same for the same seed."""
    rng = random.Random(f"{split}/{seed}")  # noqa: S311  # reproducible data, no secret
    found: dict[str, Problem] = {}
    while len(found) < count:
        problem = draw(rng, split)
        found.setdefault(problem.question, problem)
    return list(found.values())


def export(problems: list[Problem]) -> Iterator[bytes]:
    """JSON lines ``{"id", "question", "answer"}``; the answer is a string, as verifiers take it."""
    for problem in problems:
        row = {"id": problem.id, "question": problem.question, "answer": str(problem.answer)}
        yield msgspec.json.encode(row) + b"\n"


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m trainer.tiny.problems", description=__doc__)
    parser.add_argument("--split", choices=SPLITS, required=True)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, help="file of JSON lines to write")
    options = parser.parse_args()
    problems = draw_many(options.split, options.count, options.seed)
    options.out.write_bytes(b"".join(export(problems)))


if __name__ == "__main__":
    _main()
