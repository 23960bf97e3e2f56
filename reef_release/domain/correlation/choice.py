"""The decision between the turns that a call may continue: one of them, or a reason for none."""

from __future__ import annotations

from collections.abc import Sequence

from reef_release.domain.correlation.fit import PLENTY, Fit, plausible
from reef_release.domain.correlation.system import NO_SYSTEM

__all__ = ["choose"]


def choose(fits: Sequence[Fit], *, crowded: bool, sliding: bool, kinship: int) -> Fit | str:
    """The one fit that stands out, or the reason why none does.

    *crowded* says that more turns are equal than were compared, all of them older. *sliding*:
    clients are known to send windows, so that a transcript may begin in the middle. Prompts
    that are more akin than *kinship* are equal.
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
    best = _best(good, sliding=sliding, kinship=kinship)
    if any(each.looped for each in best):
        return "ambiguous"
    if _rivalled(best[0], own):
        return "ambiguous"
    if crowded and not (best[0].ids or best[0].same_tag):
        return "ambiguous"
    open_ones = [each for each in best if each.turn.open]
    if not open_ones and any(each.turn.doubted for each in best):
        return "ambiguous"
    equal = open_ones or best
    # Who opened last is no likelier to react than who opened alike hours ago and comes back.
    return equal[0] if len(equal) == 1 else "ambiguous"


def _rivalled(best: Fit, own: Sequence[Fit]) -> bool:
    """Whether a turn for which too little speaks is as likely as the best but for a summary."""
    if best.exact or best.ids or best.same_tag:
        return False
    return any(
        each.matched >= best.firm and each.turn.open and each.turn is not best.turn
        for each in own
        if each.turn.session_id != best.turn.session_id and not plausible(each, alone=False)
    )


def _best(good: Sequence[Fit], *, sliding: bool, kinship: int) -> list[Fit]:
    """The strongest ones, equal in everything that decides."""

    def sure(each: Fit) -> tuple[bool, bool, bool]:
        entire = each.whole if sliding else each.exact
        return entire and not each.clash, each.ids, entire

    top = max(map(sure, good))
    best = [each for each in good if sure(each) == top]
    # Messages that may be a summary speak for a turn only so far as they do not outvote others.
    firm = max(each.firm for each in best)
    best = [each for each in best if each.matched >= firm]
    if any(each.same_tag for each in best):
        best = [each for each in best if each.same_tag]
    # A clock that ticks must not decide which of two equal openings goes on, nor a summary in a
    # prompt which of two compacted conversations.
    weight = kinship if all(each.exact for each in best) else 1
    akin = max(min(each.kin, weight) for each in best)
    best = [each for each in best if min(each.kin, weight) == akin]
    # Of two answers to one request the later is continued, unless the words are the earlier's.
    later = {each.turn.session_id for each in best if not each.turn.superseded}
    return [each for each in best if not (each.turn.superseded and each.turn.session_id in later)]


def _same_agent(each: Fit) -> bool:
    if each.kin or each.handed_over:
        return True
    # A summary may come as the first system prompt of a conversation that had none.
    return not each.exact and each.turn.system == NO_SYSTEM and each.matched >= PLENTY
