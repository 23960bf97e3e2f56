"""The decision between the turns that a call may continue: one of them, or a reason for none."""

from __future__ import annotations

from collections.abc import Sequence

from reef_release.domain.correlation.fit import PLENTY, Fit, plausible
from reef_release.domain.correlation.system import NO_SYSTEM

__all__ = ["choose"]

_RECENT_S = 600.0
_IDLE_S = 3600.0
"""Of two equal openings, one just answered and one left alone for an hour, the first goes on."""


def choose(fits: Sequence[Fit], *, at_s: float, crowded: bool) -> Fit | str:
    """The one fit that stands out, or the reason why none does.

    *crowded* says that more turns are equal than were compared, all of them older.
    """
    if not fits:
        return "unknown-reply"
    own = [each for each in fits if _same_agent(each)]
    if not own:
        return "other-agent"
    alone = len({each.turn.session_id for each in own}) == 1 and not crowded
    good = [each for each in own if plausible(each, alone=alone)]
    if not good:
        return "weak-echo"
    top = max(each.strength for each in good)
    best = [each for each in good if each.strength == top]
    if crowded and not (best[0].ids or best[0].same_tag):
        oldest = min(each.turn.at_s for each in own)
        if at_s - oldest <= _IDLE_S:
            return "ambiguous"
    open_ones = [each for each in best if each.turn.next_call is None]
    if not open_ones and any(each.turn.doubted for each in best):
        return "ambiguous"
    return _newest(open_ones or best, at_s)


def _same_agent(each: Fit) -> bool:
    if each.kin or each.handed_over:
        return True
    # A summary may come as the first system prompt of a conversation that had none.
    return not each.exact and each.turn.system == NO_SYSTEM and each.matched >= PLENTY


def _newest(equal: Sequence[Fit], at_s: float) -> Fit | str:
    newest = max(equal, key=lambda each: each.turn.at_s)
    rivals = [each for each in equal if each.turn.session_id != newest.turn.session_id]
    if not rivals:
        return newest
    recent = at_s - newest.turn.at_s <= _RECENT_S
    idle = all(at_s - each.turn.at_s > _IDLE_S for each in rivals)
    return newest if recent and idle else "ambiguous"
