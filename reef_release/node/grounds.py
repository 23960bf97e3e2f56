"""Why a release may be served: the rule of the pointer, checked from proven events alone.

`verify` holds for a release only if all of this does: the event at the document's pointer
position moves this channel to it; a `gate.passed` for it stands before its promotion, signed
by a key that counted there, and is the one the document names; that gate opened after the
pointer's previous event and against the release served then; its policy was the scenario's,
signed by a policy key, with an objective verifier; nothing behind the release was revoked
before the pointer moved, and the scenario was not held; and a release key signed exactly these
files. Nobody's word is input: every event comes with its inclusion proof in the tree of a
signed checkpoint.

What this cannot show: that the service left out the last events of a stream (a revocation, a
hold, a newer policy), and that the trials of the gate say what the decision says. Both need
the whole log, and `reef-release audit` reads it. For the same reason the node is stricter in
one place: an event of the pointer's own stream that breaks the rule has no effect on the fold,
but the promotion after it is refused here, until the pointer has moved once more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from reef_release.domain import events as ev
from reef_release.domain.canonical import sha256_hex
from reef_release.domain.decision import GateDecision
from reef_release.domain.events import FileEntry
from reef_release.domain.policy import Policy, parse_policy
from reef_release.domain.weights import digests_by_path
from reef_release.errors import BadRequest, ReefError, Refused, SignatureRejected
from reef_release.node.leaves import Leaf, Proven, proven, refuse, stream
from reef_release.node.ledger import Ledger
from reef_release.node.trusted import Link
from reef_release.signing.current import CurrentDocument
from reef_release.signing.keys import Role
from reef_release.signing.note import Checkpoint
from reef_release.signing.policy import verify_policy
from reef_release.signing.vsa import VerifiedDecision, verify_decision
from reef_release.signing.weights import verify_bundle

__all__ = ["Finding", "Grounds", "Material", "Objective", "verify"]

_OF_OPENED = (
    "gate_id",
    "candidate_id",
    "base",
    "channel",
    "phase",
    "policy_digest",
    "suite",
    "checkpoint_position",
    "seed",
)

Objective = Callable[[str], bool | None]
"""Whether a verifier ("answer@1") is objective; None for an unknown one."""


class Material(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the service gave to prove a release, all of it unverified.

    `promotion` is the pointer event itself unless that is a rollback; `previous` is the
    pointer event before the promotion, None for the first. `trust` and `scenario` are whole
    streams; `revocations` are those of this release and candidate. `bundle` is JSON text.
    """

    pointer: Leaf
    promotion: Leaf
    previous: Leaf | None
    submitted: Leaf
    opened: Leaf
    passed: Leaf
    signed: Leaf
    trust: list[Leaf]
    scenario: list[Leaf]
    revocations: list[Leaf]
    bundle: str


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One rule that held, and what was found."""

    rule: str
    found: str


@dataclass(frozen=True, kw_only=True)
class Grounds:
    """A release that may be served: its files, its canaries, and why."""

    release_id: str
    pointer_position: int
    files: tuple[FileEntry, ...]
    canary: str
    canary_prompts: tuple[str, ...]
    findings: tuple[Finding, ...]


def verify(
    material: Material,
    document: CurrentDocument,
    checkpoint: Checkpoint,
    chain: Sequence[Link],
    objective: Objective,
) -> Grounds:
    """The grounds on which *document*'s release may be served.

    *document* and *checkpoint* are verified already, *chain* is the node's chain of roots.
    Raises `Refused` or `SignatureRejected`.
    """
    if document.release_id is None or document.pointer_position is None:
        raise refuse("nothing-served", "the document says that nothing is served")
    case = _Case(material, document, checkpoint, document.release_id)
    ledger = Ledger.read(stream(material.trust, checkpoint, ev.GLOBAL, "trust"), chain)
    pointer, promotion = case.pointer(document.pointer_position)
    opening, decision = case.gate(ledger, promotion)
    policy, policy_key = case.policy(ledger, promotion, opening, decision.decision, objective)
    files, release_key = case.weights(ledger, promotion, opening)
    signers = {Role.GATE: decision.key_id, Role.POLICY: policy_key, Role.RELEASE: release_key}
    case.revocations(ledger, pointer, signers)
    assert decision.decision.canary is not None  # `gate` refuses a decision without
    return Grounds(
        release_id=document.release_id,
        pointer_position=pointer.position,
        files=files,
        canary=decision.decision.canary,
        canary_prompts=tuple(policy.canaries),
        findings=tuple(case.findings),
    )


class _Case:
    """One release under examination; `findings` grows with every rule that held."""

    def __init__(
        self,
        material: Material,
        document: CurrentDocument,
        checkpoint: Checkpoint,
        release_id: str,
    ) -> None:
        self._material = material
        self._document = document
        self._checkpoint = checkpoint
        self._release_id = release_id
        self.findings: list[Finding] = []

    def pointer(self, position: int) -> tuple[Proven, Proven]:
        """The pointer event at *position*, and the promotion that it rests on."""
        pointer = self._proven(self._material.pointer)
        moves = isinstance(pointer.data, ev.ReleasePromoted | ev.ReleaseRolledBack)
        if not moves or not self._is_ours(pointer) or pointer.position != position:
            raise refuse(
                "no-pointer-event",
                f"at {position} the log has no event that moves the channel to this release; "
                f"shown was a {pointer.envelope.type} at {pointer.position}",
            )
        promotion = pointer
        if isinstance(pointer.data, ev.ReleaseRolledBack):
            promotion = self._proven(self._material.promotion)
            fits = isinstance(promotion.data, ev.ReleasePromoted) and self._is_ours(promotion)
            if not fits or promotion.position >= position:
                raise refuse("never-promoted", "the rollback goes to a release never promoted")
        self._found(
            "the log moves the channel to this release",
            f"{pointer.envelope.type} at {position}, promoted at {promotion.position}",
        )
        return pointer, promotion

    def gate(self, ledger: Ledger, promotion: Proven) -> tuple[Proven, VerifiedDecision]:
        """The gate that the promotion names: where it opened, and its signed decision."""
        promoted = promotion.as_a(ev.ReleasePromoted, self._document.scenario)
        opening, passing = self._proven(self._material.opened), self._proven(self._material.passed)
        opened = opening.as_a(ev.GateOpened, self._document.scenario)
        passed = passing.as_a(ev.GatePassed, self._document.scenario)
        gates = {
            (each.gate_id, each.candidate_id, each.base, each.channel) for each in (opened, passed)
        }
        if gates != {(promoted.gate_id, promoted.release_id, promoted.base, promoted.channel)}:
            raise refuse(
                "other-gate",
                f"no gate.passed of gate {promoted.gate_id} for this release, base and channel "
                "was shown",
            )
        previous = self._previous(promotion, promoted.base)
        if not previous < opening.position < passing.position < promotion.position:
            raise refuse(
                "stale-gate",
                f"the gate opened at {opening.position} and passed at {passing.position}; both "
                f"must lie between the pointer events at {previous} and {promotion.position}",
            )
        keys = ledger.counting(Role.GATE, passing.position)
        verified = verify_decision(passed.attestation, keys)
        decision = verified.decision
        if verified.digest != self._document.gate_digest:
            raise refuse("gate-digest", "the document names another gate decision")
        if decision.outcome != "passed":
            raise refuse("not-passed", f"the signed decision is {decision.outcome!r}")
        if decision.canary is None or decision.canary != passed.canary:
            raise refuse("no-canary", "event and decision name no common canary record")
        says = {field: getattr(decision, field) for field in _OF_OPENED}
        opens = {field: getattr(opened, field) for field in _OF_OPENED}
        if says != opens or decision.scenario != self._document.scenario:
            raise refuse("other-gate", "the signed decision is for another gate")
        self._found(
            "a gate of this release, base and channel passed and is not stale",
            f"gate {opened.gate_id}, opened at {opening.position}, passed at {passing.position}",
        )
        self._found(
            "a gate key that counted there signed the decision",
            f"key {verified.key_id[:12]}, decision {verified.digest[:12]}, "
            f"{decision.trial_count} trials",
        )
        return opening, verified

    def policy(
        self,
        ledger: Ledger,
        promotion: Proven,
        opening: Proven,
        decision: GateDecision,
        objective: Objective,
    ) -> tuple[Policy, str]:
        """The policy in force when the gate opened, and who signed it; no hold on the way."""
        in_force: _Policy | None = None
        invalid: dict[str, ReefError] = {}
        held: int | None = None
        for event in stream(
            self._material.scenario, self._checkpoint, self._document.scenario, "scenario"
        ):
            match event.data:
                case ev.ScenarioCreated() | ev.PolicyChanged() as data:
                    if event.position > opening.position:
                        continue
                    try:
                        in_force = _policy(event, data, ledger, objective)
                    except (Refused, SignatureRejected, BadRequest) as error:
                        # As in the fold, such an event has no effect.
                        invalid[data.policy_digest] = error
                case ev.ScenarioHeld() if event.position < promotion.position:
                    held = event.position
                case ev.ScenarioResumed() if event.position < promotion.position:
                    held = None
        if held is not None:
            raise refuse("held", f"the scenario was held at {held} when this was promoted")
        if decision.policy_digest in invalid:
            raise invalid[decision.policy_digest]
        if in_force is None or in_force.digest != decision.policy_digest:
            raise refuse(
                "other-policy",
                f"the gate applied the policy {decision.policy_digest[:12]}, and in force was "
                + (in_force.digest[:12] if in_force else "none"),
            )
        policy = in_force.policy
        verifiers = policy.part(decision.phase).verifiers
        if (policy.suite, verifiers) != (decision.suite, decision.verifiers):
            raise refuse("other-policy", "the gate used another suite or other verifiers")
        self._found(
            "the policy in force is signed and names an objective verifier",
            f"policy {policy.name!r} {in_force.digest[:12]} from {in_force.position} by key "
            f"{in_force.key_id[:12]}, verifiers {', '.join(verifiers)}",
        )
        self._found("the scenario was not held", f"at {promotion.position}")
        return policy, in_force.key_id

    def weights(
        self, ledger: Ledger, promotion: Proven, opening: Proven
    ) -> tuple[tuple[FileEntry, ...], str]:
        """The signed files with their lengths, and the id of the release key."""
        promoted = promotion.as_a(ev.ReleasePromoted, self._document.scenario)
        signing = self._proven(self._material.signed)
        signed = signing.as_a(ev.ReleaseSigned, self._document.scenario)
        bundle = self._material.bundle.encode("utf-8")
        verified = verify_bundle(
            bundle, self._release_id, ledger.counting(Role.RELEASE, signing.position)
        )
        if (signed.release_id, signed.gate_id, signed.key_id, signed.bundle) != (
            self._release_id,
            promoted.gate_id,
            verified.key_id,
            sha256_hex(bundle),
        ) or signing.position >= promotion.position:
            raise refuse("not-signed", "the log has no release.signed for this bundle and gate")
        submitting = self._proven(self._material.submitted)
        submitted = submitting.as_a(ev.CandidateSubmitted, self._document.scenario)
        listed = digests_by_path((file.path, file.sha256) for file in submitted.files)
        if listed != verified.files or submitting.position >= opening.position:
            raise refuse("other-files", "the files submitted are not the files signed")
        if submitted.kind != "full":
            raise refuse(
                "kind", f"this node loads full weights, and the release is a {submitted.kind}"
            )
        self._found(
            "a release key that counted there signed exactly these files",
            f"key {verified.key_id[:12]} at {signing.position}, {len(listed)} files, "
            f"{sum(file.size_bytes for file in submitted.files)} bytes",
        )
        return tuple(submitted.files), verified.key_id

    def revocations(self, ledger: Ledger, pointer: Proven, signers: Mapping[Role, str]) -> None:
        """Nothing behind the release was revoked before the pointer moved."""
        for leaf in self._material.revocations:
            event = self._proven(leaf)
            match event.data:
                case ev.CandidateRevoked():
                    subject = event.data.candidate_id
                case ev.ReleaseRevoked():
                    subject = event.data.release_id
                case _:
                    continue
            if subject == self._release_id and event.position < pointer.position:
                raise refuse(
                    "revoked",
                    f"the release was revoked at {event.position}, before the pointer "
                    f"moved to it at {pointer.position}",
                )
        for role, key_id in signers.items():
            revoked = ledger.revoked_before(key_id, pointer.position)
            if revoked is not None:
                raise refuse(
                    "key-revoked", f"the {role} key {key_id[:12]} was revoked at {revoked}"
                )
        self._found(
            "neither the release nor a key behind it was revoked before",
            f"position {pointer.position}, {len(ledger.revoked)} keys revoked in all",
        )

    def _previous(self, promotion: Proven, base: str | None) -> int:
        """Where the pointer moved before the promotion; -1 for the first one."""
        version = promotion.envelope.version
        leaf = self._material.previous
        if version == 1 or leaf is None:
            if version != 1 or base is not None:
                raise refuse("hidden-event", "the pointer event before the promotion is missing")
            return -1
        previous = self._proven(leaf)
        place = (previous.envelope.scenario, previous.envelope.stream, previous.envelope.version)
        if place != (self._document.scenario, promotion.envelope.stream, version - 1):
            raise refuse("hidden-event", "the pointer event before the promotion is missing")
        served = getattr(previous.data, "release_id", None)
        if served != base:
            raise refuse("other-base", "the gate compared with a release that was not served")
        return previous.position

    def _is_ours(self, event: Proven) -> bool:
        """Whether a pointer event is for this scenario, channel and release."""
        document, envelope, data = self._document, event.envelope, event.data
        return (
            envelope.scenario == document.scenario
            and envelope.stream == f"release/{document.channel}"
            and (getattr(data, "channel", None), getattr(data, "release_id", None))
            == (document.channel, self._release_id)
        )

    def _proven(self, leaf: Leaf) -> Proven:
        return proven(leaf, self._checkpoint)

    def _found(self, rule: str, found: str) -> None:
        self.findings.append(Finding(rule=rule, found=found))


@dataclass(frozen=True, kw_only=True)
class _Policy:
    """A valid policy and where it came into force."""

    position: int
    digest: str
    key_id: str
    policy: Policy


def _policy(
    event: Proven,
    data: ev.ScenarioCreated | ev.PolicyChanged,
    ledger: Ledger,
    objective: Objective,
) -> _Policy:
    verified = verify_policy(data.policy, ledger.counting(Role.POLICY, event.position))
    if verified.digest != data.policy_digest:
        raise refuse("policy-digest", f"the policy at {event.position} has another digest")
    return _Policy(
        position=event.position,
        digest=verified.digest,
        key_id=verified.key_id,
        policy=parse_policy(verified.payload, objective),
    )
