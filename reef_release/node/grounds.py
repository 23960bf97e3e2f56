"""Why a release may be served: the rule of the pointer, checked from proven events alone.

`verify` holds for a release only if all of this does: the event at the document's pointer
position moves this channel to it (`moves`); a `gate.passed` for it stands before its promotion,
signed by a key that counted there, and is the one the document names; that gate opened after
the pointer's previous event and against the release served then (`gates`); its policy was the
scenario's, signed by a policy key, with an objective verifier, and the scenario was not held
(`policies`); a release key signed exactly these files (`weights`); and nothing behind them, or
behind the foundation of an adapter, was revoked before the pointer moved (`revocations`).
Nobody's word is input: every event comes with its inclusion proof in the tree of a signed
checkpoint.

What this cannot show: that the service left out the last events of a stream (a revocation, a
hold, a newer policy), and that the trials of the gate say what the decision says. Both need
the whole log, and `reef-release audit` reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reef_release.domain.events import GLOBAL, FileEntry
from reef_release.domain.reasons import Reason
from reef_release.node.case import Case, Finding, Material
from reef_release.node.gates import passed, passed_beside
from reef_release.node.leaves import refuse, stream
from reef_release.node.ledger import Ledger
from reef_release.node.moves import moved
from reef_release.node.policies import Objective, applied
from reef_release.node.quorum import gate_keys
from reef_release.node.revocations import (
    foundation_signers,
    require_no_revocation,
    revoked_since,
)
from reef_release.node.trusted import Link
from reef_release.node.weights import Foundation, signed_files
from reef_release.signing.current import CurrentDocument
from reef_release.signing.keys import Role
from reef_release.signing.note import Checkpoint

__all__ = ["Grounds", "verify"]


@dataclass(frozen=True, kw_only=True)
class Grounds:
    """A release that may be served: its files, what it stands on, its canaries, and why."""

    release_id: str
    pointer_position: int
    files: tuple[FileEntry, ...]
    foundation: Foundation | None
    canary: str
    canary_prompts: tuple[str, ...]
    findings: tuple[Finding, ...]
    since: tuple[Reason, ...]
    """Revocations after the pointer moved, as far as the node has seen them."""

    def parts(self) -> list[tuple[str, tuple[FileEntry, ...]]]:
        """What an engine loads, by release id: the release, then what it stands on."""
        below = self.foundation
        own = (self.release_id, self.files)
        return [own] if below is None else [own, (below.release_id, below.files)]


def verify(
    material: Material,
    document: CurrentDocument,
    checkpoint: Checkpoint,
    chain: Sequence[Link],
    objective: Objective,
    *,
    trials: bool,
) -> Grounds:
    """The grounds on which *document*'s release may be served.

    *document* and *checkpoint* are verified already, *chain* is the node's chain of roots; with
    *trials* all of the gate's must be shown.
    Raises `Refused` or `SignatureRejected`.
    """
    if document.release_id is None or document.pointer_position is None:
        raise refuse("nothing-served", "the document says that nothing is served")
    case = Case(
        material=material,
        document=document,
        checkpoint=checkpoint,
        release_id=document.release_id,
        ledger=Ledger.read(stream(material.trust, checkpoint, GLOBAL, "trust"), chain),
        trials=trials,
    )
    move = moved(case, document.pointer_position)
    gate = passed(case, move)
    in_force = applied(case, move, gate, objective)
    weights = signed_files(case, move, gate)
    wanted, after = in_force.policy.gate_quorum, move.previous_position
    shown = material.beside if wanted > 1 else []
    beside, doubts = passed_beside(case, shown, gate.opening, after, trials=trials)
    signed = [each.signed for each in (gate, *beside)]
    keys = gate_keys(case, wanted, signed, move.pointer.position, doubts=doubts)
    own = [
        *((Role.GATE, key_id) for key_id in keys),
        (Role.POLICY, in_force.key_id),
        (Role.RELEASE, weights.key_id),
    ]
    below = weights.foundation
    under = () if below is None else foundation_signers(case, move, below, objective)
    require_no_revocation(case, move, own, below, under)
    return Grounds(
        release_id=case.release_id,
        pointer_position=move.pointer.position,
        files=weights.files,
        foundation=weights.foundation,
        canary=gate.canary,
        canary_prompts=tuple(in_force.policy.canaries),
        findings=tuple(case.findings),
        since=revoked_since(case, move, own, below, under, chain[-1].root),
    )
