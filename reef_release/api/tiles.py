"""Tile paths of c2sp.org/tlog-tiles: `LEVEL/INDEX[.p/WIDTH]` and `entries/INDEX[.p/WIDTH]`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from reef_release.domain.merkle import TILE_WIDTH
from reef_release.errors import NotFound

__all__ = ["TilePath", "parse_tile_path"]

_PATH = re.compile(
    r"(?P<level>entries|0|[1-9]|[1-5][0-9]|6[0-3])"
    r"/(?P<index>(?:x[0-9]{3}/){0,6}[0-9]{3})"
    r"(?:\.p/(?P<width>[1-9][0-9]{0,2}))?"
)


@dataclass(frozen=True, kw_only=True)
class TilePath:
    """`level` None means entry bundles; `width` counts hashes or entries (full: 256)."""

    level: int | None
    index: int
    width: int


def parse_tile_path(path: str) -> TilePath:
    """Parse the part of the path after `tile/`. Raises `NotFound`."""
    match = _PATH.fullmatch(path.strip("/"))
    width = int(match["width"] or TILE_WIDTH) if match else 0
    if match is None or width > TILE_WIDTH or (match["width"] and width == TILE_WIDTH):
        raise NotFound(
            f"{path!r} is no tile.",
            next_step="Write LEVEL/INDEX or entries/INDEX, INDEX as x001/x234/067.",
        )
    digits = match["index"].replace("x", "").replace("/", "")
    groups = match["index"].split("/")
    if len(groups) > 1 and groups[0] == "x000":
        raise NotFound(f"{path!r} is no tile: the index is padded too far.")
    level = None if match["level"] == "entries" else int(match["level"])
    return TilePath(level=level, index=int(digits), width=width)
