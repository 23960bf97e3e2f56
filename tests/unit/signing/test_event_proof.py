"""The proof of one event: made from a tree, opened with the log's key alone."""

from __future__ import annotations

import pytest

from reef_release.domain.merkle import MerkleTree, leaf_hash
from reef_release.errors import BadRequest, SignatureRejected
from reef_release.signing.event_proof import event_proof, open_event_proof
from reef_release.signing.keys import Role, create_key
from reef_release.signing.note import sign_checkpoint

ORIGIN = "reef.test/log"
KEY = create_key(Role.LOG)
BODIES = [b'{"position":%d}' % position for position in range(13)]
TREE = MerkleTree(map(leaf_hash, BODIES))


def note(size: int) -> str:
    return sign_checkpoint(ORIGIN, size, TREE.root(size), KEY)


def refused(proof: str, body: bytes = BODIES[5]) -> str:
    with pytest.raises(SignatureRejected) as caught:
        open_event_proof(proof, body, [KEY.public])
    return caught.value.reasons[0].code


def test_every_event_of_every_tree_is_proven() -> None:
    for size in range(1, len(BODIES) + 1):
        for position in range(size):
            proof = event_proof(TREE, position, size, note(size))
            proven = open_event_proof(proof, BODIES[position], [KEY.public])
            assert proven == (position, ORIGIN, size, TREE.root(size))


def test_the_text_is_that_of_the_specification() -> None:
    lines = event_proof(TREE, 5, 13, note(13)).split("\n")
    assert lines[:2] == ["c2sp.org/tlog-proof@v1", "index 5"]
    assert [len(line) for line in lines[2:6]] == [44, 44, 44, 44]
    assert lines[6] == ""
    assert "\n".join(lines[7:]) == note(13)


def test_the_only_event_of_a_log_needs_no_hashes() -> None:
    proof = event_proof(TREE, 0, 1, note(1))
    assert proof == "c2sp.org/tlog-proof@v1\nindex 0\n\n" + note(1)
    assert open_event_proof(proof, BODIES[0], [KEY.public]).position == 0


def test_other_bytes_and_other_places_are_refused() -> None:
    proof = event_proof(TREE, 5, 13, note(13))
    assert refused(proof, BODIES[5] + b" ") == "not-in-log"
    assert refused(proof, BODIES[6]) == "not-in-log"
    assert refused(proof.replace("index 5", "index 4")) == "not-in-log"
    lines = proof.split("\n")
    lines[2], lines[3] = lines[3], lines[2]
    assert refused("\n".join(lines)) == "not-in-log"
    del lines[2]
    assert refused("\n".join(lines)) == "not-in-log"


def test_a_checkpoint_by_another_key_is_refused() -> None:
    other = sign_checkpoint(ORIGIN, 13, TREE.root(), create_key(Role.LOG))
    assert refused(event_proof(TREE, 5, 13, other)) == "no-trusted-key"


@pytest.mark.parametrize(
    "change",
    [
        lambda proof: proof.replace("@v1", "@v2"),
        lambda proof: proof.replace("index 5", "index 05"),
        lambda proof: proof.replace("index 5", "index -5"),
        lambda proof: proof.replace("index 5", "extra AAAA\nindex 5"),
        lambda proof: proof.replace("index 5\n", "index 5\n" + 65 * f"{44 * 'A'}\n"),
        lambda proof: proof.replace("index 5\n", "index 5\nAAAA\n"),
        lambda proof: proof.replace("\n\n", "\n"),
        lambda proof: "",
        lambda proof: proof[:40],
    ],
)
def test_a_text_in_another_form_is_refused(change: object) -> None:
    assert callable(change)
    assert refused(change(event_proof(TREE, 5, 13, note(13)))) in {"malformed", "base64"}


def test_no_proof_is_made_from_a_checkpoint_of_another_tree() -> None:
    with pytest.raises(BadRequest, match="another tree"):
        event_proof(TREE, 5, 13, note(12))
    with pytest.raises(BadRequest, match="not in a tree"):
        event_proof(TREE, 13, 13, note(13))
