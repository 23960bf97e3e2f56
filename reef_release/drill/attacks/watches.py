"""The watch in the wrong hands: made-up replies by a stolen gate token, and who signs the fall."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from reef_release.domain.watch import WatchFinding
from reef_release.drill.attack import Access, Attack, Outcome, Stop, stopped
from reef_release.drill.context import CHANNEL, Context
from reef_release.drill.errors import GotThrough
from reef_release.drill.gating import WORKER
from reef_release.drill.stage import signed_policy, stage
from reef_release.signing.keyring import PRIVATE_NAME
from reef_release.signing.keys import Role, SigningKey, create_key, load_key
from reef_release.signing.watch import sign_finding
from reef_release.tokens import TokenRole
from reef_release.wire import (
    OwnWatch,
    TrialReply,
    WatchAssignment,
    WatchTrialRequest,
    WatchTrialView,
)

__all__ = ["ATTACKS"]

_STAGE = "drill-watch"
_REASON = "an attempt of the drill"
_RULE: dict[str, Any] = {
    "verifiers": ["answer@1"],
    "bar": "0.9",
    "fallen": "0.5",
    "alpha": "0.05",
    "every_s": 1,
    "max_trials": 50,
    "automatic": False,
}


def _prepare(context: Context) -> None:
    stage(context, _STAGE)


def _policy(context: Context, watch: dict[str, Any] | None) -> None:
    version = int(context.view(_STAGE).policy["version"]) + 1
    signed = signed_policy(context, _STAGE, version=version, watch=watch)
    context.client(TokenRole.OPERATE).change_policy(_STAGE, signed, _REASON)


def _claim(context: Context, *own: OwnWatch) -> WatchAssignment:
    """What is due next, which the policy may have wait, by whoever ran the trials of *own*."""
    client = context.client(TokenRole.GATE)
    found = context.until(lambda: client.watching.claim(_STAGE, WORKER, own))
    assert found is not None
    return found


def _wrong(claim: WatchAssignment, **changes: Any) -> WatchTrialRequest:
    reply = TrialReply(
        prompt_token_ids=[1, 2, 3],
        token_ids=[4, 5],
        logprobs=[-0.25, -1.5],
        reply="I do not know.",
        finish_reason="stop",
    )
    request = WatchTrialRequest(
        channel=claim.channel,
        pointer_position=claim.pointer_position,
        number=claim.number or 0,
        attempt=claim.attempt,
        reply=reply,
    )
    return msgspec.structs.replace(request, **changes)


def _own(claim: WatchAssignment, posted: WatchTrialView) -> OwnWatch:
    position, digest = claim.pointer_position, posted.progress.digest
    return OwnWatch(pointer_position=position, digest=digest, posting=False)


def _finding(claim: WatchAssignment, **changes: Any) -> WatchFinding:
    finding = WatchFinding(
        scenario=_STAGE,
        channel=CHANNEL,
        pointer_position=claim.pointer_position,
        release_id=claim.release.release_id,
        policy_digest=claim.policy_digest,
        seed=claim.seed,
        trials=claim.progress.trials,
        passed=claim.progress.passed,
        evidence=str(claim.progress.evidence.value),
        digest=claim.progress.digest,
    )
    return msgspec.structs.replace(finding, **changes)


def _run(context: Context) -> Outcome:
    watching = context.client(TokenRole.GATE).watching
    gate = context.key(Role.GATE)
    seen = []
    with context.stack.paused("gate"):
        _policy(context, _RULE)
        try:
            claim = _claim(context)
            ahead = partial(watching.post_trial, _STAGE, _wrong(claim, number=3))
            seen.append(stopped(context, ahead, "service", "conflict"))
            early = _posting(context, claim, _finding(claim), gate)
            seen.append(stopped(context, early, "service", "not-fallen"))
            while claim.number is not None:
                posted = watching.post_trial(_STAGE, _wrong(claim))
                claim = _claim(context, _own(claim, posted))
            log = load_key(context.stack.keys / Role.LOG / PRIVATE_NAME, Role.GATE)
            for key in (create_key(Role.GATE), log):
                act = _posting(context, claim, _finding(claim), key)
                seen.append(stopped(context, act, "service", "no-trusted-key"))
            other = _posting(context, claim, _finding(claim, digest="0" * 64), gate)
            seen.append(stopped(context, other, "service", "finding"))
            if context.view(_STAGE).held_reason is not None:
                raise GotThrough("Made-up replies alone hold the scenario.")
            fallen = watching.post_finding(
                _STAGE,
                CHANNEL,
                claim.pointer_position,
                sign_finding(_finding(claim), gate),
            )
            context.until(lambda: context.view(_STAGE).held_reason)
        finally:
            # Nothing is left to watch when the honest worker goes on.
            _policy(context, None)
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
