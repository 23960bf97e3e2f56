"""The Merkle tree over the log: RFC 6962 hashes, RFC 9162 proofs, C2SP tiles.

The hash of every complete subtree is kept, one bytearray per level (64 bytes per leaf in
all). So the root and both proofs of *any* size up to the present one take O(log n) hashes,
and an append is amortised O(1). Nothing is ever overwritten: an old root stays computable.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from reef_release.errors import BadRequest

__all__ = [
    "EMPTY_ROOT",
    "HASH_BYTES",
    "TILE_HEIGHT",
    "TILE_WIDTH",
    "MerkleTree",
    "leaf_hash",
    "node_hash",
    "verify_consistency",
    "verify_inclusion",
]

HASH_BYTES = 32
TILE_HEIGHT = 8
TILE_WIDTH = 1 << TILE_HEIGHT
EMPTY_ROOT = hashlib.sha256().digest()
"""The root of the tree without leaves, RFC 9162 §2.1.1."""


def leaf_hash(data: bytes) -> bytes:
    """SHA-256(0x00 ‖ data): the leaf of one entry, RFC 9162 §2.1.1."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """SHA-256(0x01 ‖ left ‖ right): an inner node, RFC 9162 §2.1.1."""
    return hashlib.sha256(b"\x01" + left + right).digest()


class MerkleTree:
    """An append-only tree of leaf hashes (32 bytes each); positions count from 0."""

    __slots__ = ("_levels",)

    def __init__(self, leaf_hashes: Iterable[bytes] = ()) -> None:
        # _levels[k] holds, one after another, the hashes of the complete subtrees of 2^k leaves.
        self._levels: list[bytearray] = [bytearray()]
        for each in leaf_hashes:
            self.append(each)

    @property
    def size(self) -> int:
        """How many leaves the tree has."""
        return len(self._levels[0]) // HASH_BYTES

    def append(self, leaf: bytes) -> None:
        """Add one leaf hash at position `size`; raises `BadRequest` unless it is 32 bytes."""
        if len(leaf) != HASH_BYTES:
            raise BadRequest(
                f"A leaf hash has {HASH_BYTES} bytes, not {len(leaf)}.",
                next_step="Append leaf_hash(entry), not the entry.",
            )
        index = self.size
        self._levels[0] += leaf
        level = 0
        while index & 1:
            parent = node_hash(self.subtree(level, index - 1), self.subtree(level, index))
            index >>= 1
            level += 1
            if level == len(self._levels):
                self._levels.append(bytearray())
            self._levels[level] += parent

    def root(self, size: int | None = None) -> bytes:
        """The root over the first *size* leaves (all by default); raises `BadRequest`."""
        size = self._known(self.size if size is None else size)
        return self._subtree(0, size) if size else EMPTY_ROOT

    def inclusion_proof(self, index: int, size: int) -> list[bytes]:
        """PATH(index, D[size]) of RFC 9162 §2.1.3.1, leaf's sibling first.

        Raises `BadRequest` unless 0 <= index < size <= the tree's size.
        """
        self._known(size)
        if not 0 <= index < size:
            raise BadRequest(
                f"Position {index} is not in a tree of size {size}.",
                next_step="Ask for a checkpoint that covers the position.",
            )
        path: list[bytes] = []
        start, end = 0, size
        while end - start > 1:
            middle = start + _split(end - start)
            if index < middle:
                path.append(self._subtree(middle, end))
                end = middle
            else:
                path.append(self._subtree(start, middle))
                start = middle
        return path[::-1]

    def consistency_proof(self, old_size: int, new_size: int) -> list[bytes]:
        """PROOF(old_size, D[new_size]) of RFC 9162 §2.1.4.1; empty for equal sizes or old 0.

        Raises `BadRequest` unless 0 <= old_size <= new_size <= the tree's size.
        """
        self._known(new_size)
        if not 0 <= old_size <= new_size:
            raise BadRequest(
                f"A tree of size {new_size} cannot continue one of size {old_size}.",
                next_step="Give the smaller size first.",
            )
        if old_size in (0, new_size):
            return []
        path: list[bytes] = []
        start, end = 0, new_size
        while old_size < end:
            middle = start + _split(end - start)
            if old_size <= middle:
                path.append(self._subtree(middle, end))
                end = middle
            else:
                path.append(self._subtree(start, middle))
                start = middle
        if start:
            # The old tree's last subtree is no prefix of the tree, so a reader does not have it.
            path.append(self._subtree(start, end))
        return path[::-1]

    def tile(self, level: int, index: int, width: int = TILE_WIDTH) -> bytes:
        """*width* hashes of tile *index* at tile level *level*, c2sp.org/tlog-tiles.

        Hash i of it is that of the complete subtree of 256^level leaves number
        256·index + i. Raises `BadRequest` where the tree has no such tile.
        """
        if level < 0 or index < 0 or not 1 <= width <= TILE_WIDTH:
            raise BadRequest(
                f"There is no tile {level}/{index} of width {width}.",
                next_step=f"Levels and indexes count from 0, widths go from 1 to {TILE_WIDTH}.",
            )
        start = index * TILE_WIDTH
        tree_level = level * TILE_HEIGHT
        complete = self.size >> tree_level if tree_level < len(self._levels) else 0
        if start + width > complete:
            raise BadRequest(
                f"Tile {level}/{index} has only {max(0, min(complete - start, TILE_WIDTH))} "
                f"of the {width} hashes asked for.",
                next_step="Ask for the width that the size of a checkpoint implies.",
            )
        row = self._levels[tree_level]
        return bytes(row[start * HASH_BYTES : (start + width) * HASH_BYTES])

    def _known(self, size: int) -> int:
        if not 0 <= size <= self.size:
            raise BadRequest(
                f"The tree has {self.size} leaves, so there is no size {size}.",
                next_step="Ask for a size up to that of the newest checkpoint.",
            )
        return size

    def subtree(self, level: int, index: int) -> bytes:
        """The hash of the complete subtree number *index* of 2^*level* leaves."""
        return bytes(self._levels[level][index * HASH_BYTES : (index + 1) * HASH_BYTES])

    def _subtree(self, start: int, end: int) -> bytes:
        """MTH(D[start:end]); *start* must be a multiple of the power of two >= end - start."""
        result = b""
        # From the right: the set bits of the length are the complete subtrees it consists of.
        for level in range((end - start).bit_length()):
            if (end - start) >> level & 1:
                node = self.subtree(level, (end >> level) - 1)
                result = node_hash(node, result) if result else node
        return result


def _split(length: int) -> int:
    """The largest power of two smaller than *length* (> 1)."""
    return 1 << (length - 1).bit_length() - 1


def verify_inclusion(
    leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes
) -> bool:
    """Whether *proof* shows *leaf* (a leaf hash) at *index* in the tree of *size* and *root*.

    RFC 9162 §2.1.3.2. The root must come from a verified checkpoint.
    """
    if not 0 <= index < size or not _hashes([leaf, *proof]):
        return False
    node, last = index, size - 1
    result = leaf
    for step in proof:
        if last == 0:
            return False
        if node & 1 or node == last:
            result = node_hash(step, result)
            while node and not node & 1:
                node >>= 1
                last >>= 1
        else:
            result = node_hash(result, step)
        node >>= 1
        last >>= 1
    return last == 0 and result == root


def verify_consistency(
    old_size: int, new_size: int, proof: Sequence[bytes], old_root: bytes, new_root: bytes
) -> bool:
    """Whether the tree (*new_size*, *new_root*) continues the tree (*old_size*, *old_root*).

    RFC 9162 §2.1.4.2; in addition every tree continues the empty one, by the empty proof.
    """
    if not 0 <= old_size <= new_size or not _hashes(proof):
        return False
    if old_size == new_size:
        return not proof and old_root == new_root
    if old_size == 0:
        return not proof and old_root == EMPTY_ROOT
    # An old tree that is one complete subtree is itself the first node of the path.
    path = [old_root, *proof] if old_size & (old_size - 1) == 0 else list(proof)
    if not path:
        return False
    node, last = old_size - 1, new_size - 1
    while node & 1:
        node >>= 1
        last >>= 1
    old = new = path[0]
    for step in path[1:]:
        if last == 0:
            return False
        if node & 1 or node == last:
            old = node_hash(step, old)
            new = node_hash(step, new)
            while node and not node & 1:
                node >>= 1
                last >>= 1
        else:
            new = node_hash(new, step)
        node >>= 1
        last >>= 1
    return last == 0 and old == old_root and new == new_root


def _hashes(values: Sequence[bytes]) -> bool:
    return all(len(each) == HASH_BYTES for each in values)
