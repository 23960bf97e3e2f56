"""What a node keeps on disk besides weights: memory, roots, proofs, evidence.

Every file is written whole beside its name, synced, and renamed, so a crash leaves the old or
the new one. The directory is the node's alone (0700), and one process uses it at a time.
Whoever can write to it can make the node forget; it is as trusted as the node's own code.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from reef_release.artifacts.own_directory import OwnDirectory
from reef_release.domain.canonical import sha256_hex
from reef_release.errors import SettingsError
from reef_release.node.case import Material
from reef_release.node.trusted import Memory

__all__ = ["Evidence", "Served", "Vault"]

_T = TypeVar("_T")
_FORMAT = 1
_MAX_EVIDENCE_FILES = 100


class Served(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The last good release with all that proved it: enough to judge it again without network.

    `foundation` is the release under an adapter. `document` and `canaries` are the JSON texts as
    they came; `canary_difference` is a decimal in nats.
    """

    release_id: str
    foundation: str | None = None
    pointer_position: int
    serial: int
    document: str
    material: Material
    canaries: str
    canary_difference: str
    loaded_at: str


class Evidence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Two documents that contradict each other, as they came, and what leads to their keys.

    `roots` are the trust roots after the anchor; `proof` is hex, from the tree of `accepted` to
    that of `received`, empty where the service gave none.
    """

    scenario: str
    channel: str
    origin: str
    roots: list[str]
    accepted: str | None
    received: str
    proof: list[str]


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: int
    content: msgspec.Raw


class Vault:
    """The directory of one node."""

    def __init__(self, directory: Path) -> None:
        """Raises `SettingsError` when others can reach into *directory*."""
        self.directory = directory
        self._own = OwnDirectory(directory, "node")

    def lock(self) -> None:
        """Keep other processes out until `close`. Raises `SettingsError` when one is in."""
        self._own.lock()

    def close(self) -> None:
        """Let others in again."""
        self._own.close()

    def memory(self, anchor: str, scenario: str, channel: str) -> Memory:
        """The memory, a new one at first. Raises `SettingsError` if it is of another node."""
        new = Memory(anchor=sha256_hex(anchor.encode()), scenario=scenario, channel=channel)
        kept = self._read("memory.json", Memory)
        if kept is None:
            return new
        if (kept.anchor, kept.scenario, kept.channel) != (new.anchor, scenario, channel):
            raise SettingsError(
                f"{self.directory} is of a node for {kept.channel} of {kept.scenario}, or with "
                "another trust root.",
                next_step="Give each node, and each trust root, a directory of its own.",
            )
        return kept

    def save_memory(self, memory: Memory) -> None:
        """Make *memory* durable."""
        self._write("memory.json", memory)

    def successors(self) -> list[str]:
        """The texts of the roots after the anchor, oldest first."""
        return self._read("roots.json", list[str]) or []

    def save_successors(self, texts: list[str]) -> None:
        """Make the chain durable."""
        self._write("roots.json", texts)

    def served(self) -> Served | None:
        """The last good release."""
        return self._read("served.json", Served)

    def save_served(self, served: Served) -> None:
        """Make the last good release durable."""
        self._write("served.json", served)

    def keep_accepted(self, document: bytes) -> None:
        """Keep the newest accepted document: half of what would show an equivocation."""
        self._own.replace("accepted.json", document)

    def keep_evidence(self, document: bytes, origin: str, proof: Sequence[bytes]) -> Path | None:
        """Keep a document that contradicts an accepted one, and that one; None if kept before.

        *proof* is what the service gave to show that one tree continues the other. The file
        holds all that `evidence` needs beside the trust root.
        """
        directory = self.directory / "evidence"
        directory.mkdir(mode=0o700, exist_ok=True)
        path = directory / f"{sha256_hex(document)}.json"
        if path.exists() or len(list(directory.iterdir())) >= _MAX_EVIDENCE_FILES:
            return None
        accepted = self.directory / "accepted.json"
        memory = self._read("memory.json", Memory)
        evidence = Evidence(
            scenario=memory.scenario if memory else "",
            channel=memory.channel if memory else "",
            origin=origin,
            roots=self.successors(),
            accepted=accepted.read_text("utf-8") if accepted.exists() else None,
            received=document.decode("utf-8", "backslashreplace"),
            proof=[each.hex() for each in proof],
        )
        self._own.replace(f"evidence/{path.name}", msgspec.json.encode(evidence))
        return path

    def _read(self, name: str, kind: type[_T]) -> _T | None:
        path = self.directory / name
        try:
            file = msgspec.json.decode(path.read_bytes(), type=_File)
            if file.format != _FORMAT:
                raise SettingsError(
                    f"{path} has format {file.format}; this version knows {_FORMAT}.",
                    next_step="Use the version that wrote it, or a newer one.",
                )
            return msgspec.json.decode(file.content, type=kind)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SettingsError(
                f"{path} cannot be read: {error}.",
                next_step="Restore it. Only as a last resort move the whole directory away: the "
                "node then forgets what it must not go back behind.",
            ) from error

    def _write(self, name: str, content: object) -> None:
        raw = msgspec.Raw(msgspec.json.encode(content))
        self._own.replace(name, msgspec.json.encode(_File(format=_FORMAT, content=raw)))
