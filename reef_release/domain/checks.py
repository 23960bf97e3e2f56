"""What the fold must have checked for it: signatures, verdicts, and bodies named by digest.

The domain states when a check is needed; how it is done (cryptography, verifiers, blobs) is
behind this protocol, so that the service, the audit and the tests run the same fold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from reef_release.domain.decision import GateDecision
from reef_release.domain.events import VerdictRecord
from reef_release.domain.policy import Policy
from reef_release.domain.suite import Suite
from reef_release.domain.watch import WatchFinding

__all__ = ["Checks", "KeyRef", "TrialBody", "TrustRoot"]


class KeyRef(msgspec.Struct, frozen=True, kw_only=True):
    """A public key as the log names it: SHA-256 of its DER form, role, PEM text."""

    key_id: str
    role: str
    public_key: str


class TrustRoot(msgspec.Struct, frozen=True, kw_only=True):
    """The root in force: its version, its text, and the keys it lists."""

    version: int
    metadata: str
    keys: tuple[KeyRef, ...]


class TrialBody(msgspec.Struct, frozen=True, kw_only=True):
    """The raw record of one trial, stored as a salted blob and never erased.

    `logprobs[i]` is the natural log-probability of `token_ids[i]` under the full-vocabulary
    softmax at the sampling temperature (at temperature 0: at temperature 1).
    """

    task_id: str
    side: str
    release_id: str
    sampling_seed: int
    prompt_token_ids: list[int]
    token_ids: list[int]
    logprobs: list[float]
    reply: str
    finish_reason: str


class Checks(Protocol):
    """Every method raises a `ReefError` when the check does not hold, and nothing else."""

    def root(self, metadata: str, trusted: str | None) -> TrustRoot:
        """Open TUF root metadata, as the successor of *trusted* if that is given.

        With *trusted* None the metadata must be the anchor this reader was given.
        """

    def checkpoint(self, note: str, keys: Sequence[KeyRef]) -> tuple[str, int, str]:
        """Origin, size and hex root of a checkpoint signed by one of *keys*."""

    def policy(
        self, envelope: Mapping[str, Any], keys: Sequence[KeyRef]
    ) -> tuple[str, str, Policy]:
        """Digest of the payload, id of the signing key, and content of a policy."""

    def decision(
        self, envelope: Mapping[str, Any], keys: Sequence[KeyRef]
    ) -> tuple[str, str, GateDecision]:
        """Digest of the payload, id of the signing key, and content of a gate decision."""

    def finding(self, envelope: Mapping[str, Any], keys: Sequence[KeyRef]) -> WatchFinding:
        """Content of a watch's finding."""

    def bundle(self, digest: str, release_id: str, keys: Sequence[KeyRef]) -> str:
        """Id of the key whose weights signature in blob *digest* covers exactly *release_id*."""

    def suite(self, digest: str) -> Suite:
        """The tasks in blob *digest*."""

    def trial(self, digest: str) -> TrialBody:
        """The raw record in salted blob *digest*."""

    def verdict(self, verifiers: Sequence[str], reply: str, answer: str) -> VerdictRecord:
        """What the named verifiers say of *reply*."""
