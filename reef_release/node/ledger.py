"""Which keys count at which place of the log: the trust stream, read by the node itself.

A key counts from its `key.added` on, if the root in force there lists exactly that key under
exactly that role; and no longer from its `key.revoked` on, or from the first root that does
not list it. The fold of the whole log says the same; the node does not take it from there,
since it does not have the whole log. Every root in the log must be the one of the node's own
chain, to the last byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from reef_release.domain.events import KeyAdded, KeyRevoked, RootRotated
from reef_release.node.leaves import Proven, refuse
from reef_release.node.trusted import Link
from reef_release.signing.keys import PublicKey, Role
from reef_release.signing.root import TrustRoot

__all__ = ["Ledger"]


@dataclass(kw_only=True)
class Ledger:
    """Keys by id, with the positions from which each counts and no longer counts."""

    keys: dict[str, PublicKey] = field(default_factory=dict)
    added: dict[str, int] = field(default_factory=dict)
    revoked: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, events: Sequence[Proven], chain: Sequence[Link]) -> Ledger:
        """The ledger of the trust stream. Raises `Refused` for a root that is not in *chain*."""
        ledger = cls()
        root: TrustRoot | None = None
        for event in events:
            match event.data:
                case RootRotated() as rotated:
                    root = _linked(rotated, chain)
                    ledger._rotate(root, event.position)
                case KeyAdded() as key if root is not None:
                    ledger._add(key, root, event.position)
                case KeyRevoked() as key:
                    ledger.revoked.setdefault(key.key_id, event.position)
        return ledger

    def counting(self, role: Role, position: int) -> list[PublicKey]:
        """The keys of *role* whose signatures count in an event at *position*."""
        return [
            key
            for key_id, key in self.keys.items()
            if key.role is role
            and self.added[key_id] < position
            and self.revoked_before(key_id, position) is None
        ]

    def revoked_before(self, key_id: str, position: int) -> int | None:
        """Where *key_id* was revoked, if that was before *position*."""
        found = self.revoked.get(key_id)
        return found if found is not None and found < position else None

    def _add(self, added: KeyAdded, root: TrustRoot, position: int) -> None:
        for role, keys in root.keys_by_role.items():
            for key in keys:
                if (key.key_id, role, key.pem) == (added.key_id, added.role, added.public_key):
                    self.keys.setdefault(key.key_id, key)
                    self.added.setdefault(key.key_id, position)

    def _rotate(self, root: TrustRoot, position: int) -> None:
        # A key that stands under another role now is another key: it counts no longer as this one.
        listed = {key for keys in root.keys_by_role.values() for key in keys}
        for key_id, key in self.keys.items():
            if key not in listed:
                self.revoked.setdefault(key_id, position)


def _linked(rotated: RootRotated, chain: Sequence[Link]) -> TrustRoot:
    for link in chain:
        if (link.root.version, link.text) == (rotated.version, rotated.metadata):
            return link.root
    raise refuse(
        "other-root",
        f"the log has a trust root {rotated.version} that is not in this node's chain",
    )
