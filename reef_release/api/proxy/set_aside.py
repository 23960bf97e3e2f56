"""Calls that the log will never take, kept where a person finds them.

Each is one JSON file that says why; what it holds under `request` can be mended and recorded by
hand, through `POST /reef/scenarios/{scenario}/interactions`. Nothing here is removed by the service
but what the log says is erased.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import structlog

from reef_release.api.proxy.journal import Damaged

__all__ = ["SetAside"]

_NAME = "set-aside"
_log = structlog.get_logger(__name__)


class SetAside:
    """The directory of such calls under the spool's *root*; everything here blocks."""

    def __init__(self, root: Path) -> None:
        self.directory = root / _NAME
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.count = sum(1 for _ in self.directory.glob("*.json"))

    def keep(self, call_id: str, content: bytes, why: str) -> None:
        """Set a call aside, with what was noted of it. Raises `OSError`."""
        try:
            noted = msgspec.json.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError):
            noted = {"bytes": base64.b64encode(content).decode()}
        self._write(call_id, {"why": why, **noted})
        _log.error("a call is set aside", call=call_id, why=why, directory=str(self.directory))

    def keep_line(self, damaged: Damaged) -> None:
        """Set a damaged line of a journal aside."""
        name = f"{damaged.path.parent.name}-{damaged.path.stem}-{damaged.offset}"
        why = "The line is not what was written."
        try:
            self._write(name, {"why": why, "bytes": base64.b64encode(damaged.line).decode()})
        except OSError as error:
            _log.critical("a damaged line is lost", line=name, why=str(error))
            return
        _log.error("a damaged line is set aside", line=name, directory=str(self.directory))

    def erase(self, call_ids: Iterable[str]) -> None:
        """Remove what is kept of calls that are erased. Raises `OSError`."""
        for call_id in call_ids:
            path = self.directory / f"{call_id}.json"
            if path.exists():
                path.unlink()
                self.count -= 1

    def _write(self, name: str, value: dict[str, Any]) -> None:
        path = self.directory / f"{name}.json"
        known = path.exists()
        partial = path.with_suffix(".partial")
        partial.write_bytes(msgspec.json.encode(value))
        partial.chmod(0o600)
        partial.replace(path)
        self.count += not known
