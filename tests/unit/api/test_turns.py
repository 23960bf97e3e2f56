"""Turns: first come, first served, and nothing is kept of whoever has gone."""

from __future__ import annotations

import asyncio
import gc

import anyio
import anyio.lowlevel
import pytest

from reef_release.api.turns import Turns
from reef_release.errors import QueueFull

pytestmark = pytest.mark.anyio


def soon() -> float:
    return asyncio.get_running_loop().time() + 30


async def test_turns_come_in_the_order_of_asking() -> None:
    turns: Turns[str] = Turns()
    seen: list[int] = []

    async def ask(number: int) -> None:
        async with turns.take("a", soon()):
            seen.append(number)
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(ask, number)
            await anyio.lowlevel.checkpoint()
    assert seen == list(range(20))


async def test_another_key_waits_for_nobody() -> None:
    turns: Turns[str] = Turns()
    async with turns.take("a", soon()), turns.take("b", soon()):
        pass


async def test_whoever_waits_too_long_is_told_and_the_next_one_still_comes() -> None:
    turns: Turns[str] = Turns()
    async with turns.take("a", soon()):
        with pytest.raises(QueueFull):
            async with turns.take("a", asyncio.get_running_loop().time()):
                raise AssertionError("two hold it")
    async with turns.take("a", soon()):
        pass


async def test_whoever_is_cancelled_waiting_or_holding_lets_the_next_one_in() -> None:
    turns: Turns[str] = Turns()

    async def hold() -> None:
        async with turns.take("a", soon()):
            await anyio.sleep_forever()

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(hold)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    async with turns.take("a", soon()):
        pass


async def test_no_name_that_was_asked_for_stays() -> None:
    turns: Turns[str] = Turns()
    for number in range(50):
        async with turns.take(f"name {number}", soon()):
            pass
    gc.collect()
    assert len(turns._locks) == 0
