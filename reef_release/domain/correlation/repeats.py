"""Whether a call repeats a request instead of reacting to a reply.

A request with history that comes again is a retry or asks for another answer: a reaction would
carry the reply. Without history it may also be another user's opening, or, under the tag of a
client that keeps its history at home, the same words said again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from reef_release.domain.correlation.arrival import Arrival
from reef_release.domain.correlation.found import Found
from reef_release.domain.correlation.normal import same_reply
from reef_release.domain.correlation.turn import Turn

__all__ = ["AT_ONCE_S", "find_repeat"]

AT_ONCE_S = 2.0
"""Nobody reads an answer and types the same words again so fast."""
_TYPED_AGAIN = 40
"""People say a few characters again; nobody types more of them twice, a machine sends them."""
_WATCHDOG_S = 120.0
"""A client that heard nothing tries again within this."""

_Repeat = Turn | Literal["ambiguous"] | None


def find_repeat(
    arrival: Arrival, *, same: Sequence[Turn], echoed: Found, callers: Sequence[Turn]
) -> _Repeat:
    """The turn whose request this call repeats, "ambiguous", or None when it is no repeat.

    *same* are turns with an identical request, newest first; *echoed* is the turn whose reply
    this request echoes; *callers* are those whose tool calls it answers as the first.
    """
    call, tag = arrival.call, arrival.tag
    alike = [each for each in same if arrival.may_follow(each)]
    if not alike:
        return None
    own = next((each for each in alike if each.tag == call.tag), None)
    if own is not None and _at_once(arrival, own):
        return own
    if echoed.turn is not None or alike[0].echoed:
        return _with_history(arrival, own or alike[0], echoed)
    if own is None or echoed.reason == "ambiguous":
        return None
    sole = tag is not None and not tag.shared
    if own.reply is None:
        return own if sole or call.at_s - own.at_s <= _WATCHDOG_S else None
    if arrival.request.answered_ids:
        # The same results of the same calls. Some servers give an id again, to a later call.
        return None if any(each.at_s > own.at_s for each in callers) else own
    if tag is None or tag.shared or tag.recent[-1:] != [own]:
        return None
    typed = sum(each.size for each in arrival.request.news)
    if typed > _TYPED_AGAIN or same_reply(own.reply, arrival.reply):
        return own
    return own if arrival.memory.tags.resending(tag) else None


def _at_once(arrival: Arrival, own: Turn) -> bool:
    """Two users may open alike in the same second, but are not often answered alike."""
    if arrival.call.at_s - own.at_s > AT_ONCE_S:
        return False
    if arrival.tag is not None and not arrival.tag.shared:
        return True
    if own.reply is None or arrival.reply is None:
        return True
    return own.reply.whole == arrival.reply.whole


def _with_history(arrival: Arrival, newest: Turn, echoed: Found) -> _Repeat:
    """A twin is another conversation that looks the same so far, and that nobody has continued."""
    twin = echoed.turn
    if twin is None:
        return "ambiguous" if echoed.reason == "ambiguous" else newest
    if twin.next_call is not None or twin.call_id == newest.follows:
        return newest
    tag = arrival.call.tag
    if tag is not None and (twin.tag == tag) != (newest.tag == tag):
        return None if twin.tag == tag else newest
    reacted = newest.next_call is not None or arrival.call.at_s - newest.at_s > _WATCHDOG_S
    return None if reacted else "ambiguous"
