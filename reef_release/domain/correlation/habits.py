"""What a client has shown of its habits, in calls that echo a reply.

Habits bind nothing; they say which evidence can be trusted when two turns fit.
"""

from __future__ import annotations

from reef_release.domain.correlation.fit import Fit

__all__ = ["Habits"]

_SLIDING_SHARE = 20
_MOVING_SHARE = 4
_FIXED_SHARE = 9
_CHANGED_SHARE = 20


class Habits:
    """Counts of calls by how they continue."""

    def __init__(self) -> None:
        self._entire = 0
        self._windows = 0
        self._prompts = [0, 0, 0, 0]
        self._tag_kept = 0
        self._tag_changed = 0

    @property
    def sliding(self) -> bool:
        """Whether clients send the end of a conversation as if it were all of it."""
        return self._windows * _SLIDING_SHARE > self._entire

    @property
    def kinship(self) -> int:
        """The kinship of prompts beyond which they say nothing about whose conversation it is.

        3 where prompts stay as they are, 1 where sentences come and go, else 2.
        """
        _, moving, ticking, fixed = self._prompts
        if moving * _MOVING_SHARE > ticking + fixed:
            return 1
        return 3 if fixed >= _FIXED_SHARE * (1 + ticking + moving) else 2

    @property
    def tagging(self) -> bool:
        """Whether a conversation keeps its tag."""
        return 0 < self._tag_kept > self._tag_changed * _CHANGED_SHARE

    def note(self, fit: Fit, tag: str | None) -> None:
        """Learn from a call under *tag* that continues a turn by this evidence."""
        self._entire += fit.exact
        self._windows += fit.whole and not fit.exact
        self._prompts[fit.kin] += 1
        if tag is not None and fit.turn.tag is not None:
            self._tag_kept += fit.same_tag
            self._tag_changed += not fit.same_tag
