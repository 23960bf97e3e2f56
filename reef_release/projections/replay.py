"""The fold's checks, done for real: signatures, verifiers, and blobs named by digest.

The service, the audit and the tests all fold with these, so none of them can accept an event
that another would refuse. Nothing here reads a clock or the network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from reef_release.artifacts.blobs import BlobReader
from reef_release.domain.checks import Checks, KeyRef, TrialBody, TrustRoot
from reef_release.domain.decision import GateDecision
from reef_release.domain.events import VerdictRecord
from reef_release.domain.policy import Policy, parse_policy
from reef_release.domain.suite import Suite, parse_suite
from reef_release.domain.watch import WatchFinding
from reef_release.errors import Refused, SignatureRejected
from reef_release.signing import note, root, vsa, weights
from reef_release.signing import policy as signed_policy
from reef_release.signing.keys import PublicKey, Role
from reef_release.signing.watch import verify_finding
from reef_release.verifiers.registry import is_objective, verdict

__all__ = ["ReplayChecks", "trust_root_of"]

_SUITE_LIMIT_BYTES = 64 * 1024 * 1024
_BUNDLE_LIMIT_BYTES = 4 * 1024 * 1024
_TRIAL_LIMIT_BYTES = 16 * 1024 * 1024

_TRIAL = msgspec.json.Decoder(TrialBody)


class ReplayChecks(Checks):
    """Checks against one trust anchor (TUF root metadata, version 1) and one blob store."""

    def __init__(self, anchor: str, blobs: BlobReader) -> None:
        self._anchor = anchor
        self._blobs = blobs
        self._suite = lru_cache(maxsize=8)(self._read_suite)

    def root(self, metadata: str, trusted: str | None) -> TrustRoot:
        if trusted is None and metadata != self._anchor:
            raise SignatureRejected(
                "The log's first trust root is not the anchor that this reader was given.",
                next_step="Compare the two root.json files; one of them is of another service.",
            )
        return trust_root_of(root.open_root(metadata, trusted), metadata)

    def checkpoint(self, signed: str, keys: Sequence[KeyRef]) -> tuple[str, int, str]:
        origin = signed.partition("\n")[0]
        opened = note.open_checkpoint(signed, origin, _public(keys, Role.LOG))
        return origin, opened.size, opened.root.hex()

    def policy(
        self, envelope: Mapping[str, Any], keys: Sequence[KeyRef]
    ) -> tuple[str, str, Policy]:
        verified = signed_policy.verify_policy(envelope, _public(keys, Role.POLICY))
        return verified.digest, verified.key_id, parse_policy(verified.payload, is_objective)

    def decision(
        self, envelope: Mapping[str, Any], keys: Sequence[KeyRef]
    ) -> tuple[str, str, GateDecision]:
        verified = vsa.verify_decision(envelope, _public(keys, Role.GATE))
        return verified.digest, verified.key_id, verified.decision

    def finding(self, envelope: Mapping[str, Any], keys: Sequence[KeyRef]) -> WatchFinding:
        return verify_finding(envelope, _public(keys, Role.GATE))

    def bundle(self, digest: str, release_id: str, keys: Sequence[KeyRef]) -> str:
        data = self._blobs.read_sync(digest, _BUNDLE_LIMIT_BYTES)
        return weights.verify_bundle(data, release_id, _public(keys, Role.RELEASE)).key_id

    def suite(self, digest: str) -> Suite:
        return self._suite(digest)

    def trial(self, digest: str) -> TrialBody:
        body = self._blobs.read_body_sync(digest, _TRIAL_LIMIT_BYTES)
        try:
            return _TRIAL.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Refused(f"The trial body {digest} is malformed: {error}.") from error

    def verdict(self, verifiers: Sequence[str], reply: str, answer: str) -> VerdictRecord:
        found = verdict(verifiers, reply, answer)
        return VerdictRecord(
            passed=found.passed,
            checks={spec: check.passed for spec, check in found.checks.items()},
        )

    def _read_suite(self, digest: str) -> Suite:
        return parse_suite(self._blobs.read_sync(digest, _SUITE_LIMIT_BYTES))


def trust_root_of(opened: root.TrustRoot, metadata: str) -> TrustRoot:
    """The domain's view of an opened root."""
    return TrustRoot(
        version=opened.version,
        metadata=metadata,
        keys=tuple(
            KeyRef(key_id=key.key_id, role=role.value, public_key=key.pem)
            for role, keys in opened.keys_by_role.items()
            for key in keys
        ),
    )


def _public(keys: Sequence[KeyRef], role: Role) -> list[PublicKey]:
    return [PublicKey(role, key.public_key) for key in keys]
