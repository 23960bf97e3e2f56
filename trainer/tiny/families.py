"""Families of word problems: which numbers, which story, which calculations.

What always holds: a family's steps depend on its numbers alone; names and things only tell the
story. The ``unseen`` families calculate in ways that no other family does.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

__all__ = ["FAMILIES", "HOLDERS", "NAMES", "THINGS", "UNSEEN_FAMILIES", "Family", "Step"]

NAMES = (
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
THINGS = (
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
HOLDERS = (
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


@dataclass(frozen=True, kw_only=True)
class Family:
    """A way to pose a problem; see the fields of ``Problem`` for what it gives."""

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

FAMILIES: dict[str, Family] = {
    "packed_then_sold": Family(
        numbers=_numbers(_DIGIT, _DIGIT, _DIGIT),
        story="{one} packs {0} {holders} with {1} {things} in each and sells {2} {things}. "
        "How many {things} are left?",
        steps=lambda a, b, c: _chain(_times(a, b), (_minus, c)),
    ),
    "packed_and_loose": Family(
        numbers=_numbers(_DIGIT, _DIGIT, _DIGIT),
        story="On a table there are {0} {holders} of {1} {things}, and {2} loose {things}. "
        "How many {things} are there in all?",
        steps=lambda a, b, c: _chain(_times(a, b), (_plus, c)),
    ),
    "found_then_lost": Family(
        numbers=_numbers((5, 30), (2, 15), _DIGIT),
        story="{one} had {0} {things}. {two} brought {1} more, then {one} lost {2}. "
        "How many {things} does {one} have now?",
        steps=lambda a, b, c: _chain(_plus(a, b), (_minus, c)),
    ),
    "used_twice": Family(
        numbers=_numbers((20, 60), _DIGIT, _DIGIT),
        story="{one} starts the day with {0} {things}, uses {1} before lunch and {2} after it. "
        "How many {things} remain?",
        steps=lambda a, b, c: _chain(_minus(a, b), (_minus, c)),
    ),
    "three_days": Family(
        numbers=_numbers((5, 30), (2, 15), _DIGIT),
        story="{one} picks {0} {things} on Monday, {1} on Tuesday and {2} on Friday. "
        "How many {things} does {one} pick in all?",
        steps=lambda a, b, c: _chain(_plus(a, b), (_plus, c)),
    ),
    "two_shelves": Family(
        numbers=_numbers((2, 5), (2, 5), (2, 5), (2, 5)),
        story="{one} fills {0} {holders} with {1} {things} each, and {two} fills {2} {holders} "
        "with {3} {things} each. How many {things} do both have?",
        steps=lambda a, b, c, d: (_times(a, b), _times(c, d), _plus(a * b, c * d)),
    ),
    "price_and_fare": Family(
        numbers=_numbers(_DIGIT, _DIGIT, _DIGIT),
        story="{one} buys {0} {things} for {1} coins each, and the bus home costs {2} coins. "
        "How many coins does {one} spend?",
        steps=lambda a, b, c: _chain(_times(a, b), (_plus, c)),
        unit="coins",
    ),
    "given_to_two": Family(
        numbers=_numbers(_DIGIT, _DIGIT, _DIGIT, _DIGIT),
        story="{one} has {0} {holders} of {1} {things}, gives {2} to {two} and {3} to {three}. "
        "How many {things} does {one} keep?",
        steps=lambda a, b, c, d: _chain(_times(a, b), (_minus, c), (_minus, d)),
    ),
}

UNSEEN_FAMILIES: dict[str, Family] = {
    "more_than_a_friend": Family(
        numbers=_numbers((5, 20), _DIGIT),
        story="{one} collects {0} {things}. {two} collects {1} more than {one}. "
        "How many {things} do they collect together?",
        steps=lambda a, b: (_plus(a, b), _plus(a, a + b)),
    ),
    "fewer_than_a_friend": Family(
        numbers=_numbers((12, 30), _DIGIT),
        story="{one} collects {0} {things}. {two} collects {1} fewer than {one}. "
        "How many {things} do they collect together?",
        steps=lambda a, b: (_minus(a, b), _plus(a, a - b)),
    ),
    "sold_then_brought": Family(
        numbers=_numbers(_DIGIT, _DIGIT, _DIGIT, _DIGIT),
        story="{one} packs {0} {holders} with {1} {things} in each and sells {2} {things}. Then "
        "{two} brought {3} more. How many {things} are there now?",
        steps=lambda a, b, c, d: _chain(_times(a, b), (_minus, c), (_plus, d)),
    ),
}
