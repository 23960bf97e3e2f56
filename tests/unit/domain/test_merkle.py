"""The Merkle tree against published vectors, a textbook implementation, and random trees."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reef_release.domain.merkle import (
    EMPTY_ROOT,
    TILE_WIDTH,
    MerkleTree,
    leaf_hash,
    node_hash,
    verify_consistency,
    verify_inclusion,
)
from reef_release.errors import BadRequest

# The eight entries and the roots of the Certificate Transparency reference test suite.
CT_ENTRIES = [
    bytes.fromhex(entry)
    for entry in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
CT_ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
# (index, size, path) and (old, new, path), likewise.
CT_INCLUSION = [
    (0, 1, []),
    (
        0,
        8,
        [
            "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
        ],
    ),
    (
        5,
        8,
        [
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
            "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        ],
    ),
    (2, 3, ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"]),
    (
        1,
        5,
        [
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        ],
    ),
]
CT_CONSISTENCY = [
    (1, 1, []),
    (
        1,
        8,
        [
            "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
        ],
    ),
    (
        6,
        8,
        [
            "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
            "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        ],
    ),
    (
        2,
        5,
        [
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        ],
    ),
]

LARGEST = 70
LEAVES = [leaf_hash(b"entry %d" % index) for index in range(LARGEST)]
TREE = MerkleTree(LEAVES)


def split(length: int) -> int:
    power = 1
    while power * 2 < length:
        power *= 2
    return power


def textbook_root(leaves: list[bytes]) -> bytes:
    """MTH as RFC 9162 §2.1.1 writes it."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    middle = split(len(leaves))
    return node_hash(textbook_root(leaves[:middle]), textbook_root(leaves[middle:]))


def textbook_path(index: int, leaves: list[bytes]) -> list[bytes]:
    """PATH as RFC 9162 §2.1.3.1 writes it."""
    if len(leaves) == 1:
        return []
    middle = split(len(leaves))
    if index < middle:
        return [*textbook_path(index, leaves[:middle]), textbook_root(leaves[middle:])]
    return [*textbook_path(index - middle, leaves[middle:]), textbook_root(leaves[:middle])]


def textbook_proof(old: int, leaves: list[bytes], *, whole: bool = True) -> list[bytes]:
    """SUBPROOF as RFC 9162 §2.1.4.1 writes it."""
    if old == len(leaves):
        return [] if whole else [textbook_root(leaves)]
    middle = split(len(leaves))
    if old <= middle:
        left = textbook_proof(old, leaves[:middle], whole=whole)
        return [*left, textbook_root(leaves[middle:])]
    right = textbook_proof(old - middle, leaves[middle:], whole=False)
    return [*right, textbook_root(leaves[:middle])]


def flipped(value: bytes) -> bytes:
    return bytes([value[0] ^ 1]) + value[1:]


def test_the_roots_are_those_of_the_reference_vectors() -> None:
    tree = MerkleTree()
    assert tree.root().hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    for entry, expected in zip(CT_ENTRIES, CT_ROOTS, strict=True):
        tree.append(leaf_hash(entry))
        assert tree.root().hex() == expected
    assert [tree.root(size).hex() for size in range(1, 9)] == CT_ROOTS


@pytest.mark.parametrize(("index", "size", "path"), CT_INCLUSION)
def test_inclusion_proofs_are_those_of_the_reference_vectors(
    index: int, size: int, path: list[str]
) -> None:
    tree = MerkleTree(map(leaf_hash, CT_ENTRIES))
    proof = tree.inclusion_proof(index, size)
    assert [step.hex() for step in proof] == path
    root = bytes.fromhex(CT_ROOTS[size - 1])
    assert verify_inclusion(leaf_hash(CT_ENTRIES[index]), index, size, proof, root)


@pytest.mark.parametrize(("old", "new", "path"), CT_CONSISTENCY)
def test_consistency_proofs_are_those_of_the_reference_vectors(
    old: int, new: int, path: list[str]
) -> None:
    tree = MerkleTree(map(leaf_hash, CT_ENTRIES))
    proof = tree.consistency_proof(old, new)
    assert [step.hex() for step in proof] == path
    roots = [bytes.fromhex(CT_ROOTS[size - 1]) for size in (old, new)]
    assert verify_consistency(old, new, proof, *roots)


def test_every_earlier_root_and_proof_equals_the_textbook() -> None:
    for size in range(LARGEST + 1):
        root = textbook_root(LEAVES[:size])
        assert TREE.root(size) == root
        for index in range(size):
            proof = TREE.inclusion_proof(index, size)
            assert proof == textbook_path(index, LEAVES[:size])
            assert verify_inclusion(LEAVES[index], index, size, proof, root)
        for old in range(1, size + 1):
            proof = TREE.consistency_proof(old, size)
            assert proof == textbook_proof(old, LEAVES[:size])
            assert verify_consistency(old, size, proof, TREE.root(old), root)


def test_an_inclusion_proof_holds_for_no_other_position_size_leaf_or_root() -> None:
    for size in range(1, 24):
        root = TREE.root(size)
        for index in range(size):
            proof = TREE.inclusion_proof(index, size)
            leaf = LEAVES[index]
            for other in range(size):
                if other != index:
                    assert not verify_inclusion(leaf, other, size, proof, root)
                    assert not verify_inclusion(LEAVES[other], index, size, proof, root)
            assert not verify_inclusion(leaf, index, size, proof, flipped(root))
            assert not verify_inclusion(leaf, index, size, [*proof, root], root)
            assert not verify_inclusion(leaf, -1, size, proof, root)
            assert not verify_inclusion(leaf, size, size, proof, root)
            for at in range(len(proof)):
                bad = [*proof[:at], flipped(proof[at]), *proof[at + 1 :]]
                assert not verify_inclusion(leaf, index, size, bad, root)
                assert not verify_inclusion(leaf, index, size, proof[:at], root)


def test_a_consistency_proof_holds_for_no_other_pair_of_trees() -> None:
    for new in range(1, 24):
        for old in range(1, new + 1):
            proof = TREE.consistency_proof(old, new)
            roots = TREE.root(old), TREE.root(new)
            assert not verify_consistency(old, new, proof, flipped(roots[0]), roots[1])
            assert not verify_consistency(old, new, proof, roots[0], flipped(roots[1]))
            assert not verify_consistency(old, new, [*proof, roots[0]], *roots)
            for at in range(len(proof)):
                bad = [*proof[:at], flipped(proof[at]), *proof[at + 1 :]]
                assert not verify_consistency(old, new, bad, *roots)
                assert not verify_consistency(old, new, proof[:at], *roots)
            for other in range(1, new + 1):
                if other != old:
                    assert not verify_consistency(other, new, proof, *roots)


def test_a_smaller_tree_never_continues_a_larger_one() -> None:
    assert not verify_consistency(5, 4, [], TREE.root(5), TREE.root(4))
    assert not verify_consistency(-1, 4, [], EMPTY_ROOT, TREE.root(4))


def test_the_same_size_with_another_root_is_no_continuation() -> None:
    assert verify_consistency(5, 5, [], TREE.root(5), TREE.root(5))
    assert not verify_consistency(5, 5, [], TREE.root(5), flipped(TREE.root(5)))


def test_every_tree_continues_the_empty_one_and_only_by_the_empty_proof() -> None:
    assert TREE.consistency_proof(0, 5) == []
    assert verify_consistency(0, 5, [], EMPTY_ROOT, TREE.root(5))
    assert not verify_consistency(0, 5, [EMPTY_ROOT], EMPTY_ROOT, TREE.root(5))
    assert not verify_consistency(0, 5, [], TREE.root(1), TREE.root(5))


def test_a_proof_of_hashes_with_another_length_does_not_hold() -> None:
    root, proof = TREE.root(2), TREE.inclusion_proof(0, 2)
    assert not verify_inclusion(LEAVES[0], 0, 2, [proof[0] + b"\x00"], root)
    assert not verify_inclusion(LEAVES[0][:31], 0, 2, proof, root)
    assert not verify_consistency(2, 3, [b""], TREE.root(2), TREE.root(3))


@pytest.mark.parametrize(
    "ask",
    [
        lambda: TREE.root(LARGEST + 1),
        lambda: TREE.root(-1),
        lambda: TREE.inclusion_proof(5, 5),
        lambda: TREE.inclusion_proof(-1, 5),
        lambda: TREE.inclusion_proof(0, LARGEST + 1),
        lambda: TREE.consistency_proof(6, 5),
        lambda: TREE.consistency_proof(-1, 5),
        lambda: TREE.consistency_proof(1, LARGEST + 1),
        lambda: TREE.tile(0, 0, LARGEST + 1),
        lambda: TREE.tile(0, 1, 1),
        lambda: TREE.tile(0, 0, 0),
        lambda: TREE.tile(0, 0, TILE_WIDTH + 1),
        lambda: TREE.tile(-1, 0, 1),
        lambda: TREE.tile(0, -1, 1),
        lambda: TREE.tile(1, 0, 1),
        lambda: TREE.tile(63, 0, 1),
        lambda: MerkleTree([b"an entry, not its hash"]),
    ],
)
def test_what_the_tree_does_not_have_is_a_bad_request(ask: object) -> None:
    with pytest.raises(BadRequest):
        ask()  # type: ignore[operator]


def test_tiles_are_the_complete_subtrees_of_256_to_the_level() -> None:
    # The example of c2sp.org/tlog-tiles, whose tree has 70,000 leaves.
    tree = MerkleTree(leaf_hash(index.to_bytes(3)) for index in range(70_000))
    full = tree.tile(0, 272)
    assert len(full) == 8192
    assert full[:32] == leaf_hash((272 * 256).to_bytes(3))
    assert len(tree.tile(0, 273, 112)) == 112 * 32
    assert (
        tree.tile(1, 0)[5 * 32 : 6 * 32]
        == MerkleTree(leaf_hash(index.to_bytes(3)) for index in range(5 * 256, 6 * 256)).root()
    )
    assert len(tree.tile(1, 1, 17)) == 17 * 32
    assert tree.tile(2, 0, 1) == tree.root(65_536)
    for level, index, width in ((0, 273, 113), (1, 1, 18), (2, 0, 2), (3, 0, 1)):
        with pytest.raises(BadRequest):
            tree.tile(level, index, width)


def test_a_root_can_be_computed_from_tiles_alone() -> None:
    tree = MerkleTree(leaf_hash(index.to_bytes(3)) for index in range(700))
    upper, partial = tree.tile(1, 0, 2), tree.tile(0, 2, 700 - 512)
    leaves = [partial[at : at + 32] for at in range(0, len(partial), 32)]
    left = node_hash(upper[:32], upper[32:])
    assert node_hash(left, textbook_root(leaves)) == tree.root()


@given(st.lists(st.binary(max_size=8), max_size=300), st.data())
def test_any_tree_proves_any_leaf_and_any_prefix(entries: list[bytes], data: st.DataObject) -> None:
    tree = MerkleTree(map(leaf_hash, entries))
    size = data.draw(st.integers(0, len(entries)))
    old = data.draw(st.integers(0, size))
    assert tree.root(size) == textbook_root([leaf_hash(entry) for entry in entries[:size]])
    proof = tree.consistency_proof(old, size)
    assert verify_consistency(old, size, proof, tree.root(old), tree.root(size))
    if size:
        index = data.draw(st.integers(0, size - 1))
        proof = tree.inclusion_proof(index, size)
        assert verify_inclusion(leaf_hash(entries[index]), index, size, proof, tree.root(size))


@given(
    st.integers(-1, 40),
    st.integers(-1, 40),
    st.lists(st.binary(min_size=32, max_size=32), max_size=8),
)
def test_random_proofs_never_hold_and_never_fail_otherwise(
    old: int, new: int, proof: list[bytes]
) -> None:
    root = hashlib.sha256(b"some root").digest()
    assert not verify_inclusion(LEAVES[0], old, new, proof, root)
    if old != 0 and old != new:
        assert not verify_consistency(old, new, proof, root, flipped(root))
