"""What a look-up found: a turn, or the reason why there is none."""

from __future__ import annotations

import msgspec

from reef_release.domain.correlation.turn import Turn

__all__ = ["Found"]


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A turn and how it was found, or the reason why there is none.

    `alone`: nothing but the order of calls under a tag speaks for it.
    """

    turn: Turn | None = None
    exact: bool = False
    echoed: bool = False
    alone: bool = False
    reason: str = ""
