"""What holds a copy of what somebody said: the calls that repeat it, and what judges wrote of it.

A call sends the whole conversation again, so every later call of a session repeats the earlier
ones. Whoever judged a turn saw its reply, the reaction to it and the replies before it, and may
have quoted them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import timedelta
from typing import NamedTuple

from reef_release.domain.privacy import bodies_of
from reef_release.domain.privacy_events import BodyKind
from reef_release.domain.state import State
from reef_release.domain.traffic.records import Session, Traffic, Turn
from reef_release.domain.traffic.times import parsed_time, written_time

__all__ = [
    "Body",
    "OldCalls",
    "before",
    "bodies_of_calls",
    "calls_of_session",
    "calls_of_tag",
    "calls_of_turn",
    "old_calls",
    "releases_trained_on",
    "sample_is_erased",
    "sessions_past",
]


class Body(NamedTuple):
    """One blob that holds something of a turn."""

    turn: Turn
    kind: BodyKind
    digest: str


class OldCalls(NamedTuple):
    """How many calls are older than an age, and how many of them are kept though not erased.

    `open` are of sessions that may go on or have newer calls, `needed` of those that judges,
    batches or trainers still wait for.
    """

    all: int
    open: int
    needed: int


def sample_is_erased(state: State, traffic: Traffic, turn_id: str) -> bool:
    """Whether anything that the sample of a judged turn is made of is erased."""
    turn = traffic.turns[turn_id]
    if not state.erased or turn.judged is None:
        return False
    target = traffic.turns.get(turn.judged.target or "", turn)
    gone = target.erased or turn.next_erased
    return gone or any(hint in state.erased for hint in turn.judged.hints)


def calls_of_turn(traffic: Traffic, turn: Turn, *, only: bool) -> list[Turn]:
    """The turn and, unless *only* it is wanted, the later calls of its session."""
    return [turn] if only else [turn, *_later(traffic, turn)]


def calls_of_session(traffic: Traffic, session_id: str) -> list[Turn]:
    """All calls of a session, retries and side calls included."""
    return [traffic.turns[each] for each in traffic.sessions[session_id].calls]


def calls_of_tag(traffic: Traffic, tag: str, *, only: bool) -> list[Turn]:
    """The calls that came under a tag and, unless *only* they, those that repeat them."""
    tagged = [turn for turn in traffic.turns.values() if turn.tag == tag]
    found = {turn.turn_id: turn for turn in tagged}
    if not only:
        for turn in _firsts(tagged):
            found.update((each.turn_id, each) for each in _later(traffic, turn))
    return list(found.values())


def bodies_of_calls(state: State, traffic: Traffic, calls: Iterable[Turn]) -> Iterator[Body]:
    """Every blob with something of the calls that is neither erased yet nor kept for ever.

    Besides what belongs to the calls themselves these are the votes and hints of whoever saw them:
    on the turns that they react to, and on the later ones of their sessions.
    """
    calls = list(calls)
    seen: set[str] = set()
    for body in _all(traffic, calls):
        gone = body.digest in seen or body.digest in state.erased
        if not gone and body.digest not in state.kept:
            seen.add(body.digest)
            yield body


def _all(traffic: Traffic, calls: list[Turn]) -> Iterator[Body]:
    for turn in calls:
        yield from (Body(turn, kind, digest) for kind, digest in bodies_of(turn))
    for turn in calls:
        followed = traffic.before(turn)
        if followed is not None:
            yield from _judgment(followed)
    for turn in _firsts(calls):
        for later in _later(traffic, turn):
            yield from _judgment(later)


def _judgment(turn: Turn) -> Iterator[Body]:
    for kind, digest in bodies_of(turn):
        if kind in ("votes", "hint"):
            yield Body(turn, kind, digest)


def _firsts(calls: Iterable[Turn]) -> Iterable[Turn]:
    """The first of the calls in each session."""
    first: dict[str, Turn] = {}
    for turn in calls:
        session_id = turn.session_id or turn.turn_id
        if session_id not in first or turn.position < first[session_id].position:
            first[session_id] = turn
    return first.values()


def _later(traffic: Traffic, turn: Turn) -> Iterator[Turn]:
    if turn.session_id is not None:
        for call_id in traffic.sessions[turn.session_id].calls:
            other = traffic.turns[call_id]
            if other.position > turn.position:
                yield other


def before(state: State, age_s: float) -> str:
    """The time *age_s* before the newest event of the log, as events write times.

    The log's own time and not this machine's: a wrong clock must not erase anything.
    """
    try:
        return written_time(parsed_time(state.recorded_at) - timedelta(seconds=age_s))
    except (OverflowError, ValueError):
        return ""


def sessions_past(
    state: State, traffic: Traffic, *, age_s: float, expiry_s: float, known: Collection[str] = ()
) -> Iterator[str]:
    """Sessions whose calls are all older than *age_s* and that nobody needs any more.

    They are over: expired, or silent for *expiry_s*. Nothing of them waits for a judge or for a
    batch, and no batch with something of them may still be trained or come to a release.
    *known* are sessions not to be looked at.
    """
    old, silent = before(state, age_s), before(state, expiry_s)
    for session in traffic.sessions.values():
        is_over = session.expired or session.last_at < silent
        if not is_over or session.last_at >= old or session.session_id in known:
            continue
        if not _needed(traffic, session):
            yield session.session_id


def old_calls(state: State, traffic: Traffic, *, age_s: float, expiry_s: float) -> OldCalls:
    """The calls older than *age_s*, whatever `sessions_past` says of their sessions."""
    old, silent = before(state, age_s), before(state, expiry_s)
    found = going_on = needed = 0
    needs: dict[str, bool] = {}
    for turn in traffic.turns.values():
        if turn.at >= old:
            continue
        found += 1
        if all(digest in state.erased for _, digest in bodies_of(turn)):
            continue
        session = traffic.sessions.get(turn.session_id or "")
        if session is None:
            going_on += 1  # it is not correlated yet
        elif session.last_at >= old or not (session.expired or session.last_at < silent):
            going_on += 1
        else:
            if session.session_id not in needs:
                needs[session.session_id] = _needed(traffic, session)
            needed += needs[session.session_id]
    return OldCalls(found, going_on, needed)


def releases_trained_on(traffic: Traffic, turns: Iterable[Turn]) -> set[str]:
    """The promoted releases whose batches have a sample with something of the turns."""
    batches = {
        batch_id
        for turn in turns
        for each in (turn, traffic.before(turn))
        if each is not None
        for batch_id in _batches(traffic, each)
    }
    used = (traffic.batches[each].used_in for each in batches if each in traffic.batches)
    return {each for each in used if each is not None}


def _batches(traffic: Traffic, turn: Turn) -> Iterator[str]:
    """The batches of the turn's own sample, and of the sample whose target it is."""
    judged = traffic.turns.get(turn.used_by or "")
    for batch_id in (turn.batch_id, None if judged is None else judged.batch_id):
        if batch_id is not None:
            yield batch_id


def _needed(traffic: Traffic, session: Session) -> bool:
    for call_id in session.calls:
        if call_id in traffic.to_judge or call_id in traffic.samples:
            return True
        for batch_id in _batches(traffic, traffic.turns[call_id]):
            if batch_id in traffic.open_batches or batch_id in traffic.unsettled:
                return True
    return False
