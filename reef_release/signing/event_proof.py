"""The proof of one event as a text that stands by itself: c2sp.org/tlog-proof.

Five things: the format's name, the index, the inclusion hashes, an empty line, and the log's
signed checkpoint, byte for byte. With the event's stored bytes and the log's public key it is all
that anybody needs. Parsing is strict: no `extra` line, since nobody would check it, and one form
of each number and of each hash.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from reef_release.domain.canonical import MAX_INTEGER
from reef_release.domain.merkle import HASH_BYTES, MerkleTree, leaf_hash, verify_inclusion
from reef_release.errors import BadRequest
from reef_release.signing.keys import PublicKey
from reef_release.signing.note import open_checkpoint, origin_of
from reef_release.signing.strict import base64_text, decode_base64, rejected

__all__ = ["ProvenEvent", "event_proof", "open_event_proof"]

_FORMAT = "c2sp.org/tlog-proof@v1"
_WHAT = "event proof"
_INDEX = re.compile(r"index (0|[1-9][0-9]{0,15})")
_MAX_HASHES = 64


class ProvenEvent(NamedTuple):
    """Where an event stands, and the signed tree that it was shown to be in."""

    position: int
    origin: str
    size: int
    root: bytes


def event_proof(tree: MerkleTree, position: int, size: int, note: str) -> str:
    """The proof that the event at *position* is in the tree of *size* that *note* signs.

    *note* is a checkpoint of the log over its first *size* events; its signature is not looked
    at. Raises `BadRequest` unless 0 <= position < size <= the tree's size, and when the note is
    of another size or root.
    """
    stated = note.split("\n")[1:3]
    if stated != [str(size), base64_text(tree.root(size))]:
        raise BadRequest(
            "The checkpoint is of another tree than the one to prove from.",
            next_step="Give the checkpoint that was signed over this size.",
        )
    hashes = map(base64_text, tree.inclusion_proof(position, size))
    return "\n".join([_FORMAT, f"index {position}", *hashes, "", note])


def open_event_proof(proof: str, body: bytes, keys: Iterable[PublicKey]) -> ProvenEvent:
    """Where *proof* shows the event with the stored bytes *body* to be.

    Its checkpoint must be signed by one of the log keys among *keys*. Raises
    `SignatureRejected`.
    """
    head, separator, note = proof.partition("\n\n")
    lines = head.split("\n")
    index = _INDEX.fullmatch(lines[1]) if len(lines) > 1 else None
    if not separator or lines[0] != _FORMAT or index is None or int(index[1]) > MAX_INTEGER:
        raise rejected(_WHAT, "malformed", f"it does not begin with {_FORMAT} and an index")
    if len(lines) - 2 > _MAX_HASHES:
        raise rejected(_WHAT, "malformed", f"it has more than {_MAX_HASHES} hashes")
    hashes = [decode_base64(line, _WHAT, f"hash {n}") for n, line in enumerate(lines[2:], 1)]
    if any(len(each) != HASH_BYTES for each in hashes):
        raise rejected(_WHAT, "malformed", f"a hash has {HASH_BYTES} bytes")
    origin, position = origin_of(note), int(index[1])
    head_of = open_checkpoint(note, origin, keys)
    if not verify_inclusion(leaf_hash(body), position, head_of.size, hashes, head_of.root):
        raise rejected(
            _WHAT,
            "not-in-log",
            f"these bytes are not event {position} of the {head_of.size} that were signed",
            next_step="Compare bytes for bytes: the event must be exactly as the log stores it.",
        )
    return ProvenEvent(position, origin, head_of.size, head_of.root)
