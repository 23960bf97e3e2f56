"""What a gate rests on: the policy that it applied, the draw of its tasks, the signed decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reef_release.domain.gate import Gate
from reef_release.domain.gating.rule_words import RuleLine, rule_lines
from reef_release.domain.state import Checkpoint, Key, State
from reef_release.domain.suite import draw_seed
from reef_release.web.facts import checkpoint_of, reached

__all__ = ["Decision", "DrawLine", "PolicyLines", "decision_of", "draw_line", "policy_lines"]


@dataclass(frozen=True, kw_only=True)
class PolicyLines:
    """The part of the policy that this gate applied, and who answers for it."""

    digest: str
    version: int
    signer: str
    signer_revoked: int | None
    suite: str
    verifiers: tuple[str, ...]
    rules: tuple[RuleLine, ...]
    temperature: str
    max_new_tokens: int
    max_errors: int
    approvals: int
    canaries: int


@dataclass(frozen=True, kw_only=True)
class DrawLine:
    """Where the seed comes from; `command` prints it again, `agrees` says that we did so."""

    seed: str
    checkpoint: Checkpoint | None
    command: str
    agrees: bool


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The signed end of a gate; a stale one has an end and no signature."""

    position: int
    digest: str | None
    key_id: str | None
    key_revoked: int | None
    payload_type: str
    signature: str
    canary: str | None


def policy_lines(state: State, gate: Gate, at: int) -> PolicyLines:
    """What *gate* was held to, with what each rule found."""
    policy = gate.policy
    key = state.keys.get(gate.policy_key)
    return PolicyLines(
        digest=gate.opened.policy_digest,
        version=policy.version,
        signer=gate.policy_key,
        signer_revoked=_revoked(key, at),
        suite=gate.opened.suite,
        verifiers=tuple(gate.part.verifiers),
        rules=rule_lines(gate.part.rule, gate.level, gate.slots()),
        temperature=policy.generation.temperature,
        max_new_tokens=policy.generation.max_new_tokens,
        max_errors=policy.max_errors,
        approvals=policy.approvals,
        canaries=len(policy.canaries),
    )


def draw_line(state: State, gate: Gate) -> DrawLine:
    """The seed of *gate*, drawn again from the checkpoint that it names."""
    opened = gate.opened
    checkpoint = checkpoint_of(state, opened.checkpoint_position)
    if checkpoint is None:
        return DrawLine(seed=opened.seed, checkpoint=None, command="", agrees=False)
    again = draw_seed(
        checkpoint_root=bytes.fromhex(checkpoint.root),
        candidate_id=opened.candidate_id,
        policy_digest=opened.policy_digest,
    )
    parts = " ".join((checkpoint.root, opened.candidate_id, opened.policy_digest))
    return DrawLine(
        seed=opened.seed,
        checkpoint=checkpoint,
        command=f"printf %s {parts} | xxd -r -p | sha256sum",
        agrees=again.hex() == opened.seed,
    )


def decision_of(state: State, gate: Gate, at: int) -> Decision | None:
    """How *gate*, as it stood at *at*, ended; None while it goes on."""
    if gate.decision_position is None:
        return None
    signatures: list[dict[str, Any]] = gate.attestation.get("signatures", [])
    return Decision(
        position=gate.decision_position,
        digest=gate.decision_digest,
        key_id=gate.decision_key,
        key_revoked=_revoked(state.keys.get(gate.decision_key or ""), at),
        payload_type=str(gate.attestation.get("payloadType", "")),
        signature=str(signatures[0].get("sig", "")) if signatures else "",
        canary=gate.canary,
    )


def _revoked(key: Key | None, at: int) -> int | None:
    return None if key is None else reached(key.revoked_position, at)
