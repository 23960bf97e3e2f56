"""Pictures of the pages for the docs: the first screenful, light and dark, small enough to keep."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page

__all__ = ["take_picture"]

_COLOURS = 128


def take_picture(page: Page, directory: Path, name: str) -> None:
    """What a person sees of *page* without scrolling, as `NAME.png`.

    The pages have few colours: with 128 of them nobody sees a difference, but in the size. Colours
    are chosen for how far they reach and not for how often they stand there, so that a thin line
    keeps its own.
    """
    page.evaluate("window.scrollTo(0, 0)")
    shown = Image.open(io.BytesIO(page.screenshot()))
    few = shown.convert("RGB").quantize(
        _COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
    )
    few.save(directory / f"{name}.png", optimize=True)
