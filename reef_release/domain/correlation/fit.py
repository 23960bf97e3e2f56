"""How well a call continues a turn: the call's transcript laid beside the turn's, end on end.

Nothing is a fit that does not echo the turn's reply. Ids of tool calls decide between equal
echoes only: some servers give the same id to different calls.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from reef_release.domain.correlation.request import Request
from reef_release.domain.correlation.system import kinship
from reef_release.domain.correlation.turn import Turn

__all__ = ["LEAST_ID", "PLENTY", "Fit", "fit", "plausible"]

LEAST_ID = 12
"""Ids shorter than this (call_0) are given out again and again."""
PLENTY = 3
"""So many equal messages in a row, echo included, are no coincidence."""
_LONG_PAIR = 60
_LONG_ECHO = 80
_SHORT_ECHO = 40
_SUMMARY_MESSAGES = 2


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """What speaks for a turn.

    `exact`: the transcript is the turn's, word for word; `whole`: every message of the call has
    its equal in the turn, which may have seen more before them (a window).
    `ids`: tool calls have the same ids, `clash`: both have ids, and none is the same.
    `matched` messages are equal, echo included, of which `run` stand next to each other;
    `altered` ones stand in the right place with other words, `reworded` of them a user's. `dropped`
    ones of the turn are missing in the call; `left` earlier ones of the call have no counterpart
    (a summary, an edit). `size` counts the characters of the matched ones; `firm` those messages
    that cannot be a summary.
    `looped`: the turn's own request ends in these very messages, so that the call may just as well
    repeat or vary that request. `handed_over`: it brings the results of the tools that were
    called, whoever goes on with them.
    """

    turn: Turn
    exact: bool
    whole: bool
    ids: bool
    clash: bool
    matched: int
    run: int
    firm: int
    altered: int
    reworded: int
    dropped: int
    left: int
    size: int
    same_tag: bool
    kin: int
    looped: bool
    handed_over: bool


def fit(turn: Turn, request: Request, *, tag: str | None, sliding: bool) -> Fit | None:
    """How *request* continues *turn*; None if it does not echo its reply.

    *sliding*: clients send windows, in which a short exchange that comes again looks the same.
    """
    reply, echo = turn.reply, request.echo
    if reply is None or echo is None or reply.digest != echo.digest:
        return None
    exact = turn.transcript == request.stem
    called = {*echo.ids, *request.answered_ids}
    ids = not called.isdisjoint(reply.ids)
    looped = not exact and turn.stem == request.stem
    if looped and not sliding and not (ids and _long(reply.ids)):
        # The turn's own request carried these messages already, so none of them is its reply.
        return None
    trail = request.trail_before
    along = _aligned(turn, request)
    if exact:
        along = _Alignment(matched=request.last + 1, size=along.size)
        along.run = along.firm = along.matched
    return Fit(
        turn=turn,
        exact=exact,
        whole=exact or (along.matched == request.last + 1 and not along.dropped),
        ids=ids,
        clash=(bool(called and reply.ids) and called.isdisjoint(reply.ids))
        or (exact and bool(trail and turn.trail) and trail != turn.trail),
        matched=along.matched,
        run=along.run,
        firm=along.firm,
        altered=along.altered,
        reworded=along.reworded,
        dropped=along.dropped,
        left=along.left,
        size=along.size,
        same_tag=tag is not None and turn.tag == tag,
        kin=kinship(turn.system, request.system, request.system_text),
        looped=looped and not ids,
        handed_over=exact and any(each.role == "tool" for each in request.news),
    )


class _Alignment(msgspec.Struct, kw_only=True):
    """How far the two transcripts go together, counted backwards from the reply."""

    matched: int = 1
    run: int = 1
    firm: int = 1
    altered: int = 0
    reworded: int = 0
    dropped: int = 0
    left: int = 0
    size: int = 0


def _aligned(turn: Turn, request: Request) -> _Alignment:
    """Walk both backwards from the reply."""
    found = _Alignment(size=request.body[request.last].size)
    here = request.last - 1
    back = 1
    pending = ""
    while here >= 0 and (there := turn.neighbour(back)) is not None:
        role, digest = there
        message = request.body[here]
        if message.digest == digest:
            found.matched += 1
            found.altered += bool(pending)
            found.reworded += pending == "u"
            found.run += found.matched == found.run + 1 and not found.altered
            found.size += message.size
            # Two clients may put the same summary in front, and the same answer to it.
            found.firm += here >= _SUMMARY_MESSAGES or turn.place(back) != here
            pending = ""
            here, back = here - 1, back + 1
        elif role == "t" and message.role != "tool":
            # Clients drop old results of tools, and the calls with them.
            back, found.dropped = back + 1, found.dropped + 1
        elif role == "a" and message.role == "user" and _called_tools(turn, back):
            back, found.dropped = back + 1, found.dropped + 1
        elif back == 1 and role == "u" and turn.neighbour(2) == (message.role[:1], message.digest):
            # What a client adds at the end of each request, and takes out again.
            back += 1
        elif role == message.role[:1] and not pending:
            # Long messages are cut, and what was put round a user's words is taken out again.
            pending = role
            here, back = here - 1, back + 1
        else:
            break
    if turn.length == request.last and not found.dropped:
        found.firm = found.matched  # all of both, and so no summary of something else
    if here < 0 or turn.neighbour(back) is None:
        found.altered += bool(pending)
        found.reworded += pending == "u"
        pending = ""
    # What lies beyond the neighbours that are remembered speaks for nothing and against nothing.
    forgotten = turn.neighbour(back) is None and turn.place(back) >= 0
    found.left = 0 if forgotten else here + 1 + bool(pending)
    return found


def _long(ids: Iterable[str]) -> bool:
    return any(len(each) >= LEAST_ID for each in ids)


def _called_tools(turn: Turn, back: int) -> bool:
    """Whether the assistant message *back* places before the reply was answered by tools."""
    after = turn.neighbour(back - 1)
    return after is not None and after[0] == "t"


def plausible(each: Fit, *, alone: bool) -> bool:
    """Whether so much fits that it cannot well be chance; *alone*: no other reply is equal."""
    reply = each.turn.reply
    if each.exact:
        return True
    open_one = each.turn.open
    if each.ids and reply is not None and _long(reply.ids):
        return open_one or each.left <= _SUMMARY_MESSAGES
    if each.left > _SUMMARY_MESSAGES:
        return False  # more than a summary stands before it that this turn never saw
    if each.matched >= PLENTY:
        if each.run < PLENTY and each.reworded > 1 and not alone:
            return False  # who answers the same questions otherwise is somebody else
        return open_one or not each.clash
    if not open_one:
        return False  # going back to an answered turn is rare; little evidence is none
    if each.matched == 2:
        return each.size >= _LONG_PAIR or not (each.left or each.altered or each.dropped)
    if not alone:
        return False
    if not each.left:
        return each.size >= _SHORT_ECHO
    return each.size >= _LONG_ECHO
