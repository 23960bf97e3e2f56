"""The one error of the drill."""

from __future__ import annotations

from reef_release.errors import ReefError

__all__ = ["GotThrough"]


class GotThrough(ReefError):
    """An attack was not stopped, was stopped by something else, or its harmless twin was."""

    problem, title = "got-through", "The attack got through"
