"""That an event is in the log, as a file that anybody can check without this service.

The file is a C2SP transparency log proof: the event's index, its inclusion path, and the signed
checkpoint that the path leads to. Source: c2sp.org/tlog-proof@v1.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from reef_release.api.heads import SignedHeads
from reef_release.domain.merkle import leaf_hash
from reef_release.domain.state import State
from reef_release.errors import Unavailable
from reef_release.signing.keys import PublicKey, Role
from reef_release.signing.note import origin_of, vkey

__all__ = ["EventProof", "event_proof", "log_keys", "proof_text"]

_HEADER = "c2sp.org/tlog-proof@v1"


@dataclass(frozen=True, kw_only=True)
class EventProof:
    """The event at `position` in the tree of the first `size` events, under `checkpoint`."""

    position: int
    size: int
    leaf: str
    path: tuple[str, ...]
    root: str
    checkpoint: str


def event_proof(state: State, heads: SignedHeads, position: int, body: bytes) -> EventProof:
    """The proof of the event in *body*, under the newest signed head that covers it.

    Raises `Unavailable` within a second of the event, while the head is older.
    """
    checkpoint = heads.signed()
    size = int(checkpoint.split("\n", 2)[1])
    if size <= position:
        published = state.first_checkpoint_covering(position)
        if published is None:
            raise Unavailable(
                f"No signed checkpoint covers position {position} yet.",
                next_step="Read again in a second.",
            )
        checkpoint, size = published.note, published.size
    return EventProof(
        position=position,
        size=size,
        leaf=leaf_hash(body).hex(),
        path=tuple(each.hex() for each in state.tree.inclusion_proof(position, size)),
        root=state.tree.root(size).hex(),
        checkpoint=checkpoint,
    )


def proof_text(proof: EventProof) -> str:
    """The proof as a file of c2sp.org/tlog-proof@v1."""
    hashes = [base64.b64encode(bytes.fromhex(each)).decode() for each in proof.path]
    return "\n".join([_HEADER, f"index {proof.position}", *hashes, "", proof.checkpoint])


def log_keys(state: State, checkpoint: str) -> Sequence[tuple[str, str]]:
    """The log's keys in force as (key id, verifier key), under the checkpoint's origin."""
    origin = origin_of(checkpoint)
    return [
        (key.key_id, vkey(origin, PublicKey(Role.LOG, key.public_key)))
        for key in state.active_keys(Role.LOG)
    ]
