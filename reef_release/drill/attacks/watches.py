"""The watch in the wrong hands: made-up replies by a stolen gate token, and who signs the fall."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from reef_release.domain.watch import WatchFinding
from reef_release.drill.attack import Access, Attack, Outcome, Stop, stopped
from reef_release.drill.context import CHANNEL, Context
from reef_release.drill.errors import GotThrough
from reef_release.drill.stage import stage
from reef_release.drill.watching import (
    WATCH,
    claim_of,
    finding_on,
    own_watch,
    watch_by,
    wrong_reply,
)
from reef_release.signing.keyring import PRIVATE_NAME
from reef_release.signing.keys import Role, SigningKey, create_key, load_key
from reef_release.signing.watch import sign_finding
from reef_release.tokens import TokenRole
from reef_release.wire import WatchAssignment

__all__ = ["ATTACKS"]

_STAGE = "drill-watch"
_REASON = "an attempt of the drill"


def _prepare(context: Context) -> None:
    stage(context, _STAGE)


def _run(context: Context) -> Outcome:
    watching = context.client(TokenRole.GATE).watching
    gate = context.key(Role.GATE)
    seen = []
    with context.stack.paused("gate"):
        watch_by(context, _STAGE, WATCH)
        try:
            claim = claim_of(context, _STAGE)
            ahead = partial(watching.post_trial, _STAGE, wrong_reply(claim, number=3))
            seen.append(stopped(context, ahead, "service", "conflict"))
            early = _posting(context, claim, finding_on(_STAGE, claim), gate)
            seen.append(stopped(context, early, "service", "not-fallen"))
            while claim.number is not None:
                posted = watching.post_trial(_STAGE, wrong_reply(claim))
                claim = claim_of(context, _STAGE, own_watch(claim, posted))
            log = load_key(context.stack.keys / Role.LOG / PRIVATE_NAME, Role.GATE)
            for key in (create_key(Role.GATE), log):
                act = _posting(context, claim, finding_on(_STAGE, claim), key)
                seen.append(stopped(context, act, "service", "no-trusted-key"))
            other = _posting(context, claim, finding_on(_STAGE, claim, digest="0" * 64), gate)
            seen.append(stopped(context, other, "service", "finding"))
            if context.view(_STAGE).held_reason is not None:
                raise GotThrough("Made-up replies alone hold the scenario.")
            fallen = watching.post_finding(
                _STAGE,
                CHANNEL,
                claim.pointer_position,
                sign_finding(finding_on(_STAGE, claim), gate),
            )
            context.until(lambda: context.view(_STAGE).held_reason)
        finally:
            # Nothing is left to watch when the honest worker goes on.
            watch_by(context, _STAGE, None)
    context.client(TokenRole.OPERATE).resume(_STAGE, _REASON)
    twin = f"with the gate key the finding of these trials stands at {fallen.position} and holds"
    return Outcome(seen=tuple(seen), twin=twin)


def _posting(
    context: Context, claim: WatchAssignment, finding: WatchFinding, key: SigningKey
) -> Callable[[], object]:
    watching = context.client(TokenRole.GATE).watching
    signed = sign_finding(finding, key)
    return partial(watching.post_finding, _STAGE, CHANNEL, claim.pointer_position, signed)


ATTACKS = (
    Attack(
        name="watch-by-a-stolen-token",
        rows=(56, 23),
        tries="wrong replies that the served release never gave, out of turn and in turn; a fall "
        "found too early, by another key, or of other trials",
        stops=(
            Stop(by="service", code="conflict"),
            Stop(by="service", code="not-fallen"),
            Stop(by="service", code="no-trusted-key"),
            Stop(by="service", code="finding"),
        ),
        run=_run,
        prepare=_prepare,
        needs=frozenset({Access.KEYS, Access.MODELS, Access.PROCESSES}),
    ),
)
