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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

__all__ = [
    "FAMILIES",
    "SPLITS",
    "UNSEEN_FAMILIES",
    "Problem",
    "Step",
    "draw",
    "draw_many",
    "export",
    "split_of",
]

# Shares of the hash space, in hundredths. The gate's share is large enough for a suite of
# several hundred tasks that use every family.
_SHARES = {"warm_start": 60, "stream": 15, "development": 10, "gate": 15}
SPLITS = (*_SHARES, "unseen")

_NAMES = (
    "Ada",
    "Bo",
    "Carla",
    "Dev",
    "Elif",
    "Finn",
    "Gita",
    "Hugo",
    "Ines",
    "Jun",
    "Kofi",
    "Lena",
    "Milo",
    "Nia",
    "Omar",
    "Pia",
    "Quinn",
    "Rosa",
    "Sven",
    "Tara",
    "Umar",
    "Vera",
    "Wim",
    "Yuki",
)
_THINGS = (
    "pencils",
    "stickers",
    "shells",
    "buttons",
    "muffins",
    "tickets",
    "ribbons",
    "pebbles",
    "lemons",
    "badges",
    "candles",
    "stamps",
    "walnuts",
    "feathers",
)
_HOLDERS = (
    "boxes",
    "jars",
    "bags",
    "baskets",
    "crates",
)


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One calculation, ``left operator right = result``."""

    left: int
    operator: str
    """One of ``+``, ``-``, ``*``."""
    right: int

    @property
    def result(self) -> int:
        if self.operator == "+":
            return self.left + self.right
        if self.operator == "-":
            return self.left - self.right
        return self.left * self.right

    @property
    def equation(self) -> str:
        return f"{self.left} {self.operator} {self.right} = {self.result}"


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


@dataclass(frozen=True, kw_only=True)
class _Family:
    numbers: Callable[[random.Random], tuple[int, ...]]
    story: str
    steps: Callable[..., tuple[Step, ...]]
    unit: str = "{things}"


def _plus(left: int, right: int) -> Step:
    return Step(left=left, operator="+", right=right)


def _minus(left: int, right: int) -> Step:
    return Step(left=left, operator="-", right=right)


def _times(left: int, right: int) -> Step:
    return Step(left=left, operator="*", right=right)


def _chain(first: Step, *then: tuple[Callable[[int, int], Step], int]) -> tuple[Step, ...]:
    steps = [first]
    for operation, number in then:
        steps.append(operation(steps[-1].result, number))
    return tuple(steps)


def _numbers(*ranges: tuple[int, int]) -> Callable[[random.Random], tuple[int, ...]]:
    return lambda rng: tuple(rng.randint(low, high) for low, high in ranges)


_DIGIT = (2, 9)

FAMILIES: dict[str, _Family] = {
    "packed_then_sold": _Family(
        numbers=_numbers(_DIGIT, _DIGIT, _DIGIT),
        story="{one} packs {0} {holders} with {1} {things} in each and sells {2} {things}. "
        "How many {things} are left?",
        steps=lambda a, b, c: _chain(_times(a, b), (_minus, c)),
    ),
    "packed_and_loose": _Family(
        numbers=_numbers(_DIGIT, _DIGIT, _DIGIT),
        story="On a table there are {0} {holders} of {1} {things}, and {2} loose {things}. "
        "How many {things} are there in all?",
        steps=lambda a, b, c: _chain(_times(a, b), (_plus, c)),
    ),
    "found_then_lost": _Family(
        numbers=_numbers((5, 30), (2, 15), _DIGIT),
        story="{one} had {0} {things}. {two} brought {1} more, then {one} lost {2}. "
        "How many {things} does {one} have now?",
        steps=lambda a, b, c: _chain(_plus(a, b), (_minus, c)),
    ),
    "used_twice": _Family(
        numbers=_numbers((20, 60), _DIGIT, _DIGIT),
        story="{one} starts the day with {0} {things}, uses {1} before lunch and {2} after it. "
        "How many {things} remain?",
        steps=lambda a, b, c: _chain(_minus(a, b), (_minus, c)),
    ),
    "three_days": _Family(
        numbers=_numbers((5, 30), (2, 15), _DIGIT),
        story="{one} picks {0} {things} on Monday, {1} on Tuesday and {2} on Friday. "
        "How many {things} does {one} pick in all?",
        steps=lambda a, b, c: _chain(_plus(a, b), (_plus, c)),
    ),
    "two_shelves": _Family(
        numbers=_numbers((2, 5), (2, 5), (2, 5), (2, 5)),
        story="{one} fills {0} {holders} with {1} {things} each, and {two} fills {2} {holders} "
        "with {3} {things} each. How many {things} do both have?",
        steps=lambda a, b, c, d: (_times(a, b), _times(c, d), _plus(a * b, c * d)),
    ),
    "price_and_fare": _Family(
        numbers=_numbers(_DIGIT, _DIGIT, _DIGIT),
        story="{one} buys {0} {things} for {1} coins each, and the bus home costs {2} coins. "
        "How many coins does {one} spend?",
        steps=lambda a, b, c: _chain(_times(a, b), (_plus, c)),
        unit="coins",
    ),
    "given_to_two": _Family(
        numbers=_numbers(_DIGIT, _DIGIT, _DIGIT, _DIGIT),
        story="{one} has {0} {holders} of {1} {things}, gives {2} to {two} and {3} to {three}. "
        "How many {things} does {one} keep?",
        steps=lambda a, b, c, d: _chain(_times(a, b), (_minus, c), (_minus, d)),
    ),
}

UNSEEN_FAMILIES: dict[str, _Family] = {
    "more_than_a_friend": _Family(
        numbers=_numbers((5, 20), _DIGIT),
        story="{one} collects {0} {things}. {two} collects {1} more than {one}. "
        "How many {things} do they collect together?",
        steps=lambda a, b: (_plus(a, b), _plus(a, a + b)),
    ),
    "fewer_than_a_friend": _Family(
        numbers=_numbers((12, 30), _DIGIT),
        story="{one} collects {0} {things}. {two} collects {1} fewer than {one}. "
        "How many {things} do they collect together?",
        steps=lambda a, b: (_minus(a, b), _plus(a, a - b)),
    ),
    "sold_then_brought": _Family(
        numbers=_numbers(_DIGIT, _DIGIT, _DIGIT, _DIGIT),
        story="{one} packs {0} {holders} with {1} {things} in each and sells {2} {things}. Then "
        "{two} brought {3} more. How many {things} are there now?",
        steps=lambda a, b, c, d: _chain(_times(a, b), (_minus, c), (_plus, d)),
    ),
}


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
    one, two, three = rng.sample(_NAMES, 3)
    words = {
        "one": one,
        "two": two,
        "three": three,
        "things": rng.choice(_THINGS),
        "holders": rng.choice(_HOLDERS),
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
