"""A finding that comes too late: the release has fallen, and is no longer what is served."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from reef_release.domain.events import WatchFallen
from reef_release.drill.attack import Access, Attack, Outcome, Stop, stopped
from reef_release.drill.context import CHANNEL, Context
from reef_release.drill.errors import GotThrough
from reef_release.drill.sql import append
from reef_release.drill.stage import fresh, promote, stage
from reef_release.drill.watching import (
    WATCH,
    claim_of,
    finding_on,
    own_watch,
    watch_by,
    wrong_reply,
)
from reef_release.signing.keys import Role
from reef_release.signing.watch import sign_finding
from reef_release.tokens import TokenRole
from reef_release.wire import WatchAssignment, WatchTrialRequest

__all__ = ["ATTACKS"]

_STAGE = "drill-watch-race"
_REASON = "an attempt of the drill"


@dataclass(frozen=True, kw_only=True)
class _Late:
    """A release that was rolled back before its fall was said: the trials, and one more."""

    claim: WatchAssignment
    trial: WatchTrialRequest
    served: str


def _late(context: Context) -> _Late:
    """The stage, made at first use."""
    found = context.kept.get(_STAGE)
    if found is None:
        found = context.kept[_STAGE] = _prepare(context)
    assert isinstance(found, _Late)
    return found


def _prepare(context: Context) -> _Late:
    stage(context, _STAGE)
    origin = context.serving(_STAGE) or ""
    promote(context, _STAGE, fresh(context, "better"))
    with context.stack.paused("gate"):
        watch_by(context, _STAGE, WATCH)
        try:
            claim, trial = _to_its_fall(context)
            context.client(TokenRole.OPERATE).roll_back(_STAGE, origin, _REASON)
        finally:
            # Nothing is left to watch when the honest worker goes on.
            watch_by(context, _STAGE, None)
    return _Late(claim=claim, trial=trial, served=origin)


def _to_its_fall(context: Context) -> tuple[WatchAssignment, WatchTrialRequest]:
    """Wrong replies until the release has fallen; the claim then, and the last trial."""
    watching = context.client(TokenRole.GATE).watching
    claim = claim_of(context, _STAGE)
    trial = wrong_reply(claim)
    while claim.number is not None:
        trial = wrong_reply(claim)
        posted = watching.post_trial(_STAGE, trial)
        claim = claim_of(context, _STAGE, own_watch(claim, posted))
    return claim, trial


def _run(context: Context) -> Outcome:
    late = _late(context)
    watching, gate = context.client(TokenRole.GATE).watching, context.key(Role.GATE)
    signed = sign_finding(finding_on(_STAGE, late.claim), gate)
    position = late.claim.pointer_position
    post = partial(watching.post_finding, _STAGE, CHANNEL, position, signed)
    forged = WatchFallen(
        pointer_position=position,
        channel=CHANNEL,
        release_id=late.claim.release.release_id,
        attestation=signed,
    )
    with context.stack.paused("gate"):
        watch_by(context, _STAGE, WATCH)
        try:
            late_trial = partial(watching.post_trial, _STAGE, late.trial)
            seen = [
                stopped(context, late_trial, "service", "conflict"),
                stopped(context, post, "service", "conflict"),
                stopped(context, partial(append, context, _STAGE, forged), "database", "pointer"),
            ]
            if context.view(_STAGE).held_reason or context.serving(_STAGE) != late.served:
                raise GotThrough("A fall of what is no longer served holds or moves the scenario.")
            claim, _ = _to_its_fall(context)
            signed = sign_finding(finding_on(_STAGE, claim), gate)
            fallen = watching.post_finding(_STAGE, CHANNEL, claim.pointer_position, signed)
            context.until(lambda: context.view(_STAGE).held_reason)
        finally:
            # Nothing is left to watch when the honest worker goes on.
            watch_by(context, _STAGE, None)
    context.client(TokenRole.OPERATE).resume(_STAGE, _REASON)
    twin = f"a finding over what is served stands at {fallen.position} and holds"
    return Outcome(seen=tuple(seen), twin=twin)


ATTACKS = (
    Attack(
        name="fall-of-what-is-no-longer-served",
        rows=(57, 56),
        tries="a trial, and a finding by the gate key, of a release that was rolled back before; "
        "the same finding by SQL",
        stops=(
            Stop(by="service", code="conflict"),
            Stop(by="database", code="pointer"),
        ),
        run=_run,
        prepare=_late,
        needs=frozenset({Access.DATABASE, Access.KEYS, Access.MODELS, Access.PROCESSES}),
    ),
)
