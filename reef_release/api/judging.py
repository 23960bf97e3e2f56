"""Turns for judges: what one gets to see of a turn, and what its votes become in the log.

A lease saves work; that a turn is judged once is the log's business. What the judgment says is
computed here from the raw votes, by the same function as everywhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Literal

import msgspec
import structlog

from reef_release.api.bodies import UNREADABLE, next_state_of, read_body, reply_text
from reef_release.api.leases import Lease
from reef_release.api.proxy.nesting import is_too_deep
from reef_release.api.service import Service
from reef_release.artifacts.errors import BlobMissing
from reef_release.domain import events as ev
from reef_release.domain.judging import MAX_ERROR_CHARACTERS, judge_votes
from reef_release.domain.roles import role_of
from reef_release.domain.state import Scenario
from reef_release.domain.traffic.records import Turn
from reef_release.domain.traffic.rules import judge_id
from reef_release.domain.visible import is_hidden, one_line
from reef_release.errors import BadRequest, Conflict, NotFound, QueueFull, Refused
from reef_release.log import IdConflict
from reef_release.wire import (
    JudgeIdentity,
    JudgeProbe,
    JudgmentRequest,
    Message,
    NextState,
    TurnAssignment,
    Vote,
    WrittenView,
)

__all__ = ["VotesBody", "claim_turn", "note_probe", "post_judgment"]

_MAX_EARLIER = 30
_MAX_VOTES = 99
_VOTES_LIMIT_BYTES = 16 * 1024 * 1024
_DELAY_GROWS = 4
_MOST_UNREADABLE = 16
_MOST_ASKED = 1_000_000
_MAX_SETTINGS = 32
_MAX_SETTING_CHARACTERS = 1000
_ACTOR = "service"
_NOBODY = ev.JudgeRecord(model="", prompt_digest="", settings={})
_log = structlog.get_logger(__name__)


class VotesBody(msgspec.Struct, frozen=True, kw_only=True):
    """What the blob of a judgment holds: every raw vote, so that nobody need judge again."""

    votes: list[Vote]
    rejected: str
    keep: str


async def claim_turn(
    service: Service,
    scenario: Scenario,
    worker: str,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> TurnAssignment | None:
    """The turn that was completed first of those that nobody works on; None if there is none."""
    traffic = scenario.traffic
    unreadable = 0
    for turn_id in list(traffic.to_judge):
        turn = traffic.turns[turn_id]
        if not turn.can_be_judged or clock() < _not_before(turn, service.settings.judging_retry_s):
            continue
        lease = service.leases.take_free(_subject(scenario, turn_id), worker)
        if lease is None:
            continue
        try:
            assignment = await _assignment(service, scenario, turn, lease)
            msgspec.json.encode(assignment)
            return assignment
        except (*UNREADABLE, OverflowError, UnicodeEncodeError) as error:
            # Erased, damaged, or nothing that can be sent: the turns behind it must not wait.
            _log.warning("a turn that nobody can judge", turn=turn_id, why=str(error))
            await _give_up(service, scenario, turn, str(error))
            service.leases.release(lease.subject)
            unreadable += 1
            if unreadable >= _MOST_UNREADABLE:
                break
        except BaseException:
            service.leases.release(lease.subject)
            raise
    return None


async def _give_up(service: Service, scenario: Scenario, turn: Turn, why: str) -> None:
    """Count a failure of a turn that cannot be handed out, so that it is given up in the end."""
    failed = ev.TurnJudgingFailed(
        turn_id=turn.turn_id,
        attempt=turn.failures + 1,
        error=one_line(f"The turn cannot be handed out: {why}", MAX_ERROR_CHARACTERS),
        judge=_NOBODY,
    )
    try:
        await service.commands.append(_ACTOR, scenario.name, failed)
    except (Conflict, Refused) as error:
        _log.info("another service was first", step=failed.TYPE, why=error.detail)


async def post_judgment(
    service: Service, actor: str, scenario: Scenario, turn_id: str, request: JudgmentRequest
) -> WrittenView:
    """Record all votes on a turn, or the error that prevented them.

    The same votes again get the first result. Raises `NotFound`, `BadRequest`, `Refused`, and
    `Conflict` when other votes are recorded, or when the votes are on a reaction that was taken
    back.
    """
    turn = scenario.traffic.turns.get(turn_id)
    if turn is None:
        raise NotFound(f"There is no turn {turn_id!r} in {scenario.name!r}.")
    if bool(request.votes) == (request.error is not None) or len(request.votes) > _MAX_VOTES:
        raise BadRequest(
            f"A judgment has between 1 and {_MAX_VOTES} votes, or an error.",
            next_step="Send one of the two.",
        )
    if any(is_hidden(each) or each in "\n\t" for each in request.error or ""):
        raise BadRequest(
            "The error of a judgment is one line of visible characters.",
            next_step="Send a code or a short sentence without control characters; the rest is for "
            "the judge's own log.",
        )
    judge = _record(request.judge, actor)
    if turn.judged is not None:
        return await _judged_before(service, turn, request, judge)
    if turn.can_be_judged and not service.leases.holds(
        _subject(scenario, turn_id), request.lease_id
    ):
        raise Conflict(
            f"The lease {request.lease_id[:64]!r} on turn {turn_id} is not held.",
            next_step="Claim a turn again; leases end with their time and with the service.",
        )
    if turn.can_be_judged and not _stands(scenario, turn, request.next_id):
        service.leases.release(_subject(scenario, turn_id))
        raise Conflict(
            f"The user took the reaction to turn {turn_id} back and reacted otherwise.",
            next_step="Claim the turn again; it comes with the reaction that stands.",
        )
    if request.error is not None:
        # Under the lease's own id: an answer that was lost must not count as two failures.
        failed = ev.TurnJudgingFailed(
            turn_id=turn_id,
            attempt=turn.failures + 1,
            error=one_line(request.error, MAX_ERROR_CHARACTERS),
            judge=judge,
        )
        appended, event_id = await service.commands.append(
            actor, scenario.name, failed, event_id=request.lease_id
        )
    else:
        judged = await _judgment(service, scenario, turn, request, judge)
        try:
            appended, event_id = await service.commands.append(actor, scenario.name, judged)
        except (Conflict, NotFound, QueueFull, Refused):
            if turn.judged is None or turn.judged.votes != judged.votes:
                for digest in (judged.votes, *judged.hints):
                    await service.blobs.erase(digest)  # no event names it: nobody could erase it
            if turn.judged is None:
                raise
            return await _judged_before(service, turn, request, judge)
    service.leases.release(_subject(scenario, turn_id))
    return WrittenView(position=appended.position, event_id=event_id)


async def note_probe(service: Service, actor: str, scenario: Scenario, probe: JudgeProbe) -> bool:
    """Draw the consequence of a judge's known answers; whether it is suspended now.

    It is suspended once too many of a whole window are wrong, also before the window is full,
    and resumes when enough are right of at least as many as it was suspended for.
    """
    if not 0 <= probe.right <= probe.asked or not 0 < probe.asked <= _MOST_ASKED:
        raise BadRequest(
            "Between none and all of the known answers are right, of"
            f" {_MOST_ASKED:,} that are asked at most."
        )
    settings = service.settings
    judge = _record(probe.judge, actor)
    suspended_for = scenario.traffic.suspended.get(judge_id(judge))
    window = settings.judge_window
    wrong = probe.asked - probe.right
    bad = wrong > (1 - settings.judge_min_accuracy) * max(window, probe.asked) + 1e-9
    good = probe.right >= settings.judge_min_accuracy * probe.asked - 1e-9
    event: ev.EventData | None = None
    if suspended_for is None and bad:
        event = ev.JudgeSuspended(judge=judge, asked=probe.asked, right=probe.right)
    elif suspended_for is not None and good and probe.asked >= min(window, suspended_for):
        event = ev.JudgeResumed(judge=judge, asked=probe.asked, right=probe.right)
    if event is not None:
        try:
            await service.commands.append(actor, scenario.name, event)
        except IdConflict:
            raise
        except Conflict as conflict:
            _log.info("another service was first", step=event.TYPE, why=conflict.detail)
    return judge_id(judge) in scenario.traffic.suspended


def _record(judge: JudgeIdentity, actor: str) -> ev.JudgeRecord:
    """Who judges, its token included: under another's, nobody is suspended or resumed."""
    said = {"model": judge.model, "prompt_digest": judge.prompt_digest}
    settings = {**judge.settings, "token": actor}
    if len(settings) > _MAX_SETTINGS or any(
        len(each) > _MAX_SETTING_CHARACTERS
        for each in (*said.values(), *settings, *settings.values())
    ):
        raise BadRequest(
            f"A judge is named by up to {_MAX_SETTINGS - 1} settings, and by texts of"
            f" {_MAX_SETTING_CHARACTERS} characters at most."
        )
    return ev.JudgeRecord(**said, settings=settings)


def _subject(scenario: Scenario, turn_id: str) -> str:
    return f"turn/{scenario.name}/{turn_id}"


def _stands(scenario: Scenario, turn: Turn, next_id: str) -> bool:
    """Whether the turn's next state is what that call brought; a repeated request brings it too."""
    turns = scenario.traffic.turns
    following = turns.get(turn.next_id or "")
    while following is not None and following.turn_id != next_id:
        if following.kind not in ("retry", "regeneration"):
            return False
        following = turns.get(following.replaces or "")
    return following is not None


def _not_before(turn: Turn, first_delay_s: float) -> datetime:
    if turn.failed_at is None:
        return datetime.min.replace(tzinfo=UTC)
    delay_s = first_delay_s * _DELAY_GROWS ** (turn.failures - 1)
    return datetime.fromisoformat(turn.failed_at) + timedelta(seconds=delay_s)


async def _assignment(
    service: Service, scenario: Scenario, turn: Turn, lease: Lease
) -> TurnAssignment:
    traffic = scenario.traffic
    following = traffic.turns[turn.next_id or ""]
    before = list(traffic.ancestors(turn))
    body, next_body = await asyncio.gather(
        read_body(service.blobs, turn.body), read_body(service.blobs, following.body)
    )
    news = next_state_of(next_body.messages)
    role: Literal["user", "tool"] = "user"
    if any(role_of(each) == "tool" for each in news):
        role = "tool"
    if is_too_deep(body.messages) or is_too_deep(news):
        raise RecursionError("its messages are nested too deeply")
    expires = datetime.now(UTC) + timedelta(seconds=service.leases.duration_s)
    return TurnAssignment(
        scenario=scenario.name,
        turn_id=turn.turn_id,
        session_id=turn.session_id or turn.turn_id,
        lease_id=lease.lease_id,
        lease_expires_at=expires.isoformat(),
        messages=body.messages,
        reply=reply_text(body.reply),
        next_state=NextState(role=role, messages=news),
        earlier=await _earlier(service, before),
        index=len(before) + 1,
        next_id=following.turn_id,
    )


async def _earlier(service: Service, before: list[Turn]) -> list[Message]:
    """The last earlier replies, oldest first; what was erased is left out, its number is not."""

    async def message(index: int, turn: Turn) -> Message | None:
        try:
            body = await read_body(service.blobs, turn.body)
            return Message(index=index, turn_id=turn.turn_id, reply=reply_text(body.reply))
        except UNREADABLE:
            return None

    numbered = list(enumerate(reversed(before), start=1))[-_MAX_EARLIER:]
    found = await asyncio.gather(*(message(index, turn) for index, turn in numbered))
    return [each for each in found if each is not None]


async def _judgment(
    service: Service,
    scenario: Scenario,
    turn: Turn,
    request: JudgmentRequest,
    judge: ev.JudgeRecord,
) -> ev.TurnJudged:
    replies = [*reversed(list(scenario.traffic.ancestors(turn))), turn]
    quorum = service.settings.judge_quorum
    judgment = judge_votes(request.votes, last=len(replies), quorum=quorum)
    votes = _votes_body(request, judgment.rejected, judgment.keep)
    if len(votes) > _VOTES_LIMIT_BYTES:
        raise BadRequest(
            f"The votes have {len(votes)} bytes; at most {_VOTES_LIMIT_BYTES} are kept."
        )
    digest, *hints = await asyncio.gather(
        service.blobs.put_body(votes),
        *(service.blobs.put_body(hint.encode("utf-8")) for hint in judgment.hints),
    )
    return ev.TurnJudged(
        turn_id=turn.turn_id,
        score=judgment.score,
        about=judgment.about,
        target=replies[judgment.about - 1].turn_id if judgment.about else None,
        votes=digest,
        hints=list(hints),
        valid=judgment.valid,
        asked=judgment.asked,
        judge=judge,
    )


def _votes_body(request: JudgmentRequest, rejected: str, keep: str) -> bytes:
    return msgspec.json.encode(VotesBody(votes=request.votes, rejected=rejected, keep=keep))


async def _judged_before(
    service: Service, turn: Turn, request: JudgmentRequest, judge: ev.JudgeRecord
) -> WrittenView:
    judged = turn.judged
    if judged is None:
        raise Conflict(f"Turn {turn.turn_id} is not judged.")
    same = judged.judge_id == judge_id(judge)
    if same:
        try:
            stored = await service.blobs.read_body(judged.votes, _VOTES_LIMIT_BYTES)
            same = msgspec.json.decode(stored, type=VotesBody).votes == request.votes
        except BlobMissing:
            same = False
    if not same:
        raise Conflict(
            f"Turn {turn.turn_id} was judged at position {judged.position}.",
            next_step="Claim another one; a turn is judged once.",
        )
    return WrittenView(position=judged.position, event_id=judged.event_id)
