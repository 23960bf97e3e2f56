"""Rule: a release key signed exactly these files, and nothing behind them was revoked."""

from __future__ import annotations

from collections.abc import Mapping

from reef_release.domain.canonical import sha256_hex
from reef_release.domain.events import (
    CandidateRevoked,
    CandidateSubmitted,
    FileEntry,
    ReleaseRevoked,
    ReleaseSigned,
)
from reef_release.domain.weights import digests_by_path
from reef_release.node.case import Case
from reef_release.node.gates import PassedGate
from reef_release.node.leaves import refuse
from reef_release.node.moves import Move
from reef_release.signing.keys import Role
from reef_release.signing.weights import verify_bundle

__all__ = ["require_no_revocation", "signed_files"]


def signed_files(case: Case, move: Move, gate: PassedGate) -> tuple[tuple[FileEntry, ...], str]:
    """The signed files with their lengths, and the id of the release key.

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
    if submitted.kind != "full":
        raise refuse("kind", f"this node loads full weights, and this is a {submitted.kind}")
    case.found(
        "a release key that counted there signed exactly these files",
        f"key {verified.key_id[:12]} at {signing.position}, {len(listed)} files, "
        f"{sum(file.size_bytes for file in submitted.files)} bytes",
    )
    return tuple(submitted.files), verified.key_id


def require_no_revocation(case: Case, move: Move, signers: Mapping[Role, str]) -> None:
    """Refuse if the release or a key behind it was revoked before the pointer moved.

    Revocation is judged at its place in the log: one that came later calls for a rollback,
    which is a new move. Raises `Refused`.
    """
    position = move.pointer.position
    for leaf in case.material.revocations:
        event = case.proven(leaf)
        match event.data:
            case CandidateRevoked(candidate_id=subject) | ReleaseRevoked(release_id=subject):
                if subject == case.release_id and event.position < position:
                    raise refuse(
                        "revoked",
                        f"the release was revoked at {event.position}, before the pointer moved "
                        f"to it at {position}",
                    )
    for role, key_id in signers.items():
        revoked = case.ledger.revoked_before(key_id, position)
        if revoked is not None:
            raise refuse("key-revoked", f"the {role} key {key_id[:12]} was revoked at {revoked}")
    case.found(
        "neither the release nor a key behind it was revoked before",
        f"position {position}, {len(case.ledger.revoked)} keys revoked in all",
    )
