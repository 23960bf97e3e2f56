"""What a verification leaves for the next one, so that the events before need no second reading.

The subtrees of the tree fix every event before: they must give the root of the signed checkpoint
that is kept with them. Roots, keys and the last published checkpoint are kept as stored bytes and
checked again from the anchor on. The rest is only as good as the file, whose digest shows damage.
"""

from __future__ import annotations

import msgspec

from reef_release.audit.resumed_tree import ResumedTree, frontier
from reef_release.audit.walk import Walk
from reef_release.domain.canonical import canonical_json, parse_json, sha256_hex
from reef_release.errors import BadRequest, ReefError

__all__ = ["SavedState", "restore", "save"]

FORMAT = "reef-release-verify-state-1"
_NEXT = "Verify a whole export, with --state and the name of a new file."


class SavedState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The state after `size` events; hashes are hex.

    `covered` is the size of the last published checkpoint (0 without one), `frontier` the
    subtrees of it, `leaves` the leaf hashes behind it. `versions` are the last ones by scenario
    and stream, `trust` events of roots and keys in order, `blobs` the digests that were there.
    """

    format: str
    anchor: str
    origin: str
    size: int
    root: str
    note: str
    covered: int
    frontier: list[str]
    leaves: list[str]
    versions: dict[str, dict[str, int]]
    trust: list[str]
    blobs: list[str]
    first_recorded_at: str | None
    last_recorded_at: str | None


def save(walk: Walk, anchor: str, note: str) -> str:
    """The state after a good *walk* to the checkpoint *note*, as text for a file."""
    state, tree = walk.state, walk.state.tree
    last = state.checkpoints[-1] if state.checkpoints else None
    covered = last.size if last else 0
    versions: dict[str, dict[str, int]] = {}
    for (scenario, stream), version in walk.structure.versions.items():
        versions.setdefault(scenario, {})[stream] = version
    published = [each for each in walk.trust if '"type":"checkpoint.published"' in each][-1:]
    kept = [
        each
        for each in walk.trust
        if each in published or '"type":"checkpoint.published"' not in each
    ]
    origin, size, root = walk.checks.checkpoint(note, state.active_keys("log"))
    saved = SavedState(
        format=FORMAT,
        anchor=sha256_hex(anchor.encode("utf-8")),
        origin=origin,
        size=size,
        root=root,
        note=note,
        covered=covered,
        frontier=[each.hex() for each in frontier(tree, covered)],
        leaves=[tree.subtree(0, index).hex() for index in range(covered, size)],
        versions=versions,
        trust=kept,
        blobs=sorted(walk.known),
        first_recorded_at=walk.structure.first_recorded_at,
        last_recorded_at=walk.structure.last_recorded_at,
    )
    value = msgspec.to_builtins(saved)
    digest = sha256_hex(canonical_json(value))
    return canonical_json({"sha256": digest, "state": value}).decode("utf-8")


def restore(walk: Walk, text: str, anchor: str) -> SavedState:
    """Put *walk* behind the events of the state in *text*. Raises `BadRequest`."""
    try:
        outer = parse_json(text.encode("utf-8"))
        if not isinstance(outer, dict) or "state" not in outer or "sha256" not in outer:
            raise BadRequest("It is no state that a verification left.")
        value = outer["state"]
        saved = msgspec.convert(value, SavedState)
        whole = sha256_hex(canonical_json(value)) == outer["sha256"] and saved.format == FORMAT
        if not whole:
            raise BadRequest("It was altered since it was written.")
        if saved.anchor != sha256_hex(anchor.encode("utf-8")):
            raise BadRequest("It is of a log with another trust root.")
        tree = ResumedTree(saved.covered, [bytes.fromhex(each) for each in saved.frontier])
        for leaf in saved.leaves:
            tree.append(bytes.fromhex(leaf))
        walk.resume(tree, saved.trust, saved.blobs)
        said = walk.checks.checkpoint(saved.note, walk.state.active_keys("log"))
        if said != (saved.origin, tree.size, tree.root().hex()):
            raise BadRequest("Its tree is not the one that its checkpoint signs.")
        if said != (saved.origin, saved.size, saved.root):
            raise BadRequest("It does not say what its checkpoint says.")
    except (ReefError, msgspec.ValidationError, KeyError, TypeError, ValueError) as error:
        raise BadRequest(
            f"The saved state cannot be gone on from: {error}", next_step=_NEXT
        ) from error
    versions = {
        (scenario, stream): version
        for scenario, streams in saved.versions.items()
        for stream, version in streams.items()
    }
    walk.structure.go_on(saved.size, versions, saved.first_recorded_at, saved.last_recorded_at)
    return saved
