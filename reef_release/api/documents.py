"""Current documents as signed bytes, made once per checkpoint and channel.

A document is a function of the log and the pointer key alone, so every process answers a
poll with the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from reef_release.domain.canonical import canonical_json, sha256_hex
from reef_release.domain.state import Current
from reef_release.projections.live import LiveState
from reef_release.signing.current import CurrentDocument, sign_current
from reef_release.signing.keys import SigningKey

__all__ = ["Document", "Documents"]


@dataclass(frozen=True, kw_only=True)
class Document:
    """A signed document: its DSSE envelope as canonical JSON, and its entity tag."""

    current: Current
    body: bytes
    etag: str


class Documents:
    """The documents of all channels. `lifetime_s` is how long one stays valid."""

    def __init__(self, live: LiveState, key: SigningKey, lifetime_s: int) -> None:
        self._live = live
        self._key = key
        self._lifetime = timedelta(seconds=lifetime_s)
        self._made: dict[tuple[str, str], Document] = {}

    def get(self, scenario: str, channel: str) -> Document | None:
        """The channel's document at this moment; None before its first promotion."""
        current = self._live.state.current.get((scenario, channel))
        if current is None:
            return None
        made = self._made.get((scenario, channel))
        if made is None or made.current is not current:
            made = self._sign(current)
            self._made[scenario, channel] = made
        return made

    def _sign(self, current: Current) -> Document:
        expires = datetime.fromisoformat(current.issued_at) + self._lifetime
        envelope = sign_current(
            CurrentDocument(
                scenario=current.scenario,
                channel=current.channel,
                serial=current.serial,
                issued_at=current.issued_at,
                expires_at=expires.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
                release_id=current.release_id,
                pointer_position=current.pointer_position,
                gate_digest=current.gate_digest,
                checkpoint=current.checkpoint,
                root_version=current.root_version,
            ),
            self._key,
        )
        body = canonical_json(envelope)
        return Document(current=current, body=body, etag=f'"{sha256_hex(body)[:32]}"')
