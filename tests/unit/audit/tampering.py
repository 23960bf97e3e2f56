"""An export in the hands of somebody who wants it to say something else.

`Tampered` is a copy of a good export. Its methods change what they say and then make the folder
consistent again (segments, manifest), as a careful forger would, so that what an audit finds is
the crime and not its clumsiness. With `resign` the forger also has the log's key.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from reef_release.audit import layout
from reef_release.domain.canonical import canonical_json, sha256_hex
from reef_release.domain.merkle import MerkleTree, leaf_hash
from reef_release.signing.keys import Role, SigningKey
from reef_release.signing.note import sign_checkpoint
from tests.world import ORIGIN, World


class Tampered:
    """A copy of the export in *source*, in *path*."""

    def __init__(self, source: Path, path: Path, world: World) -> None:
        shutil.copytree(source, path)
        self.path = path
        self.world = world

    # Events

    def bodies(self) -> list[bytes]:
        files = sorted((self.path / layout.EVENTS).iterdir())
        return [line for file in files for line in file.read_bytes().splitlines()]

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(body) for body in self.bodies()]

    def position_of(self, type_name: str, nth: int = -1) -> int:
        """The position of the nth event of a type, the last one by default."""
        found = [event["position"] for event in self.events() if event["type"] == type_name]
        return int(found[nth])

    def write(self, bodies: Sequence[bytes]) -> None:
        """Replace all events, with segments and manifest that fit."""
        folder = self.path / layout.EVENTS
        shutil.rmtree(folder)
        folder.mkdir()
        segments = []
        for first in range(0, len(bodies), layout.SEGMENT_EVENTS):
            lines = bodies[first : first + layout.SEGMENT_EVENTS]
            data = b"".join(line + b"\n" for line in lines)
            (folder / layout.segment_name(first)).write_bytes(data)
            segments.append({"first": first, "count": len(lines), "size_bytes": len(data)})
        self.manifest(segments=segments, size=len(bodies))

    def write_events(self, events: Sequence[dict[str, Any]]) -> None:
        self.write([canonical_json(event) for event in events])

    def edit(self, position: int, **fields: Any) -> None:
        """Change fields of an event's envelope."""
        events = self.events()
        events[position].update(fields)
        self.write_events(events)

    def edit_data(self, position: int, **fields: Any) -> None:
        """Change fields of an event's data."""
        events = self.events()
        events[position]["data"].update(fields)
        self.write_events(events)

    def renumber(self, events: list[dict[str, Any]]) -> None:
        """Write events with positions and versions that fit again."""
        versions: dict[tuple[str, str], int] = {}
        for position, event in enumerate(events):
            key = (event["scenario"], event["stream"])
            versions[key] = versions.get(key, 0) + 1
            event.update(position=position, version=versions[key])
        self.write_events(events)

    # The checkpoint

    def note(self) -> str:
        return (self.path / layout.CHECKPOINT).read_text("utf-8")

    def set_note(self, note: str) -> None:
        (self.path / layout.CHECKPOINT).write_text(note, "utf-8")
        self.manifest(size=int(note.split("\n")[1]))

    def resign(self, key: SigningKey | None = None) -> None:
        """Sign the events as they are now, published checkpoints included."""
        key = key or self.world.keys[Role.LOG]
        bodies: list[bytes] = []
        tree = MerkleTree()
        for event in self.events():
            if event["type"] == "checkpoint.published":
                size = event["data"]["size"]
                root = tree.root(size)
                note = sign_checkpoint(ORIGIN, size, root, key)
                event["data"].update(root=root.hex(), note=note)
            bodies.append(canonical_json(event))
            tree.append(leaf_hash(bodies[-1]))
        self.write(bodies)
        self.set_note(sign_checkpoint(ORIGIN, tree.size, tree.root(), key))

    def resign_head(self) -> None:
        """Sign the events as they are now, whatever the checkpoints published in them say."""
        tree = MerkleTree(map(leaf_hash, self.bodies()))
        key = self.world.keys[Role.LOG]
        self.set_note(sign_checkpoint(ORIGIN, tree.size, tree.root(), key))

    # Files

    def manifest(self, **fields: Any) -> None:
        """Change the manifest so that it fits, or does not."""
        path = self.path / layout.MANIFEST
        value = json.loads(path.read_bytes())
        value.update(fields)
        path.write_bytes(canonical_json(value))

    def blob(self, digest: str) -> Path:
        return self.path / layout.BLOBS / digest

    def put_blob(self, data: bytes) -> str:
        digest = sha256_hex(data)
        self.blob(digest).write_bytes(data)
        self.list_blobs()
        return digest

    def list_blobs(self) -> None:
        """Make the manifest list the blobs that are there."""
        files = sorted((self.path / layout.BLOBS).iterdir())
        self.manifest(
            blobs=[{"sha256": file.name, "size_bytes": file.stat().st_size} for file in files]
        )

    def rewrite_blob(self, digest: str, change: Callable[[bytes], bytes]) -> str:
        """Store a changed copy of a blob under its own new digest, which is returned."""
        return self.put_blob(change(self.blob(digest).read_bytes()))
