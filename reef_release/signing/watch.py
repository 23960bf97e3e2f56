"""Signed findings of a watch: canonical JSON in DSSE, by a gate key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from reef_release.domain.canonical import canonical_json
from reef_release.domain.watch import WatchFinding
from reef_release.signing import dsse
from reef_release.signing.keys import PublicKey, Role, SigningKey, of_role, require_role
from reef_release.signing.strict import canonical_value, convert

__all__ = ["FINDING_TYPE", "sign_finding", "verify_finding"]

FINDING_TYPE = "application/vnd.reef-release.watch-finding+json"
_WHAT = "watch finding"


def sign_finding(finding: WatchFinding, key: SigningKey) -> dict[str, Any]:
    """The envelope of *finding*. Raises `SettingsError` unless *key* is a gate key."""
    require_role(key, Role.GATE)
    return dsse.sign(canonical_json(msgspec.to_builtins(finding)), FINDING_TYPE, key)


def verify_finding(envelope: Mapping[str, Any], keys: Iterable[PublicKey]) -> WatchFinding:
    """The finding in *envelope*, signed by a gate key among *keys*. `SignatureRejected`."""
    verified = dsse.verify(envelope, FINDING_TYPE, of_role(keys, Role.GATE), _WHAT)
    return convert(canonical_value(verified.payload, _WHAT), WatchFinding, _WHAT)
