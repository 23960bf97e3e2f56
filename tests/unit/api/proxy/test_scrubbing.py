"""Erased calls leave no text in a journal, and what is still to be appended stays whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from reef_release.api.proxy import journal
from reef_release.api.proxy.journal import Damaged, Journal, Place
from reef_release.api.proxy.set_aside import SetAside
from reef_release.ids import uuid7

SECRET = b'{"said":"my name is Ada"}'


def everything(directory: Path) -> bytes:
    return b"".join(each.read_bytes() for each in directory.glob("*.calls"))


def test_a_logged_call_is_overwritten_and_a_waiting_one_is_not(tmp_path: Path) -> None:
    found = Journal(tmp_path)
    gone, waiting, open_call = uuid7(), uuid7(), uuid7()
    found.write("begun", open_call, b"an open one keeps the segment")
    found.write("begun", gone, SECRET)
    place = found.write("ended", gone, SECRET)
    found.write("ended", waiting, b"still to be appended")
    found.done(place)
    assert SECRET in everything(tmp_path)
    assert found.scrub({gone, waiting, open_call}) == 2
    assert SECRET not in everything(tmp_path)
    left = list(Journal(tmp_path).recover())
    assert [(each.call_id, each.kind) for each in left if isinstance(each, Place)] == [
        (waiting, "ended"),
        (open_call, "begun"),
    ]
    assert not [each for each in left if isinstance(each, Damaged)]
    assert found.scrub({gone}) == 0
    found.close()


def test_a_scrub_that_broke_off_hands_nothing_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Journal(tmp_path)
    gone, open_call = uuid7(), uuid7()
    found.write("begun", open_call, b"x")
    found.done(found.write("ended", gone, SECRET))
    whole = journal._write_all
    with monkeypatch.context() as patch:
        patch.setattr(journal, "_write_all", lambda to, data, at: whole(to, data[:12], at))
        found.scrub({gone})
    assert SECRET in everything(tmp_path)  # the power went in the middle of it
    left = list(Journal(tmp_path).recover())
    assert [each.call_id for each in left if isinstance(each, Place)] == [open_call]
    assert not [each for each in left if isinstance(each, Damaged)]
    found.close()


def test_a_call_that_was_set_aside_is_removed(tmp_path: Path) -> None:
    found = SetAside(tmp_path)
    one, other = uuid7(), uuid7()
    found.keep(one, SECRET, "why")
    found.keep(other, b"{}", "why")
    found.erase({one, uuid7()})
    assert [each.stem for each in found.directory.iterdir()] == [other]
    assert found.count == 1
