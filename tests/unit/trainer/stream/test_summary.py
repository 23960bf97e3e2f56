from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from tests.unit.trainer.stream.test_records import a_session
from trainer.stream.curve import main
from trainer.stream.records import Evaluation, Record, Session
from trainer.stream.summary import reached, rolling, summarise


def sessions(
    accepted: str, *, arm: str = "update", seed: int = 1, releases: str = ""
) -> list[Record]:
    """A session per character: ``#`` accepted, ``.`` not; releases by letter."""
    made: list[Record] = []
    for number, mark in enumerate(accepted, 1):
        session = a_session(number, accepted=mark == "#")
        release = releases[number - 1] if releases else None
        reply = msgspec.structs.replace(session.replies[0], release=release)
        made.append(msgspec.structs.replace(session, arm=arm, seed=seed, replies=[reply]))
    return made


def evaluation(after: int, right: int, *, seed: int = 1) -> Evaluation:
    return Evaluation(
        arm="update",
        seed=seed,
        after=after,
        count=100,
        right=right,
        accepted=0,
        cut=0,
        release=None,
    )


@pytest.mark.parametrize(
    ("accepted", "session"),
    [("", None), ("##", None), ("###", 3), (".##.###", 7), ("##.##.##", None), ("....", None)],
)
def test_three_in_a_row_end_at_the_third(accepted: str, session: int | None) -> None:
    assert reached([mark == "#" for mark in accepted]) == session


def test_a_rolling_share_begins_with_what_there_is() -> None:
    assert rolling([True, False, True, True], 2) == [1.0, 0.5, 0.5, 1.0]


@pytest.mark.parametrize(
    ("runs", "median", "count"),
    [
        (["###...", ".###..", "..###."], 4, 3),
        (["###...", "......", "..###."], 5, 2),
        (["###...", "......", "......"], None, 1),
        (["###...", "......"], None, 1),
        (["###...", ".###.."], 3.5, 2),
    ],
)
def test_never_is_later_than_any_session_in_a_median(
    runs: Sequence[str], median: float | None, count: int
) -> None:
    records = [one for seed, run in enumerate(runs) for one in sessions(run, seed=seed)]
    (arm,) = summarise(records)
    assert (arm.reached_median, arm.reached_count) == (median, count)


def test_a_promotion_is_a_session_with_another_release_than_the_one_before() -> None:
    (arm,) = summarise(sessions("......", releases="aabbca"))
    assert arm.seeds[0].promotions == [3, 5, 6]
    (arm,) = summarise(sessions("......"))
    assert arm.seeds[0].promotions == []


def test_the_kept_share_compares_the_end_with_the_beginning() -> None:
    records = [*sessions("###"), evaluation(0, 80), evaluation(3, 60)]
    records += [*sessions("###", seed=2), evaluation(0, 80, seed=2), evaluation(3, 76, seed=2)]
    (arm,) = summarise(records)
    assert [seed.kept_share for seed in arm.seeds] == pytest.approx([0.75, 0.95])
    assert arm.kept_share_least == pytest.approx(0.75)
    (arm,) = summarise([*sessions("###"), evaluation(0, 0), evaluation(3, 9)])
    assert arm.kept_share_least is None


def test_records_may_come_in_any_order_and_arms_stand_apart() -> None:
    records = [*reversed(sessions("..###")), *sessions("...", arm="control")]
    control, update = summarise(records)
    assert (control.arm, update.arm) == ("control", "update")
    assert (control.reached_median, update.reached_median) == (None, 5)
    assert update.curve(5)[-1] == pytest.approx(0.6)


def test_a_curve_averages_the_seeds_that_got_that_far() -> None:
    (arm,) = summarise([*sessions("##", seed=1), *sessions("..#", seed=2)])
    assert arm.curve(1) == [0.5, 0.5, 1.0]


def written(path: Path, records: Sequence[Record]) -> str:
    path.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
    return str(path)


def test_the_program_prints_and_draws_several_arms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [
        written(tmp_path / "control.jsonl", sessions("....#.", arm="control")),
        written(tmp_path / "update.jsonl", sessions("..####", releases="aabbbb")),
    ]
    png = tmp_path / "curve.png"
    assert main([*files, "--png", str(png)]) == 0
    shown = capsys.readouterr().out
    assert "never" in shown
    assert "../####" in shown
    assert "release changed before" in shown
    assert png.read_bytes().startswith(b"\x89PNG")
    assert main([*files, "--json"]) == 0
    control, update = json.loads(capsys.readouterr().out)
    assert (control["reached_median"], update["reached_median"]) == (None, 5)


@pytest.mark.parametrize("window", ["0", "5"])
def test_the_program_ends_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], window: str
) -> None:
    empty = written(tmp_path / "empty.jsonl", [])
    assert main([empty, "--window", window]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_a_session_says_whether_its_first_and_its_last_reply_were_accepted() -> None:
    session = a_session(1, accepted=False)
    both = msgspec.structs.replace(session, replies=[*session.replies, *a_session(1).replies])
    assert isinstance(both, Session)
    assert (both.accepted_first, both.accepted) == (False, True)
