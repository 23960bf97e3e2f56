"""Approvals that a policy asks for: by the wrong role, by one person twice, for another gate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from reef_release.domain.events import EventData, ReleaseApproved
from reef_release.drill.attack import Access, Attack, Outcome, Seen, Stop, stopped
from reef_release.drill.context import Context, read_files
from reef_release.drill.errors import GotThrough
from reef_release.drill.race import promotion
from reef_release.drill.sql import new_event, with_log
from reef_release.drill.stage import fresh, stage
from reef_release.log import EventLog
from reef_release.tokens import TokenRole

__all__ = ["ATTACKS"]

_STAGE = "drill-approvals"
_REASON = "an attempt of the drill"
_OTHERS = tuple(role for role in TokenRole if role not in (TokenRole.APPROVE, TokenRole.OPERATE))


@dataclass(frozen=True, kw_only=True)
class _Waiting:
    """An origin that two people approved of, and a candidate that passed and waits for them."""

    origin: str
    origin_gate: str
    promoted: int
    candidate: str
    gate: str


def _waiting(context: Context) -> _Waiting:
    """The stage, made at first use."""
    found = context.kept.get(_STAGE)
    if found is None:
        found = context.kept[_STAGE] = _prepare(context)
    assert isinstance(found, _Waiting)
    return found


def _prepare(context: Context) -> _Waiting:
    stage(context, _STAGE, origin=False, approvals=2)
    files = read_files(context.stack.model("origin"))
    view = context.submit(files, role=TokenRole.OPERATE, scenario=_STAGE)
    origin, gate = view.candidate_id, _passed(context, view.candidate_id)
    for role in (TokenRole.APPROVE, TokenRole.OPERATE):
        context.client(role).approve_release(_STAGE, origin, "it is the origin that was agreed on")
    context.ended(origin, _STAGE, "promoted")
    promoted = context.event("release.promoted", scenario=_STAGE, release_id=origin)
    candidate = context.submit(fresh(context, "better"), scenario=_STAGE).candidate_id
    return _Waiting(
        origin=origin,
        origin_gate=gate,
        promoted=promoted,
        candidate=candidate,
        gate=_passed(context, candidate),
    )


def _passed(context: Context, candidate: str) -> str:
    """The gate that it passed, once the signer has signed it too."""
    ended = context.ended(candidate, _STAGE)
    if ended.status != "passed":
        raise GotThrough(f"A good candidate that waits for people is {ended.status}.")
    signed = partial(context.events, "release.signed", scenario=_STAGE)
    context.until(
        signed, lambda found: any(getattr(e.data, "release_id", "") == candidate for e in found)
    )
    return ended.gates[-1].gate_id


def _run(context: Context) -> Outcome:
    waiting = _waiting(context)
    seen = [
        stopped(
            context,
            partial(context.client(role).approve_release, _STAGE, waiting.candidate, _REASON),
            "api",
            "forbidden",
        )
        for role in _OTHERS
    ]
    approve = context.client(TokenRole.APPROVE).approve_release
    approve(_STAGE, waiting.candidate, _REASON)
    twice = partial(approve, _STAGE, waiting.candidate, _REASON)
    seen.append(stopped(context, twice, "service", "approved"))
    other = ReleaseApproved(
        release_id=waiting.candidate, gate_id=waiting.origin_gate, reason=_REASON
    )
    unapproved = promotion(waiting.origin, waiting.candidate, waiting.gate)
    seen.append(stopped(context, _by_hand(context, other), "database", "other-gate"))
    seen.append(stopped(context, _by_hand(context, unapproved), "database", "not-approved"))
    view = context.client(TokenRole.AUDIT).candidate(_STAGE, waiting.candidate)
    if view.status != "passed":
        raise GotThrough(f"One approval of two was enough: it is {view.status}.")
    context.client(TokenRole.OPERATE).revoke_candidate(_STAGE, waiting.candidate, _REASON)
    twin = f"the origin, approved of by two people, was promoted at {waiting.promoted}"
    return Outcome(seen=tuple(_first(seen)), twin=twin)


def _by_hand(context: Context, data: EventData) -> Callable[[], object]:
    """An append of *data* past the service."""

    async def append(log: EventLog) -> None:
        await log.append(new_event(_STAGE, data))

    return partial(with_log, context, append)


def _first(seen: list[Seen]) -> list[Seen]:
    """One of each kind: the table needs no row for every role."""
    return list({(each.by, each.code): each for each in seen}.values())


ATTACKS = (
    Attack(
        name="approvals-that-are-none",
        rows=(53, 50),
        tries="approving as another role, twice as one person, of another gate; promotion by SQL "
        "with one approval of two",
        stops=(
            Stop(by="api", code="forbidden"),
            Stop(by="service", code="approved"),
            Stop(by="database", code="other-gate"),
            Stop(by="database", code="not-approved"),
        ),
        run=_run,
        prepare=_waiting,
        roles=frozenset(_OTHERS),
        needs=frozenset({Access.DATABASE, Access.MODELS}),
    ),
)
