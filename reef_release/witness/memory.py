"""What a witness must not forget: the newest checkpoint that it cosigned, per log.

It is durable before the cosignature leaves, so that no crash lets a witness cosign two
histories. Notes that contradict it are kept as evidence.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from reef_release.artifacts.own_directory import OwnDirectory
from reef_release.domain.canonical import sha256_hex
from reef_release.errors import SettingsError
from reef_release.signing.note import Checkpoint

__all__ = ["Memory"]

_NAME = "seen.json"
_MAX_EVIDENCE_FILES = 100


class _Seen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    size: int
    root: str
    note: str


class Memory:
    """The directory of one witness, which one process uses at a time."""

    def __init__(self, directory: Path) -> None:
        """Raises `SettingsError` when it cannot be read or others can reach into it."""
        self._own = OwnDirectory(directory, "witness")
        path = directory / _NAME
        try:
            self._seen = msgspec.json.decode(path.read_bytes(), type=dict[str, _Seen])
        except FileNotFoundError:
            self._seen = {}
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SettingsError(
                f"{path} cannot be read: {error}.",
                next_step="Restore it. A witness that forgot must not go on under its old key.",
            ) from error

    def lock(self) -> None:
        """Keep other processes out until `close`. Raises `SettingsError` when one is in."""
        self._own.lock()

    def close(self) -> None:
        """Let others in again."""
        self._own.close()

    def newest(self) -> dict[str, Checkpoint]:
        """The newest checkpoint by origin."""
        return {
            origin: Checkpoint(seen.size, bytes.fromhex(seen.root))
            for origin, seen in self._seen.items()
        }

    def remember(self, origin: str, checkpoint: Checkpoint, note: str) -> None:
        """Make *checkpoint* the newest of *origin*."""
        seen = _Seen(size=checkpoint.size, root=checkpoint.root.hex(), note=note)
        new = self._seen | {origin: seen}
        self._own.replace(_NAME, msgspec.json.encode(new))
        self._seen = new

    def keep_evidence(self, origin: str, note: str) -> Path | None:
        """Keep *note* beside the one it contradicts; None if it was kept before."""
        directory = self._own.path / "evidence"
        directory.mkdir(mode=0o700, exist_ok=True)
        path = directory / f"{sha256_hex(note.encode('utf-8'))}.json"
        if path.exists() or len(list(directory.iterdir())) >= _MAX_EVIDENCE_FILES:
            return None
        notes = {"notes": [self._seen[origin].note, note]}
        self._own.replace(f"evidence/{path.name}", msgspec.json.encode(notes))
        return path
