"""A world whose signatures cost nothing: the same story and the same fold, a thousand times faster.

A signed thing is its payload beside the id of the key. What a signature promises still holds:
nobody writes the id of a key that he has not got, because the tests only ever sign with keys of
the world, whatever their role and also after their revocation.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from reef_release.artifacts.errors import BlobMissing
from reef_release.domain.canonical import canonical_json, sha256_hex
from reef_release.domain.checks import Checks, KeyRef, TrialBody, TrustRoot
from reef_release.domain.decision import GateDecision
from reef_release.domain.events import VerdictRecord
from reef_release.domain.fold import Fold
from reef_release.domain.policy import Policy, parse_policy
from reef_release.domain.suite import Suite, parse_suite
from reef_release.domain.watch import WatchFinding
from reef_release.domain.weights import candidate_id
from reef_release.errors import SignatureRejected
from reef_release.signing.keys import Role
from tests.world import ORIGIN, SERVICE_ROLES, START, World

_T = TypeVar("_T")

__all__ = ["CheapWorld", "NamedKey", "unverified"]


@dataclass(frozen=True)
class NamedKey:
    """A key that is nothing but its name and its role."""

    role: Role
    pem: str

    @property
    def key_id(self) -> str:
        return sha256_hex(self.pem.encode())

    @property
    def public(self) -> NamedKey:
        return self


class _Blobs:
    """A blob store in memory; bodies are salted with zeros."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    def put_bytes_sync(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        self.blobs[digest] = data
        return digest

    def put_body_sync(self, data: bytes) -> str:
        return self.put_bytes_sync(bytes(32) + data)

    def read_sync(self, digest: str, limit_bytes: int = 0) -> bytes:
        del limit_bytes
        if digest not in self.blobs:
            raise BlobMissing(f"no blob {digest}")
        return self.blobs[digest]

    def read_body_sync(self, digest: str, limit_bytes: int = 0) -> bytes:
        return self.read_sync(digest, limit_bytes)[32:]


class _Checks(Checks):
    """What `ReplayChecks` does, with signatures of this module."""

    def __init__(self, anchor: str, blobs: _Blobs) -> None:
        self._anchor = anchor
        self._blobs = blobs
        self._suites: dict[str, Suite] = {}

    def root(self, metadata: str, trusted: str | None) -> TrustRoot:
        root = json.loads(metadata)
        before = json.loads(trusted)["version"] if trusted else 0
        if root["version"] != before + 1 or (trusted is None and metadata != self._anchor):
            raise SignatureRejected("not the successor")
        keys = tuple(msgspec.convert(key, KeyRef) for key in root["keys"])
        return TrustRoot(version=root["version"], metadata=metadata, keys=keys)

    def checkpoint(self, note: str, keys: Sequence[KeyRef]) -> tuple[str, int, str]:
        _, payload = _opened(json.loads(note), keys)
        origin, size, root = json.loads(payload)
        return origin, size, root

    def policy(
        self, envelope: Mapping[str, Any], keys: Sequence[KeyRef]
    ) -> tuple[str, str, Policy]:
        key_id, payload = _opened(envelope, keys)
        document = payload.encode()
        return (
            sha256_hex(document),
            key_id,
            parse_policy(document, {"answer@1": True, "style@1": False}.get),
        )

    def decision(
        self, envelope: Mapping[str, Any], keys: Sequence[KeyRef]
    ) -> tuple[str, str, GateDecision]:
        key_id, payload = _opened(envelope, keys)
        decision = _decoded(payload, GateDecision)
        return sha256_hex(payload.encode()), key_id, decision

    def finding(self, envelope: Mapping[str, Any], keys: Sequence[KeyRef]) -> WatchFinding:
        _, payload = _opened(envelope, keys)
        return _decoded(payload, WatchFinding)

    def bundle(self, digest: str, release_id: str, keys: Sequence[KeyRef]) -> str:
        key_id, payload = _opened(json.loads(self._blobs.read_sync(digest)), keys)
        if payload != release_id:
            raise SignatureRejected("signed are other weights")
        return key_id

    def suite(self, digest: str) -> Suite:
        if digest not in self._suites:
            self._suites[digest] = parse_suite(self._blobs.read_sync(digest))
        return self._suites[digest]

    def trial(self, digest: str) -> TrialBody:
        return msgspec.json.decode(self._blobs.read_body_sync(digest), type=TrialBody)

    def verdict(self, verifiers: Sequence[str], reply: str, answer: str) -> VerdictRecord:
        right = reply.endswith(f" {answer}.")
        checks = {spec: right or not spec.startswith("answer") for spec in verifiers}
        return VerdictRecord(passed=all(checks.values()), checks=checks)


def _signed(payload: bytes, key: NamedKey) -> dict[str, Any]:
    # Base64, as in DSSE: the database reads a policy's payload.
    return {"payload": base64.b64encode(payload).decode(), "signed_by": key.key_id}


def _opened(envelope: Mapping[str, Any], keys: Sequence[KeyRef]) -> tuple[str, str]:
    key_id = envelope.get("signed_by")
    if not any(key.key_id == key_id for key in keys):
        raise SignatureRejected("no key that counts signed it")
    return unverified(envelope)


def _decoded(payload: str, kind: type[_T]) -> _T:
    """As an envelope of one type is no envelope of another."""
    try:
        return msgspec.json.decode(payload.encode(), type=kind)
    except msgspec.ValidationError as error:
        raise SignatureRejected("signed is something else") from error


def unverified(envelope: Mapping[str, Any]) -> tuple[str, str]:
    """The id of the key that signed, and the payload."""
    return envelope["signed_by"], base64.b64decode(envelope["payload"]).decode()


class CheapWorld(World):
    """`World` without files and without cryptography."""

    def __init__(self) -> None:
        self._key_count = 0
        self.keys = {role: self.new_key(role) for role in SERVICE_ROLES}  # type: ignore[misc]
        self.anchor = self.root_text(self.keys, version=1)
        self.blobs = _Blobs()  # type: ignore[assignment]
        self.bodies = []
        self.now = START
        self.scenario_name = "homework"
        self._weights = 0
        self._ids = 0
        self.fold = self.new_fold()

    def new_key(self, role: Role) -> Any:
        self._key_count += 1
        return NamedKey(role, f"{role} {self._key_count}")

    def new_fold(self) -> Fold:
        return Fold(_Checks(self.anchor, self.blobs))  # type: ignore[arg-type]

    def root_text(self, keys: Mapping[Role, Any], *, version: int, **_: Any) -> str:
        listed = [
            {"key_id": key.key_id, "role": str(role), "public_key": key.pem}
            for role, key in keys.items()
        ]
        return json.dumps({"version": version, "keys": listed})

    def sign_note(self, size: int, root: bytes, key: Any) -> str:
        return json.dumps(_signed(json.dumps([ORIGIN, size, root.hex()]).encode(), key))

    def sign_policy(self, document: bytes, key: Any) -> dict[str, Any]:
        return _signed(document, key)

    def sign_decision(self, decision: GateDecision, key: Any) -> dict[str, Any]:
        return _signed(canonical_json(msgspec.to_builtins(decision)), key)

    def sign_finding(self, finding: WatchFinding, key: Any) -> dict[str, Any]:
        return _signed(canonical_json(msgspec.to_builtins(finding)), key)

    def sign_bundle(self, files: Mapping[str, str], key: Any) -> bytes:
        return canonical_json(_signed(candidate_id(files).encode(), key))
