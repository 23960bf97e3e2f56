"""The witness's rule: bytes of a request and what was cosigned before in, an answer out.

What always holds: a checkpoint is cosigned only if a key that the witness trusts for its origin
signed it, and only if it is shown to continue the newest checkpoint that the witness ever
cosigned for that origin. Of two trees of one size at most one is ever cosigned.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reef_release.domain.canonical import MAX_INTEGER
from reef_release.domain.merkle import HASH_BYTES, verify_consistency
from reef_release.errors import SignatureRejected
from reef_release.signing.keys import PublicKey
from reef_release.signing.note import Checkpoint, open_checkpoint, origin_of
from reef_release.signing.strict import decode_base64

__all__ = ["REQUEST_LIMIT_BYTES", "Accepted", "Rejection", "judge"]

REQUEST_LIMIT_BYTES = 128 * 1024
_MAX_PROOF_LINES = 63
_OLD = re.compile(r"old (0|[1-9][0-9]{0,15})")


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """A checkpoint to remember and to cosign."""

    origin: str
    checkpoint: Checkpoint
    note: str


@dataclass(frozen=True, kw_only=True)
class Rejection:
    """The status and text of the answer; `size` is that of the newest cosigned checkpoint.

    With `evidence` the log's key has signed what contradicts what it signed before.
    """

    status: int
    why: str
    size: int | None = None
    evidence: bool = False


def judge(
    body: bytes,
    logs: Mapping[str, Sequence[PublicKey]],
    seen: Mapping[str, Checkpoint],
) -> Accepted | Rejection:
    """What to answer to *body*; *logs* are the keys by origin, *seen* the newest by origin."""
    try:
        head, separator, note = body.decode("utf-8").partition("\n\n")
    except UnicodeDecodeError:
        return Rejection(status=400, why="the request is not UTF-8")
    first, *lines = head.split("\n")
    match = _OLD.fullmatch(first)
    if not separator or match is None or len(lines) > _MAX_PROOF_LINES:
        return Rejection(status=400, why="the request is not: old size, proof, empty line, note")
    old_size = int(match[1])
    try:
        proof = [decode_base64(line, "consistency proof", "line") for line in lines]
    except SignatureRejected as error:
        return Rejection(status=400, why=str(error))
    if old_size > MAX_INTEGER or any(len(each) != HASH_BYTES for each in proof):
        return Rejection(status=400, why="a size or a hash of the proof is out of range")
    origin = origin_of(note)
    if origin not in logs:
        return Rejection(status=404, why=f"the log {origin[:80]!r} is not known here")
    try:
        checkpoint = open_checkpoint(note, origin, logs[origin])
    except SignatureRejected as error:
        unsigned = {"no-trusted-key", "bad-signature"} & {reason.code for reason in error.reasons}
        return Rejection(status=403 if unsigned else 400, why=str(error))
    before = seen.get(origin, Checkpoint(0, b""))
    if checkpoint.size < old_size:
        return Rejection(status=400, why="the old size is beyond the checkpoint")
    if old_size != before.size:
        fork = checkpoint.size == before.size and checkpoint.root != before.root
        return Rejection(
            status=409, why="another size was cosigned last", size=before.size, evidence=fork
        )
    if checkpoint.size == before.size and before.size and checkpoint.root != before.root:
        return Rejection(
            status=409, why="two trees of one size are signed", size=before.size, evidence=True
        )
    if old_size == 0 and proof:
        return Rejection(status=422, why="nothing precedes the first checkpoint")
    if old_size and not verify_consistency(
        old_size, checkpoint.size, proof, before.root, checkpoint.root
    ):
        return Rejection(status=422, why="the tree is not shown to continue the last one")
    return Accepted(origin=origin, checkpoint=checkpoint, note=note)
