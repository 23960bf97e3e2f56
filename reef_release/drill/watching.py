"""A watch in hand: its policy, its trials with made-up replies, and what is said of them."""

from __future__ import annotations

from typing import Any

import msgspec

from reef_release.domain.watch import WatchFinding
from reef_release.drill.context import CHANNEL, Context
from reef_release.drill.gating import WORKER
from reef_release.drill.stage import signed_policy
from reef_release.tokens import TokenRole
from reef_release.wire import (
    OwnWatch,
    TrialReply,
    WatchAssignment,
    WatchTrialRequest,
    WatchTrialView,
)

__all__ = ["WATCH", "claim_of", "finding_on", "own_watch", "watch_by", "wrong_reply"]

_REASON = "an attempt of the drill"
WATCH: dict[str, Any] = {
    "verifiers": ["answer@1"],
    "bar": "0.9",
    "fallen": "0.5",
    "alpha": "0.05",
    "every_s": 1,
    "max_trials": 50,
    "automatic": False,
}


def watch_by(context: Context, scenario: str, watch: dict[str, Any] | None) -> None:
    """Put a policy into force that watches so, or not at all."""
    version = int(context.view(scenario).policy["version"]) + 1
    signed = signed_policy(context, scenario, version=version, watch=watch)
    context.client(TokenRole.OPERATE).change_policy(scenario, signed, _REASON)


def claim_of(context: Context, scenario: str, *own: OwnWatch) -> WatchAssignment:
    """What is due next, which the policy may have wait, by whoever ran the trials of *own*."""
    client = context.client(TokenRole.GATE)
    found = context.until(lambda: client.watching.claim(scenario, WORKER, own))
    assert found is not None
    return found


def wrong_reply(claim: WatchAssignment, **changes: Any) -> WatchTrialRequest:
    """The trial that is due, with a reply that is wrong."""
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


def own_watch(claim: WatchAssignment, posted: WatchTrialView) -> OwnWatch:
    """What the worker that posted last says of its own trials."""
    position, digest = claim.pointer_position, posted.progress.digest
    return OwnWatch(pointer_position=position, digest=digest, posting=False)


def finding_on(scenario: str, claim: WatchAssignment, **changes: Any) -> WatchFinding:
    """What the trials so far show."""
    finding = WatchFinding(
        scenario=scenario,
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
