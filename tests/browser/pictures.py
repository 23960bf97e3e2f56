"""Pictures of the pages for the docs: the first screenful, light and dark, small enough to keep."""

from __future__ import annotations

import io
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page

__all__ = ["take_picture"]

_COLOURS = 256
_APART = 8
"""Of colours that are closer than this in every channel, only the one seen most often is kept."""

_Colour = tuple[int, int, int]


def take_picture(page: Page, directory: Path, name: str) -> None:
    """What a person sees of *page* without scrolling, as `NAME.png`.

    Surfaces, lines and letters have few colours, and these stay as they are; the many shades at
    the edges of letters become the nearest of them.
    """
    shown = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    counted = shown.getcolors(shown.width * shown.height) or []
    often = sorted(counted, key=lambda each: each[0], reverse=True)
    palette = Image.new("P", (1, 1))
    palette.putpalette(list(chain.from_iterable(_kept(each for _, each in often))))  # type: ignore[misc]
    few = shown.quantize(palette=palette, dither=Image.Dither.NONE)
    few.save(directory / f"{name}.png", optimize=True)


def _kept(colours: Iterable[_Colour]) -> list[_Colour]:
    """The first colours that are far enough from all before them."""
    kept: list[_Colour] = []
    for each in colours:
        near = any(max(abs(a - b) for a, b in zip(each, k, strict=True)) < _APART for k in kept)
        if not near:
            kept.append(each)
        if len(kept) == _COLOURS:
            break
    return kept
