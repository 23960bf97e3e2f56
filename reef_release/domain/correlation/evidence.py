"""Which turn a call continues: by the reply that it echoes, else by its tag.

Each look-up reads a bounded number of turns, found by hash.
"""

from __future__ import annotations

from collections.abc import Iterable

from reef_release.domain.correlation.arrival import Arrival
from reef_release.domain.correlation.choice import choose
from reef_release.domain.correlation.fit import LEAST_ID, Fit, fit
from reef_release.domain.correlation.found import Found
from reef_release.domain.correlation.index import MOST_FITS
from reef_release.domain.correlation.normal import Normal
from reef_release.domain.correlation.repeats import AT_ONCE_S
from reef_release.domain.correlation.request import Request
from reef_release.domain.correlation.turn import (
    NEIGHBOURS,
    Turn,
    id_key,
    reworded_keys,
    suffix_keys,
)

__all__ = ["by_echo", "callers_of", "without_echo"]


def callers_of(arrival: Arrival) -> list[Turn]:
    """The turns whose reply made the tool calls that are answered here, and that nothing follows.

    An id of a few characters is given to many calls; it counts under the same tag only.
    """
    tag = arrival.call.tag
    return _distinct(
        each
        for identifier in arrival.request.answered_ids
        for each in arrival.memory.index.newest(id_key(identifier))
        if each.open
        and (each.tag == tag if tag else len(identifier) >= LEAST_ID)
        and arrival.may_follow(each)
    )


def by_echo(arrival: Arrival) -> Found:
    """The turn whose reply the request echoes."""
    request, index = arrival.request, arrival.memory.index
    if request.echo is None:
        return Found(reason="unknown-reply")
    crowded = index.count(b"t" + request.stem) > MOST_FITS
    habits = arrival.memory.habits
    candidates = _parents(arrival)
    fits = _fits(arrival, candidates)
    if not fits or all(each.clash for each in fits) or (habits.sliding and _is_short(request)):
        # A window may begin in the middle, and then look like all of another conversation.
        near, more = _near(arrival, request.echo)
        crowded = crowded or (more and not fits)
        fits = _fits(arrival, _distinct([*candidates, *near]))
    chosen = choose(
        fits,
        crowded=crowded,
        sliding=habits.sliding,
        kinship=habits.kinship,
    )
    if not isinstance(chosen, str):
        if _is_aside(arrival, chosen.turn):
            return Found(reason="aside")
        habits.note(chosen, arrival.call.tag)
        return Found(turn=chosen.turn, exact=chosen.exact, echoed=True)
    if chosen == "unknown-reply":
        if crowded:
            chosen = "ambiguous"
        elif arrival.memory.was_lost(request.stem):
            chosen = "expired"
    return Found(reason=chosen)


def without_echo(arrival: Arrival, echoed: Found, callers: list[Turn]) -> Found:
    """What else binds a call whose echo, if it has one, bound it to nothing."""
    if arrival.request.last < 0:
        return _by_tag(arrival, callers)
    newest = None if arrival.lane is None else arrival.lane.newest
    if echoed.reason not in ("unknown-reply", "weak-echo") or newest is None:
        return echoed
    # Examples that stand before every request echo nobody.
    return _by_tag(arrival, callers) if newest.stem == arrival.request.stem else echoed


def _by_tag(arrival: Arrival, callers: list[Turn]) -> Found:
    """The turn that a call without an echo continues: named by its tool calls, or by the tag."""
    if callers:
        return Found(turn=callers[0]) if len(callers) == 1 else Found(reason="ambiguous")
    tag, lane, at_s = arrival.tag, arrival.lane, arrival.call.at_s
    if tag is None or lane is None or lane.newest is None or tag.echoing:
        return Found(reason="first-call")
    waiting = lane.waiting(at_s)
    if any(each.role == "tool" for each in arrival.request.news):
        if len(waiting) == 1:
            return Found(turn=waiting[0])
        return Found(reason="ambiguous" if waiting else "unknown-reply")
    if waiting:
        return Found(reason="tools-awaited")
    turn = lane.talking
    if tag.agents(arrival.memory.tags.counting) > 1 and not lane.at_home:
        return Found(reason="tag-unproven")  # one sub-agent after another may have come under it
    if turn is None or turn.at_s > at_s:
        return Found(reason="unanswered" if lane.newest.reply is None else "tools-awaited")
    if lane.crossed:
        return Found(reason="ambiguous")
    if at_s - turn.at_s > arrival.memory.limits.tag_alone_s:
        return Found(reason="tag-idle")
    again = turn.identity == arrival.request.identity
    tags = arrival.memory.tags
    read = tag.at_home or at_s - turn.at_s > AT_ONCE_S
    tag.hasty |= not read and not again
    if read and (tags.believed(tag) or (again and tags.many(tag) and not tags.resending(tag))):
        return Found(turn=turn, alone=True)
    return Found(reason="tag-unproven")


def _fits(arrival: Arrival, turns: Iterable[Turn]) -> list[Fit]:
    habits, tag = arrival.memory.habits, arrival.tag
    sliding = habits.sliding
    settled = habits.tagging and tag is not None and tag.recent
    return [
        each
        for turn in turns
        if turn.at_s <= arrival.call.at_s
        and not (settled and turn.tag not in (None, arrival.call.tag))
        and (each := fit(turn, arrival.request, tag=arrival.call.tag, sliding=sliding)) is not None
    ]


def _is_short(request: Request) -> bool:
    return request.last < NEIGHBOURS


def _is_aside(arrival: Arrival, followed: Turn) -> bool:
    """Whether the reaction to this turn came, was answered, and comes again with more words."""
    news = followed.next_news
    return news is not None and arrival.request.brings_more_than(news)


def _parents(arrival: Arrival) -> list[Turn]:
    """The turns whose transcript this request continues word for word."""
    stem = arrival.request.stem
    found = list(arrival.memory.index.newest(b"t" + stem))
    if arrival.tag is not None:
        found += (each for each in arrival.tag.recent if each.transcript == stem)
    return _distinct(found)


def _near(arrival: Arrival, echo: Normal) -> tuple[list[Turn], bool]:
    """Turns that end alike, and whether there are more of them than were looked at."""
    index, request = arrival.memory.index, arrival.request
    found = [turn for key in reworded_keys(request) for turn in index.newest(key)]
    crowded = False
    for key in suffix_keys(request):
        if index.count(key) > MOST_FITS:
            # A shorter end is shared by even more; what a longer one found is all there is.
            if not found:
                found += index.newest(key)
                crowded = True
            break
        found += index.newest(key)
    if arrival.tag is not None:
        found += (each for each in arrival.tag.recent if each.says(echo))
    return _distinct(found), crowded


def _distinct(turns: Iterable[Turn]) -> list[Turn]:
    return list({each.call_id: each for each in turns}.values())
