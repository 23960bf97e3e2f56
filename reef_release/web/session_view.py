"""One session: its calls in order, what each continues and how that was found, and its fate.

Everything about a call is read from the events of its own streams up to the page's position, so
the page costs what it shows. What was said is no part of it: texts are in `session_texts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from reef_release.domain import events as ev
from reef_release.domain.correlation import REASONS
from reef_release.domain.state import Scenario
from reef_release.domain.traffic.reasons import CALL_ERRORS, METHODS, REFUSALS
from reef_release.domain.traffic.records import Turn
from reef_release.projections.sessions import SessionIndex
from reef_release.web.facts import Row, reached

__all__ = [
    "CALLS_PAGE",
    "BatchUse",
    "JudgingFailure",
    "Judgment",
    "Link",
    "Picture",
    "Refusal",
    "Report",
    "SessionView",
    "TurnView",
    "batch_streams",
    "calls_of",
    "session_view",
    "turn_streams",
]

CALLS_PAGE = 40
_ROW = 26.0
_LANE = 14.0
_MOST_LANES = 8

_STAGES = {
    "batch.formed": "waits for a trainer",
    "batch.claimed": "claimed by a trainer",
    "batch.restored": "its samples may be trained again",
    "training.started": "in training",
    "training.step": "in training",
    "training.failed": "its training failed",
    "training.completed": "trained",
}
_ENDS = {
    "expired": "its lease ended",
    "failed": "given back by its trainer",
    "stale": "dissolved: its release is served no more",
    "body-missing": "dissolved: a body was erased",
    "abandoned": "dissolved: its line came to nothing",
}


@dataclass(frozen=True, kw_only=True)
class Judgment:
    """What a judge said of the reaction to a reply; `about` is the number of the reply meant."""

    position: int
    score: int
    about: int
    target: str | None
    target_place: int | None
    valid: int
    asked: int
    judge: str
    votes: str
    hints: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class JudgingFailure:
    """A judge that said nothing."""

    position: int
    attempt: int
    error: str


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a client reported of a reply; `feedback` names a blob."""

    position: int
    score: str | None
    feedback: str | None


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Why a judged turn gave no sample."""

    position: int
    reason: str
    meaning: str


@dataclass(frozen=True, kw_only=True)
class BatchUse:
    """A batch that the sample stood in, how far it came, and the release trained on it."""

    batch_id: str
    position: int
    stage: str
    stage_position: int
    release_id: str | None
    promoted_position: int | None


@dataclass(kw_only=True)
class TurnView:
    """One call; `place` counts from 1 in its session. `kind` is None until it was correlated."""

    place: int
    turn_id: str
    position: int
    at: str
    actor: str
    tag: str | None
    turn_type: str | None
    model: str | None
    release_id: str | None
    body: str
    error: str | None
    error_meaning: str
    finish_reason: str | None
    token_count: int | None
    token_fault: str | None
    token_meaning: str
    matched_position: int | None = None
    kind: str | None = None
    follows: str | None = None
    follows_place: int | None = None
    method: str | None = None
    reason: str | None = None
    matched_meaning: str = ""
    replaces: str | None = None
    replaces_place: int | None = None
    judgment: Judgment | None = None
    failures: list[JudgingFailure] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    batches: list[BatchUse] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Link:
    """A curve from a call to the one that it continues, or in whose place it came."""

    path: str
    kind: str
    words: str


@dataclass(frozen=True, kw_only=True)
class Picture:
    """The calls of the page under each other, with their links at their left."""

    dots: tuple[tuple[float, float, TurnView], ...]
    links: tuple[Link, ...]
    width: float
    height: float
    text_x: float


@dataclass(frozen=True, kw_only=True)
class SessionView:
    """One page of a session: `first` to `last` of its `call_count` calls."""

    session_id: str
    number: int
    call_count: int
    first: int
    last: int
    turns: tuple[TurnView, ...]
    picture: Picture
    expired_position: int | None

    @property
    def page_count(self) -> int:
        """How many pages there are."""
        return -(-self.call_count // CALLS_PAGE)


def calls_of(
    scenario: Scenario, index: SessionIndex, session_id: str, at: int
) -> Sequence[str] | None:
    """The ids of the session's calls as of *at*; None when it had not begun."""
    count = index.calls(scenario.name, session_id, at)
    return scenario.traffic.sessions[session_id].calls[:count] if count else None


def turn_streams(session_id: str, calls: Sequence[str], page: int) -> list[str]:
    """The streams that tell of the session, and all of its page's calls but their batches."""
    shown = _shown(calls, page)
    streams = [f"{kind}/{call}" for call in shown for kind in ("session", "turn")]
    return list(dict.fromkeys([f"session/{session_id}", *streams]))


def batch_streams(scenario: str, index: SessionIndex, calls: Sequence[str], page: int) -> list[str]:
    """The streams of all batches that samples of the page's calls were ever put into."""
    found = (batch for call in _shown(calls, page) for batch in index.batches(scenario, call))
    return [f"batch/{batch}" for batch in dict.fromkeys(found)]


def session_view(
    scenario: Scenario,
    index: SessionIndex,
    session_id: str,
    calls: Sequence[str],
    at: int,
    *,
    page: int,
    rows: Iterable[Row],
    batch_ends: Iterable[Row],
) -> SessionView:
    """Page *page* (from 1) of the session whose calls are *calls* as of *at*.

    *rows* are the valid events of `turn_streams` of the page's calls up to *at*, *batch_ends* the
    last ones of their `batch_streams`.
    """
    start, shown = (page - 1) * CALLS_PAGE, _shown(calls, page)
    places = {call: place for place, call in enumerate(calls, start=1)}
    turns = {call: _turn(scenario.traffic.turns[call], places[call]) for call in shown}
    expired: int | None = None
    for row in rows:
        if isinstance(row.data, ev.SessionExpired):
            expired = row.position
        else:
            _take(turns, places, row)
    ends = {row.envelope.stream: row for row in batch_ends}
    for call, turn in turns.items():
        batches = index.batches(scenario.name, call)
        uses = (_batch(scenario, batch, ends.get(f"batch/{batch}"), at) for batch in batches)
        turn.batches = [use for use in uses if use is not None]
    number = index.number(scenario.name, session_id)
    return SessionView(
        session_id=session_id,
        number=0 if number is None else number + 1,
        call_count=len(calls),
        first=start + 1,
        last=start + len(shown),
        turns=tuple(turns.values()),
        picture=_picture(tuple(turns.values())),
        expired_position=expired,
    )


def _shown(calls: Sequence[str], page: int) -> Sequence[str]:
    return calls[(page - 1) * CALLS_PAGE : page * CALLS_PAGE]


def _turn(turn: Turn, place: int) -> TurnView:
    return TurnView(
        place=place,
        turn_id=turn.turn_id,
        position=turn.position,
        at=turn.at,
        actor=turn.actor,
        tag=turn.tag,
        turn_type=turn.turn_type,
        model=None,
        release_id=turn.release_id,
        body=turn.body,
        error=turn.error,
        error_meaning=CALL_ERRORS.get(turn.error or "", ""),
        finish_reason=turn.finish_reason,
        token_count=turn.token_count,
        token_fault=turn.token_fault,
        token_meaning=REFUSALS.get(turn.token_fault or "", ""),
    )


def _take(turns: Mapping[str, TurnView], places: Mapping[str, int], row: Row) -> None:
    """Put what an event says into the call that it is about."""
    data, position = row.data, row.position
    turn = turns.get(getattr(data, "interaction_id", "") or getattr(data, "turn_id", ""))
    if turn is None:
        return
    match data:
        case ev.InteractionRecorded() | ev.InteractionFailed():
            turn.model = data.model
        case ev.TurnBound():
            turn.matched_position, turn.kind = position, "main"
            turn.follows, turn.follows_place = data.follows, places.get(data.follows)
            turn.method, turn.matched_meaning = data.method, METHODS.get(data.method, "")
            _replace(turn, places, data.replaces)
        case ev.TurnUnbound():
            turn.matched_position, turn.kind = position, data.kind
            turn.reason, turn.matched_meaning = data.reason, REASONS.get(data.reason, "")
            _replace(turn, places, data.replaces)
        case ev.TurnJudged():
            turn.judgment = _judgment(data, position, places)
        case ev.TurnJudgingFailed():
            turn.failures.append(
                JudgingFailure(position=position, attempt=data.attempt, error=data.error)
            )
        case ev.ReportReceived():
            turn.reports.append(Report(position=position, score=data.score, feedback=data.feedback))
        case ev.SampleRefused():
            meaning = REFUSALS.get(data.reason, "")
            turn.refusals.append(Refusal(position=position, reason=data.reason, meaning=meaning))


def _judgment(data: ev.TurnJudged, position: int, places: Mapping[str, int]) -> Judgment:
    return Judgment(
        position=position,
        score=data.score,
        about=data.about,
        target=data.target,
        target_place=places.get(data.target or ""),
        valid=data.valid,
        asked=data.asked,
        judge=data.judge.model,
        votes=data.votes,
        hints=tuple(data.hints),
    )


def _replace(turn: TurnView, places: Mapping[str, int], replaces: str | None) -> None:
    turn.replaces, turn.replaces_place = replaces, places.get(replaces or "")


def _batch(scenario: Scenario, batch_id: str, end: Row | None, at: int) -> BatchUse | None:
    batch = scenario.traffic.batches[batch_id]
    if batch.position > at or end is None:
        return None
    data = end.data
    stage = _STAGES.get(end.envelope.type, "")
    if isinstance(data, ev.BatchReleased):
        stage = _ENDS[data.reason]
    release = scenario.releases.get(batch.used_in or "")
    promoted = None if release is None else reached(release.promoted_position, at)
    return BatchUse(
        batch_id=batch_id,
        position=batch.position,
        stage=stage,
        stage_position=end.position,
        release_id=batch.used_in if promoted is not None else None,
        promoted_position=promoted,
    )


def _picture(turns: Sequence[TurnView]) -> Picture:
    """Links between calls of the page; the longer one is, the further out it goes."""
    places = {turn.place: index for index, turn in enumerate(turns)}
    reaches = [_reach(index, places.get(other)) for index, other in _others(turns)]
    right = _LANE * max(reaches, default=0) + 12
    links = []
    for index, turn in enumerate(turns):
        for kind, other in (("follows", turn.follows_place), ("replaces", turn.replaces_place)):
            if other is None:
                continue
            words = f"call {turn.place} {_VERBS[kind]} call {other}"
            y = _y(index)
            if other in places:
                x = right - _LANE * _reach(index, places[other])
                path = f"M{right:g} {y:g} C{x:g} {y:g} {x:g} {_y(places[other]):g} "
                path += f"{right:g} {_y(places[other]):g}"
            else:
                path = f"M{right:g} {y:g} L{right - _LANE:g} {y - _ROW / 2:g}"
            links.append(Link(path=path, kind=kind, words=words))
    return Picture(
        dots=tuple((right, _y(index), turn) for index, turn in enumerate(turns)),
        links=tuple(links),
        width=720.0,
        height=_ROW * len(turns) + 4,
        text_x=right + 14,
    )


def _others(turns: Sequence[TurnView]) -> Iterator[tuple[int, int]]:
    for index, turn in enumerate(turns):
        for other in (turn.follows_place, turn.replaces_place):
            if other is not None:
                yield index, other


def _reach(index: int, other: int | None) -> int:
    """How many lanes a link goes out; one to another page goes out by one."""
    return 1 if other is None else min(max(index - other, 1), _MOST_LANES)


_VERBS = {"follows": "reacts to the reply of", "replaces": "takes the place of"}


def _y(index: int) -> float:
    return _ROW * (index + 0.5) + 2
