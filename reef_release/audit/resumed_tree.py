"""A Merkle tree that goes on from where an earlier reader stopped, without the leaves before.

It keeps the complete subtrees that the first leaves consist of (at most one per level) and all
hashes that come after, so the root of every size from there on is exact.
"""

from __future__ import annotations

from collections.abc import Sequence

from reef_release.domain.merkle import HASH_BYTES, MerkleTree
from reef_release.errors import BadRequest

__all__ = ["ResumedTree", "frontier"]


def frontier(tree: MerkleTree, size: int) -> list[bytes]:
    """The complete subtrees (32 bytes each) that the first *size* leaves consist of, largest first.

    Each is the root of a whole power of two, RFC 9162 §2.1.1, so they determine the root of *size*.
    """
    return [tree.subtree(level, (size >> level) - 1) for level in _levels(size)]


def _levels(size: int) -> list[int]:
    return [level for level in reversed(range(size.bit_length())) if size >> level & 1]


class ResumedTree(MerkleTree):
    """The tree over the first *size* leaves, given by their `frontier`; it grows as any other.

    Raises `BadRequest` when *nodes* are not as many hashes as the size has.
    """

    __slots__ = ("_first",)

    def __init__(self, size: int, nodes: Sequence[bytes]) -> None:
        levels = _levels(size)
        if len(levels) != len(nodes) or any(len(each) != HASH_BYTES for each in nodes):
            raise BadRequest(f"These are not the subtrees of {size} leaves.")
        super().__init__()
        kept = dict(zip(levels, nodes, strict=True))
        self._levels = [bytearray(kept.get(level, b"")) for level in range(size.bit_length() or 1)]
        # The index of the first node that is kept of each level.
        self._first = [(size >> level) - (level in kept) for level in range(len(self._levels))]

    @property
    def size(self) -> int:
        """How many leaves the tree has."""
        return self._first[0] + len(self._levels[0]) // HASH_BYTES

    def subtree(self, level: int, index: int) -> bytes:
        """See `MerkleTree.subtree`; raises `BadRequest` for what is not kept."""
        first = self._first[level] if level < len(self._first) else 0
        if index < first:
            raise BadRequest("The tree does not keep what was before the saved state.")
        return super().subtree(level, index - first)
