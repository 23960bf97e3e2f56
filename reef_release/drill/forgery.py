"""What would promote a candidate by hand, had its thief the gate's key and the release key."""

from __future__ import annotations

from reef_release.domain import events as ev
from reef_release.domain.canonical import sha256_hex
from reef_release.domain.decision import GateDecision
from reef_release.drill.context import CHANNEL, Context
from reef_release.signing.keyring import PRIVATE_NAME
from reef_release.signing.keys import Role, create_key, load_key
from reef_release.signing.vsa import decision_payload, sign_decision
from reef_release.signing.weights import sign_bundle
from reef_release.tokens import TokenRole

__all__ = ["FORGERY", "forged_chain"]

FORGERY = "drill-forgery"


_TIME = "2026-01-02T03:04:05.000006Z"


_NOTHING = "0" * 64


def _opening(context: Context, candidate: str) -> ev.GateOpened:
    base = context.serving(FORGERY)
    policy = context.view(FORGERY)
    return ev.GateOpened(
        gate_id=candidate[:32],
        candidate_id=candidate,
        base=base,
        channel=CHANNEL,
        phase="standard",
        policy_digest=policy.policy_digest,
        suite=str(policy.policy["suite"]),
        checkpoint_position=context.newest_checkpoint(),
        seed=_NOTHING,
    )


def _decision(opened: ev.GateOpened) -> GateDecision:
    """A pass in the right form, by nobody's trials."""
    return GateDecision(
        scenario=FORGERY,
        channel=opened.channel,
        gate_id=opened.gate_id,
        candidate_id=opened.candidate_id,
        base=opened.base,
        phase=opened.phase,
        outcome="passed",
        policy_digest=opened.policy_digest,
        suite=opened.suite,
        verifiers=["answer@1", "work_steps@1", "style@1"],
        checkpoint_position=opened.checkpoint_position,
        seed=opened.seed,
        odds=[],
        evidence=[],
        budget=None,
        trial_count=2,
        trials_digest=_NOTHING,
        canary=_NOTHING,
    )


def forged_chain(context: Context, candidate: str) -> tuple[list[ev.EventData], str, bytes]:
    """All that would promote *candidate*, but for the gate's key and the release key.

    Returns it with the digest of the forged decision, which the log's key signed, and the bundle.
    """
    opened = _opening(context, candidate)
    decision = _decision(opened)
    log_key = load_key(context.stack.keys / Role.LOG / PRIVATE_NAME, Role.GATE)
    files = context.client(TokenRole.AUDIT).candidate(FORGERY, candidate).files
    key = create_key(Role.RELEASE)
    bundle = sign_bundle({file.path: file.sha256 for file in files}, key)
    trials = [
        ev.GateTrial(
            gate_id=opened.gate_id,
            slot=slot,
            side="candidate",
            attempt=0,
            task_id=f"task-{slot}",
            body=_NOTHING,
            error=None,
            verdict=ev.VerdictRecord(passed=True, checks={"answer@1": True}),
        )
        for slot in range(2)
    ]
    chain = [
        opened,
        *trials,
        ev.GatePassed(
            gate_id=opened.gate_id,
            candidate_id=candidate,
            base=opened.base,
            channel=CHANNEL,
            attestation=sign_decision(decision, _TIME, log_key),
            canary=_NOTHING,
        ),
        ev.ReleaseSigned(
            release_id=candidate,
            gate_id=opened.gate_id,
            key_id=key.key_id,
            bundle=context.client(TokenRole.TRAIN).put_blob(bundle),
        ),
        _promotion(opened),
    ]
    return chain, sha256_hex(decision_payload(decision, _TIME)), bundle


def _promotion(opened: ev.GateOpened) -> ev.ReleasePromoted:
    return ev.ReleasePromoted(
        release_id=opened.candidate_id, gate_id=opened.gate_id, base=opened.base, channel=CHANNEL
    )
