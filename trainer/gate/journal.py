"""Which trials this worker posted itself, on its own disk.

What always holds: a trial is in the journal only after this worker ran it, posted it and got it
back as it was recorded; and an entry is of one opening of a gate, so it vouches for no other
candidate, policy or draw. A trial that is missing here, for whatever reason, is somebody else's.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import structlog

from reef_release.artifacts.blob_files import sync_directory
from reef_release.domain.canonical import canonical_json, sha256_hex
from reef_release.domain.decision import TrialSummary
from reef_release.domain.events import GateOpened

__all__ = ["Journal"]

_NAME = "journal.json"
_MAX_GATES = 64
_DECODER = msgspec.json.Decoder(dict[str, list[TrialSummary]])
_log = structlog.get_logger(__name__)


class Journal:
    """A file in *directory*, which one process uses at a time. `OSError` may escape."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / _NAME

    def trials(self, opened: GateOpened) -> list[TrialSummary]:
        """What this worker posted to that gate, in order."""
        return self._read().get(_digest(opened), [])

    def add(self, opened: GateOpened, trial: TrialSummary) -> None:
        """Keep *trial*, as the service recorded it."""
        gates = self._read()
        gates.setdefault(_digest(opened), []).append(trial)
        # Gates that others ended are never taken out; the oldest make room.
        self._write(dict(list(gates.items())[-_MAX_GATES:]))

    def forget(self, opened: GateOpened) -> None:
        """The gate has ended."""
        gates = self._read()
        if gates.pop(_digest(opened), None) is not None:
            self._write(gates)

    def _read(self) -> dict[str, list[TrialSummary]]:
        try:
            return _DECODER.decode(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            # The safe side: no gate in progress counts as this worker's own.
            _log.error("the journal cannot be read", path=str(self._path), why=str(error))
            return {}

    def _write(self, gates: dict[str, list[TrialSummary]]) -> None:
        written = self._path.with_suffix(".new")
        descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(msgspec.json.encode(gates))
            opened.flush()
            os.fsync(descriptor)
        written.replace(self._path)
        sync_directory(self._path.parent)


def _digest(opened: GateOpened) -> str:
    return sha256_hex(canonical_json(msgspec.to_builtins(opened)))
