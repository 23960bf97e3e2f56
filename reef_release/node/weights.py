"""Rule: a release key signed exactly these files.

Nothing is downloaded under a name that no candidate may have, signed or not. The signature over
an adapter names its own files alone. The model under it is named by the adapter's submission, by
an id that follows from that model's files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reef_release.artifacts.file_rules import Kind, check_names
from reef_release.artifacts.findings import Findings
from reef_release.domain.canonical import sha256_hex
from reef_release.domain.events import (
    CandidateSubmitted,
    FileEntry,
    ReleaseSigned,
)
from reef_release.domain.weights import candidate_id, digests_by_path
from reef_release.node.case import Case
from reef_release.node.gates import PassedGate
from reef_release.node.leaves import refuse
from reef_release.node.moves import Move
from reef_release.signing.keys import Role
from reef_release.signing.weights import verify_bundle

__all__ = ["Foundation", "SignedWeights", "signed_files"]

_SHOWN_NAMES = 5


@dataclass(frozen=True, kw_only=True)
class Foundation:
    """The full release under an adapter."""

    release_id: str
    files: tuple[FileEntry, ...]


@dataclass(frozen=True, kw_only=True)
class SignedWeights:
    """The signed files with their lengths, and the id of the release key."""

    files: tuple[FileEntry, ...]
    key_id: str
    foundation: Foundation | None


def signed_files(case: Case, move: Move, gate: PassedGate) -> SignedWeights:
    """The files that the release consists of.

    The signature names the digests and the submission the lengths. Raises `Refused` and
    `SignatureRejected`.
    """
    scenario = case.document.scenario
    signing = case.proven(case.material.signed)
    signed = signing.as_a(ReleaseSigned, scenario)
    bundle = case.material.bundle.encode("utf-8")
    keys = case.ledger.counting(Role.RELEASE, signing.position)
    verified = verify_bundle(bundle, case.release_id, keys)
    logged = (signed.release_id, signed.gate_id, signed.key_id, signed.bundle)
    shown = (case.release_id, move.promoted.gate_id, verified.key_id, sha256_hex(bundle))
    if logged != shown or not (gate.passing.position < signing.position < move.promotion.position):
        raise refuse("not-signed", "the log has no release.signed for this bundle and gate")
    submitting = case.proven(case.material.submitted)
    submitted = submitting.as_a(CandidateSubmitted, scenario)
    listed = digests_by_path((file.path, file.sha256) for file in submitted.files)
    if listed != verified.files or submitting.position >= gate.opening.position:
        raise refuse("other-files", "the files submitted are not the files signed")
    foundation = _foundation(case, submitted)
    _require_names(submitted.files, "lora" if foundation else "full")
    if foundation is not None:
        _require_names(foundation.files, "full")
    case.found(
        "a release key that counted there signed exactly these files",
        f"key {verified.key_id[:12]} at {signing.position}, {len(listed)} files, "
        f"{sum(file.size_bytes for file in submitted.files)} bytes",
    )
    return SignedWeights(
        files=tuple(submitted.files), key_id=verified.key_id, foundation=foundation
    )


def _require_names(files: Sequence[FileEntry], kind: Kind) -> None:
    """Refuse names that admission refuses: an admission in the log may be a forged one."""
    findings = Findings()
    check_names(files, kind, findings)
    if findings:
        shown = "; ".join(str(reason) for reason in findings.reasons()[:_SHOWN_NAMES])
        raise refuse("file-name", f"no release has such files: {shown}")


def _foundation(case: Case, submitted: CandidateSubmitted) -> Foundation | None:
    if submitted.kind == "full" and submitted.foundation is None:
        return None
    leaf = case.material.foundation
    if submitted.kind != "lora" or submitted.foundation is None or leaf is None:
        raise refuse("foundation", "an adapter, and only that, stands on a release shown with it")
    below = case.proven(leaf).as_a(CandidateSubmitted, case.document.scenario)
    files = digests_by_path((file.path, file.sha256) for file in below.files)
    if not below.candidate_id == submitted.foundation == candidate_id(files):
        raise refuse("foundation", "the files shown are not those of the adapter's foundation")
    if below.kind != "full":
        raise refuse("foundation", "an adapter stands on full weights, not on another adapter")
    case.found(
        "the files under the adapter are those that its submission names",
        f"release {below.candidate_id[:12]}, {len(files)} files",
    )
    return Foundation(release_id=below.candidate_id, files=tuple(below.files))
