"""One release under examination: what was shown, what is verified already, what was found."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from reef_release.node.leaves import Leaf, Proven, proven
from reef_release.node.ledger import Ledger
from reef_release.signing.current import CurrentDocument
from reef_release.signing.note import Checkpoint

__all__ = ["Below", "Beside", "Case", "Finding", "Material"]


class Beside(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pass of the same draw by another gate worker; `trials` as in `Material`."""

    opened: Leaf
    passed: Leaf
    trials: list[Leaf] | None = None


class Below(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the release under an adapter rests on: its gate, and its signature as JSON text."""

    opened: Leaf
    passed: Leaf
    signed: Leaf
    bundle: str
    beside: list[Beside] = []


class Material(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the service gave to prove a release, all of it unverified.

    `promotion` is the pointer event itself unless that is a rollback; `previous` is the
    pointer event before the promotion, None for the first. `trust` and `scenario` are whole
    streams; `revocations` are those of this release and of its foundation. `bundle` is JSON text.
    `trials` are all trials of the gate, None if they were not asked for. `foundation` is the
    submission of the release under an adapter, `below` what that one rests on. `beside` are passes
    by other gate workers before the one that the promotion names.
    """

    pointer: Leaf
    promotion: Leaf
    previous: Leaf | None
    submitted: Leaf
    foundation: Leaf | None = None
    below: Below | None = None
    opened: Leaf
    trials: list[Leaf] | None = None
    passed: Leaf
    signed: Leaf
    trust: list[Leaf]
    scenario: list[Leaf]
    revocations: list[Leaf]
    bundle: str
    beside: list[Beside] = []


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One rule that held, and what was found."""

    rule: str
    found: str


@dataclass(frozen=True, kw_only=True)
class Case:
    """The document and the checkpoint are verified, the material is not.

    `trials` says whether they must be shown. `findings` grows with every rule that held.
    """

    material: Material
    document: CurrentDocument
    checkpoint: Checkpoint
    release_id: str
    ledger: Ledger
    trials: bool
    findings: list[Finding] = field(default_factory=list)

    def proven(self, leaf: Leaf) -> Proven:
        """The event in *leaf*. Raises `Refused` unless it stands in the checkpoint's tree."""
        return proven(leaf, self.checkpoint)

    def found(self, rule: str, found: str) -> None:
        """Note that *rule* held."""
        self.findings.append(Finding(rule=rule, found=found))
