"""That an event is in the log, as a file that anybody can check without this service."""

from __future__ import annotations

from collections.abc import Sequence

from reef_release.api.heads import SignedHeads
from reef_release.domain.state import State
from reef_release.errors import Unavailable
from reef_release.signing.event_proof import event_proof
from reef_release.signing.keys import PublicKey, Role
from reef_release.signing.note import origin_of, vkey

__all__ = ["log_keys", "newest_proof"]


def newest_proof(state: State, heads: SignedHeads, position: int) -> str:
    """The proof file of the event at *position*, under the newest signed head that covers it.

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
    return event_proof(state.tree, position, size, checkpoint)


def log_keys(state: State, checkpoint: str) -> Sequence[tuple[str, str]]:
    """The log's keys in force as (key id, verifier key), under the checkpoint's origin."""
    origin = origin_of(checkpoint)
    return [
        (key.key_id, vkey(origin, PublicKey(Role.LOG, key.public_key)))
        for key in state.active_keys(Role.LOG)
    ]
