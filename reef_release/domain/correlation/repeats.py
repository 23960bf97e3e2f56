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
_GREETING = 12
"""What is no longer may be anybody's first word."""
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
    habits = arrival.memory.habits
    alike = [
        each
        for each in same
        if each.at_s <= call.at_s
        and arrival.kinship(each) >= habits.kinship
        and not (habits.tagging and tag is not None and each.tag not in (None, tag.name))
    ]
    if not alike:
        return None
    own = next((each for each in alike if each.tag == call.tag), None)
    if own is not None and call.at_s - own.at_s <= AT_ONCE_S:
        at_once = _at_once(arrival, own, alike, echoed)
        if at_once is not None:
            return at_once
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
    if _typed(arrival) > _TYPED_AGAIN:
        return own
    if same_reply(own.reply, arrival.reply):
        # "OK" gets the same few words again; a longer answer does not come twice by itself.
        return own if own.reply.size > _TYPED_AGAIN or own.reply.calls else "ambiguous"
    return own if arrival.memory.tags.resending(tag) else None


def _typed(arrival: Arrival) -> int:
    return sum(each.size for each in arrival.request.news)


def _at_once(arrival: Arrival, own: Turn, alike: Sequence[Turn], echoed: Found) -> _Repeat:
    """Two users may open alike in the same second, but are not often answered alike."""
    if arrival.tag is not None and not arrival.tag.shared:
        return own
    if own.reply is not None and arrival.reply is not None:
        if own.reply.whole != arrival.reply.whole:
            return None
        if arrival.request.last < 0 and _typed(arrival) <= _GREETING:
            return "ambiguous"  # many people open like that, and are greeted alike
    if echoed.turn is None and echoed.reason == "ambiguous":
        return "ambiguous"
    if echoed.turn is not None and echoed.turn.open and echoed.turn.call_id != own.follows:
        return None  # another conversation that looks the same so far
    if arrival.request.last < 0 and len({each.session_id for each in alike}) > 1:
        return None  # so many people open like this that it may be another one
    return own


def _with_history(arrival: Arrival, newest: Turn, echoed: Found) -> _Repeat:
    """A twin is another conversation that looks the same so far, and that nobody has continued."""
    twin = echoed.turn
    if twin is None:
        return "ambiguous" if echoed.reason == "ambiguous" else newest
    if twin is newest:
        return "ambiguous"
    if not twin.open or twin.call_id == newest.follows:
        return newest
    tag = arrival.call.tag
    if tag is not None and (twin.tag == tag) != (newest.tag == tag):
        return None if twin.tag == tag else newest
    reacted = newest.next_call is not None or arrival.call.at_s - newest.at_s > _WATCHDOG_S
    return None if reacted else "ambiguous"
