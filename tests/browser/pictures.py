"""Pictures of the pages for the docs: the first screenful, light and dark, small enough to keep."""

from __future__ import annotations

import io
from collections.abc import Iterable
from itertools import chain, islice
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page

__all__ = ["take_picture"]

_COLOURS = 256


def take_picture(page: Page, directory: Path, name: str) -> None:
    """What a person sees of *page* without scrolling, as `NAME.png`.

    Surfaces, lines and letters have few colours, and these stay as they are; the many shades at
    the edges of letters become the nearest of them.
    """
    shown = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    counted = shown.getcolors(shown.width * shown.height) or []
    often = sorted(counted, key=lambda each: each[0], reverse=True)
    colours: Iterable[tuple[int, int, int]] = (each for _, each in islice(often, _COLOURS))  # type: ignore[misc]
    palette = Image.new("P", (1, 1))
    palette.putpalette(list(chain.from_iterable(colours)))
    few = shown.quantize(palette=palette, dither=Image.Dither.NONE)
    few.save(directory / f"{name}.png", optimize=True)
