"""The spool: one directory per process, taken over when its process is gone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reef_release.api.proxy.directories import abandoned, own_directory
from reef_release.api.proxy.spool import Spool
from reef_release.errors import SettingsError
from reef_release.ids import uuid7

pytestmark = pytest.mark.anyio


def left(root: Path) -> list[Path]:
    """The files of processes that are gone, or not."""
    return list(root.glob("process-*/*"))


async def contents(spool: Spool) -> list[bytes]:
    return await spool.read(list(spool.waiting))


def spoil_the_second(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"of", b"if", 2).replace(b"if", b"of", 1))


def why(spool: Spool) -> str:
    (aside,) = spool.set_aside.directory.glob("*.json")
    return str(json.loads(aside.read_text())["why"])


async def test_what_was_not_drained_is_there_for_the_next(tmp_path: Path) -> None:
    one, two, three = (uuid7() for _ in range(3))
    async with Spool.open(tmp_path) as spool:
        await spool.begin(one, b"one begins")
        await spool.begin(two, b"two begins")
        await spool.end(two, b"two ends")
        await spool.begin(three, b"three begins")
        await spool.end(three, b"three ends")
        await spool.settle(spool.window(1, 0))
        assert await contents(spool) == [b"three ends"]
    async with Spool.open(tmp_path) as spool:
        assert [each.call_id for each in spool.waiting] == [two, three, one]
        assert [each.kind for each in spool.waiting] == ["ended", "ended", "begun"]
        await spool.settle(list(spool.waiting))
    assert not left(tmp_path)


async def test_the_spool_of_a_living_process_is_left_alone(tmp_path: Path) -> None:
    async with Spool.open(tmp_path) as one:
        await one.end(uuid7(), b"one's")
        async with Spool.open(tmp_path) as two:
            assert not two.waiting
            await two.take_over()
            assert not two.waiting
        assert await contents(one) == [b"one's"]


async def test_of_two_that_start_one_takes_over(tmp_path: Path) -> None:
    async with Spool.open(tmp_path) as gone:
        await gone.end(uuid7(), b"left")
    async with Spool.open(tmp_path) as one, Spool.open(tmp_path) as two:
        assert [len(one.waiting), len(two.waiting)] == [1, 0]


async def test_a_window_has_a_limit_in_bytes_and_at_least_one_call(tmp_path: Path) -> None:
    async with Spool.open(tmp_path) as spool:
        for _ in range(3):
            await spool.end(uuid7(), b"x" * 1000)
        assert len(spool.window(10, 1)) == 1
        assert len(spool.window(10, 2500)) == 2
        assert len(spool.window(2, 10**6)) == 2
        first, second, third = spool.waiting
        await spool.settle([first, third])
        assert list(spool.waiting) == [second]


async def test_a_damaged_line_is_set_aside_and_the_others_are_taken(tmp_path: Path) -> None:
    ids = [uuid7() for _ in range(3)]
    async with Spool.open(tmp_path) as spool:
        for each in ids:
            await spool.end(each, b'{"of": "a call"}')
    spoil_the_second(*(each for each in left(tmp_path) if each.name != "lock"))
    async with Spool.open(tmp_path) as spool:
        assert [each.call_id for each in spool.waiting] == [ids[0], ids[2]]
        assert spool.set_aside.count == 1
        assert "not what was written" in why(spool)
        await spool.settle(list(spool.waiting))
    assert not left(tmp_path)
    async with Spool.open(tmp_path) as spool:
        assert spool.set_aside.count == 1


def test_a_home_that_cannot_be_written_is_an_error_of_the_settings(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="REEF_HOME"):
        own_directory(tmp_path / "file" / "spool")


def test_a_directory_that_its_holder_has_just_removed_is_no_spool(tmp_path: Path) -> None:
    held = own_directory(tmp_path)
    assert list(abandoned(tmp_path)) == []
    held.release()
    assert list(abandoned(tmp_path)) == []
    (tmp_path / "process-half-removed").mkdir()
    assert list(abandoned(tmp_path)) == []
