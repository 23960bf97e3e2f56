"""The journal on disk: what is there after a crash, what is dropped, and what is set aside."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reef_release.api.proxy import journal
from reef_release.api.proxy.journal import Damaged, Journal, Place
from reef_release.ids import uuid7


@pytest.fixture
def open_journal(tmp_path: Path) -> Iterator[Journal]:
    found = Journal(tmp_path)
    yield found
    found.close()


def left(directory: Path) -> tuple[list[tuple[str, str, bytes]], list[Damaged]]:
    """What a process that starts finds: calls as (id, kind, content), and damaged lines."""
    found = Journal(directory)
    places = list(found.recover())
    calls = [
        (each.call_id, each.kind, found.read(each)) for each in places if isinstance(each, Place)
    ]
    return calls, [each for each in places if isinstance(each, Damaged)]


def under_way(directory: Path) -> list[tuple[str, bytes]]:
    calls, damaged = left(directory)
    assert not damaged
    return [(call_id, content) for call_id, kind, content in calls if kind == "begun"]


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.calls"))


def test_ended_calls_come_in_the_order_of_their_ends_and_then_those_that_did_not_end(
    open_journal: Journal, tmp_path: Path
) -> None:
    one, two, three = (uuid7() for _ in range(3))
    for each in (one, two, three):
        open_journal.write("begun", each, b"begun")
    open_journal.write("ended", three, b"3")
    open_journal.write("ended", one, b'{"1": "\\n"}')
    calls, damaged = left(tmp_path)
    assert calls == [
        (three, "ended", b"3"),
        (one, "ended", b'{"1": "\\n"}'),
        (two, "begun", b"begun"),
    ]
    assert damaged == []


def test_an_unfinished_last_line_was_never_written(open_journal: Journal, tmp_path: Path) -> None:
    one, two = uuid7(), uuid7()
    open_journal.write("ended", one, b"1")
    place = open_journal.write("ended", two, b"2")
    (path,) = segments(tmp_path)
    whole = path.read_bytes()
    for size in range(place.offset, len(whole)):
        path.write_bytes(whole[:size])
        assert left(tmp_path) == ([(one, "ended", b"1")], [])


@pytest.mark.parametrize("at", [0, 9, 15, 50, -2])
def test_a_line_that_was_changed_is_handed_out_wherever_it_stands(
    open_journal: Journal, tmp_path: Path, at: int
) -> None:
    ids = [uuid7() for _ in range(3)]
    places = [open_journal.write("ended", each, b"content") for each in ids]
    (path,) = segments(tmp_path)
    whole = path.read_bytes()
    for number, place in enumerate(places):
        spoilt = bytearray(whole)
        spoilt[place.offset + at % place.size_bytes] ^= 1
        path.write_bytes(spoilt)
        calls, (damaged,) = left(tmp_path)
        assert [each[0] for each in calls] == [each for each in ids if each != ids[number]]
        assert damaged.offset == place.offset
        assert damaged.line == spoilt[place.offset : place.offset + place.size_bytes]
    path.write_bytes(whole)


def test_an_unfinished_line_that_is_not_the_last_is_damaged(
    open_journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_SEGMENT_BYTES", 1)
    one, two = uuid7(), uuid7()
    open_journal.write("ended", one, b"1")
    open_journal.write("ended", two, b"2")
    first, _ = segments(tmp_path)
    first.write_bytes(first.read_bytes()[:-1])
    calls, (damaged,) = left(tmp_path)
    assert [each[0] for each in calls] == [two]
    assert damaged.path == first


def test_what_is_in_the_log_leaves_the_disk_the_oldest_first(
    open_journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_SEGMENT_BYTES", 1)
    ids = [uuid7() for _ in range(3)]
    for each in ids:
        open_journal.write("begun", each, b"b")
    waiting = open_journal.write("ended", ids[0], b"e")
    for each in ids[1:]:
        open_journal.done(open_journal.write("ended", each, b"e"))
    assert len(segments(tmp_path)) == 3  # also those behind the first that waits
    open_journal.done(waiting)
    (last,) = segments(tmp_path)
    assert last.read_bytes() == b""
    assert open_journal.size_bytes == 0


def test_nothing_of_a_call_stays_once_it_is_in_the_log(
    open_journal: Journal, tmp_path: Path
) -> None:
    for _ in range(2):
        call_id = uuid7()
        open_journal.write("begun", call_id, b"secret")
        place = open_journal.write("ended", call_id, b"secret")
        open_journal.sync(place)
        open_journal.done(place)
        (path,) = segments(tmp_path)
        assert path.read_bytes() == b""
    open_journal.sync(place)  # late, and harmless


def test_a_write_that_fails_half_way_leaves_no_trace(
    open_journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, three = (uuid7() for _ in range(3))
    open_journal.write("ended", one, b"1")
    real = os.pwrite
    asked = iter([True, False])

    def pwrite(descriptor: int, data: Any, offset: int) -> int:
        if next(asked):
            return real(descriptor, data[:20], offset)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", pwrite)
        with pytest.raises(OSError, match="No space"):
            open_journal.write("ended", two, b"2" * 100)
    open_journal.write("ended", three, b"3")
    calls, damaged = left(tmp_path)
    assert [each[0] for each in calls] == [one, three]
    assert damaged == []


def test_a_journal_that_holds_nothing_leaves_nothing_behind(tmp_path: Path) -> None:
    empty, full = tmp_path / "empty", tmp_path / "full"
    for directory in (empty, full):
        directory.mkdir()
        found = Journal(directory)
        place = found.write("ended", uuid7(), b"content")
        if directory == empty:
            found.done(place)
        found.close()
    assert segments(empty) == []
    assert len(segments(full)) == 1


def test_lines_synced_together_need_one_sync(
    open_journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [open_journal.write("ended", uuid7(), b"content") for _ in range(3)]
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    for place in places:
        open_journal.sync(place)
    assert len(synced) == 1


def test_a_call_that_does_not_end_keeps_nothing_but_itself(
    open_journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_SEGMENT_BYTES", 10_000)
    first, second = uuid7(), uuid7()
    open_journal.write("begun", first, b"1" * 3000)
    for number in range(200):
        call_id = uuid7()
        open_journal.write("begun", call_id, b"b" * 1000)
        open_journal.done(open_journal.write("ended", call_id, b"e" * 1000))
        if number == 100:
            open_journal.write("begun", second, b"2")
        assert open_journal.size_bytes < 40_000
        assert (first, b"1" * 3000) in under_way(tmp_path)
    assert sorted(under_way(tmp_path)) == sorted([(first, b"1" * 3000), (second, b"2")])
    for each in (first, second):
        open_journal.done(open_journal.write("ended", each, b"e"))
    assert open_journal.size_bytes == 0


def test_calls_that_all_last_are_not_written_anew_for_ever(
    open_journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_SEGMENT_BYTES", 10_000)
    written = 0
    real = os.pwrite

    def pwrite(descriptor: int, data: Any, offset: int) -> int:
        nonlocal written
        written += len(data)
        return real(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", pwrite)
    for _ in range(100):
        open_journal.write("begun", uuid7(), b"b" * 1000)
    lasting = written
    for _ in range(400):
        call_id = uuid7()
        open_journal.done(open_journal.write("ended", call_id, b"e" * 1000))
        assert open_journal.size_bytes < 3 * lasting
    assert written < 3 * 500 * 1100


def test_a_full_disk_leaves_a_call_that_does_not_end_where_it_is(
    open_journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_SEGMENT_BYTES", 1000)
    first, second = uuid7(), uuid7()
    for each in (first, second):
        open_journal.write("begun", each, b"long")
    places = [open_journal.write("ended", uuid7(), b"e" * 1000) for _ in range(3)]
    real = os.pwrite

    def pwrite(descriptor: int, data: Any, offset: int) -> int:
        if second.encode() in bytes(data):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data, offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", pwrite)
        for place in places:
            open_journal.done(place)
        assert sorted(under_way(tmp_path)) == sorted([(first, b"long"), (second, b"long")])
    found = Journal(tmp_path)
    for place in list(found.recover()):
        assert isinstance(place, Place)
        found.done(place)
    found.close()
    assert segments(tmp_path) == []
