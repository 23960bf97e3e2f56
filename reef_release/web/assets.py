"""Static files under a path that names their content, so that a browser keeps them for ever.

All files share one digest in their path: a script may import its neighbour by a relative path, and
a page never mixes two versions. The vendored files are compared with their recorded digests.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

__all__ = ["Asset", "asset_path", "assets", "digest", "vendored"]

_ROOT = Path(__file__).with_name("static")
_TYPES = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".LICENSE": "text/plain",
}


class Asset(msgspec.Struct, frozen=True, kw_only=True):
    """One file: its bytes, their media type and their entity tag."""

    body: bytes
    media_type: str
    etag: str


@cache
def assets() -> Mapping[str, Asset]:
    """Every static file by its path under `static/`."""
    return {
        path.relative_to(_ROOT).as_posix(): _asset(path)
        for path in sorted(_ROOT.rglob("*"))
        if path.is_file() and path.suffix in _TYPES
    }


@cache
def digest() -> str:
    """What stands in the path of every file: a digest over all of them."""
    found = hashlib.sha256()
    for name, asset in assets().items():
        found.update(f"{name}\0{asset.etag}\0".encode())
    return found.hexdigest()[:16]


def asset_path(name: str) -> str:
    """Where the browser finds the file *name*; a name that is not there is a defect."""
    if name not in assets():
        raise KeyError(f"there is no static file {name!r}")
    return f"/static/{digest()}/{name}"


def vendored() -> Mapping[str, str]:
    """The recorded SHA-256 of every vendored file, by its path under `static/`."""
    record = json.loads((_ROOT / "vendor" / "vendored.json").read_text("utf-8"))
    return {f"vendor/{name}": sha256 for name, sha256 in record["files"].items()}


def _asset(path: Path) -> Asset:
    body = path.read_bytes()
    tag = hashlib.sha256(body).hexdigest()[:32]
    return Asset(body=body, media_type=_TYPES[path.suffix], etag=f'"{tag}"')
