"""How well a call continues a turn: the call's transcript laid beside the turn's, end on end.

Nothing is a fit that does not echo the turn's reply. Ids of tool calls decide between equal
echoes only: some servers give the same id to different calls.
"""

from __future__ import annotations

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

    `ids`: tool calls have the same ids, `clash`: both have ids, and none is the same.
    `matched` messages are equal, echo included; `altered` ones stand in the right place with
    other words; `left` earlier ones of the call have no counterpart (a summary, an edit).
    `size` counts the characters of the matched ones, `firm` those that cannot be a summary.
    `handed_over`: it brings the results of the tools that were called, whoever goes on with them.
    """

    turn: Turn
    exact: bool
    ids: bool
    clash: bool
    matched: int
    firm: int
    altered: int
    left: int
    size: int
    same_tag: bool
    kin: int
    handed_over: bool

    @property
    def strength(self) -> tuple[bool, bool, int, bool, int]:
        """What decides between two turns; equal strength is no decision."""
        # A clock that ticks between two openings must not decide which of them goes on.
        return self.exact, self.ids, self.firm, self.same_tag, min(self.kin, 2)


def fit(turn: Turn, request: Request, *, tag: str | None) -> Fit | None:
    """How *request* continues *turn*; None if it does not echo its reply."""
    reply, echo = turn.reply, request.echo
    if reply is None or echo is None or reply.digest != echo.digest:
        return None
    exact = turn.transcript == request.stem
    if not exact and turn.stem == request.stem:
        # The turn's own request carried these messages already, so none of them is its reply.
        return None
    called = {*echo.ids, *request.answered_ids}
    matched, firm, altered, left, size = _aligned(turn, request)
    if exact:
        matched = firm = request.last + 1
        altered = left = 0
    return Fit(
        turn=turn,
        exact=exact,
        ids=not called.isdisjoint(reply.ids),
        clash=bool(called and reply.ids) and called.isdisjoint(reply.ids),
        matched=matched,
        firm=firm,
        altered=altered,
        left=left,
        size=size,
        same_tag=tag is not None and turn.tag == tag,
        kin=kinship(turn.system, request.system, request.system_text),
        handed_over=exact and any(each.role == "tool" for each in request.news),
    )


def _aligned(turn: Turn, request: Request) -> tuple[int, int, int, int, int]:
    """Walk both backwards from the reply; (matched, firm, altered, left, size)."""
    matched, altered, size = 1, 0, request.body[request.last].size
    firm = 1
    here = request.last - 1
    back = 1
    pending = 0
    while here >= 0 and (there := turn.neighbour(back)) is not None:
        role, digest = there
        message = request.body[here]
        if message.digest == digest:
            matched, altered, size = matched + 1, altered + pending, size + message.size
            # Two clients may put the same summary in front, and the same answer to it.
            firm += here >= _SUMMARY_MESSAGES or turn.place(back) != here
            pending = 0
            here, back = here - 1, back + 1
        elif role == "t" and message.role != "tool":
            # Clients drop old results of tools, and the calls with them.
            back += 1
        elif role == "a" and message.role == "user" and _called_tools(turn, back):
            back += 1
        elif role == message.role[:1] and role in "ut" and not pending:
            # Long results are cut, and what was put round a user's words is taken out again.
            pending = 1
            here, back = here - 1, back + 1
        else:
            break
    if here < 0 or turn.neighbour(back) is None:
        altered, pending = altered + pending, 0
    # What lies beyond the neighbours that are remembered speaks for nothing and against nothing.
    forgotten = turn.neighbour(back) is None and turn.place(back) >= 0
    return matched, firm, altered, 0 if forgotten else here + 1 + pending, size


def _called_tools(turn: Turn, back: int) -> bool:
    """Whether the assistant message *back* places before the reply was answered by tools."""
    after = turn.neighbour(back - 1)
    return after is not None and after[0] == "t"


def plausible(each: Fit, *, alone: bool) -> bool:
    """Whether so much fits that it cannot well be chance; *alone*: no other reply is equal."""
    reply = each.turn.reply
    if each.exact:
        return True
    open_one = each.turn.next_call is None
    if each.ids and reply is not None and any(len(one) >= LEAST_ID for one in reply.ids):
        return open_one or each.left <= _SUMMARY_MESSAGES
    if each.left > _SUMMARY_MESSAGES:
        return False  # more than a summary stands before it that this turn never saw
    if each.matched >= PLENTY:
        return open_one or not each.clash
    if not open_one:
        return False  # going back to an answered turn is rare; little evidence is none
    if each.matched == 2:
        return each.size >= _LONG_PAIR or not (each.left or each.altered)
    if not alone:
        return False
    if not each.left:
        return each.size >= _SHORT_ECHO
    return each.size >= _LONG_ECHO
