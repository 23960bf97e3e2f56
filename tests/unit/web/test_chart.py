"""A chart stays in its frame, keeps gaps, and has round numbers on its axes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reef_release.web.chart import HEIGHT, WIDTH, Series, chart, nice_ticks

VALUES = st.none() | st.floats(-1e9, 1e9)


@given(st.lists(VALUES, max_size=20))
def test_every_point_stands_in_the_frame(values: list[float | None]) -> None:
    made = chart("t", "x", list(range(len(values))), [Series(name="a", values=tuple(values))])
    numbers = [
        part.strip("ML").split() for part in made.lines[0].path.replace("L", "|L").split("|")
    ]
    flat = " ".join(" ".join(each) for each in numbers).replace("M", " ").split()
    for x, y in zip(flat[::2], flat[1::2], strict=True):
        assert 0 <= float(x) <= WIDTH
        assert 0 <= float(y) <= HEIGHT
    for tick in made.y_ticks:
        assert 0 <= tick.at <= HEIGHT


def test_a_gap_in_the_values_is_a_gap_in_the_line() -> None:
    made = chart("t", "x", [1, 2, 3, 4], [Series(name="a", values=(1.0, 2.0, None, 1.0))])
    assert made.lines[0].path.count("M") == 2
    assert len(made.lines[0].dots) == 1


def test_marks_stand_where_they_happened() -> None:
    made = chart(
        "t", "x", [0, 10], [Series(name="a", values=(0.0, 1.0))], marks=[(5, "m", 7, "rollback")]
    )
    assert made.marks[0].x == (made.left + made.right) / 2
    assert made.data["marks"] == [{"place": 5, "label": "m", "kind": "rollback"}]


def test_ticks_are_round_and_cover_the_range() -> None:
    assert nice_ticks(0.0, 1.0, 4) == [0.0, 0.5, 1.0]
    assert nice_ticks(0.03, 0.19, 4) == [0.0, 0.05, 0.1, 0.15, 0.2]
    assert nice_ticks(3, 3, 4) == [3]
