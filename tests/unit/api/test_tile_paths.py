"""Tile paths of c2sp.org/tlog-tiles, and what only looks like one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reef_release.api.tiles import TilePath, parse_tile_path
from reef_release.domain.merkle import TILE_WIDTH
from reef_release.errors import NotFound


@pytest.mark.parametrize(
    ("path", "level", "index", "width"),
    [
        ("0/000", 0, 0, 256),
        ("/0/000/", 0, 0, 256),
        ("3/x001/x234/067", 3, 1_234_067, 256),
        ("0/x123/456.p/7", 0, 123_456, 7),
        ("entries/000.p/255", None, 0, 255),
        ("entries/x001/000", None, 1000, 256),
        ("63/000.p/1", 63, 0, 1),
    ],
)
def test_a_path_names_a_tile(path: str, level: int | None, index: int, width: int) -> None:
    assert parse_tile_path(path) == TilePath(level=level, index=index, width=width)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "0",
        "0/0",
        "0/1000",
        "0/x000/001",
        "0/001/002",
        "0/x001",
        "00/000",
        "64/000",
        "-1/000",
        "0/000.p/0",
        "0/000.p/256",
        "0/000.p/01",
        "0/000.p/",
        "0/000.p",
        "data/000",
        "ENTRIES/000",
        "0/٠٠٠",
        "0/000\n",
        "0/000/../001",
    ],
)
def test_another_path_names_none(path: str) -> None:
    with pytest.raises(NotFound):
        parse_tile_path(path)


@given(index=st.integers(0, 10**9), width=st.integers(1, TILE_WIDTH))
def test_every_index_has_one_spelling(index: int, width: int) -> None:
    digits = f"{index:012}".lstrip("0").rjust(3, "0")
    digits = digits.rjust(-(-len(digits) // 3) * 3, "0")
    groups = [digits[start : start + 3] for start in range(0, len(digits), 3)]
    path = "/".join([*(f"x{group}" for group in groups[:-1]), groups[-1]])
    suffix = "" if width == TILE_WIDTH else f".p/{width}"
    assert parse_tile_path(f"0/{path}{suffix}") == TilePath(level=0, index=index, width=width)
