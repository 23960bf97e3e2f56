"""What a file is by its first bytes and by its name: archives, pickles and code have no place
beside weights, whatever they are called.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["SNIFF_BYTES", "Content", "by_name", "sniff"]

SNIFF_BYTES = 512


class Content(NamedTuple):
    """A kind of file that is refused: the finding's code, and its name in plain words."""

    code: str
    what: str


_MAGIC: tuple[tuple[int, bytes, Content], ...] = (
    (0, b"PK\x03\x04", Content("archive", "a ZIP archive")),
    (0, b"PK\x05\x06", Content("archive", "a ZIP archive")),
    (0, b"\x1f\x8b", Content("archive", "gzip data")),
    (0, b"BZh", Content("archive", "bzip2 data")),
    (0, b"\xfd7zXZ\x00", Content("archive", "xz data")),
    (0, b"\x28\xb5\x2f\xfd", Content("archive", "zstandard data")),
    (0, b"\x04\x22\x4d\x18", Content("archive", "LZ4 data")),
    (0, b"7z\xbc\xaf\x27\x1c", Content("archive", "a 7z archive")),
    (0, b"Rar!\x1a\x07", Content("archive", "a RAR archive")),
    (257, b"ustar", Content("archive", "a tar archive")),
    (0, b"\x93NUMPY", Content("pickle", "a NumPy array, which may hold pickles")),
    (0, b"\x7fELF", Content("code-file", "an ELF binary")),
    (0, b"MZ", Content("code-file", "a Windows binary")),
    (0, b"\xcf\xfa\xed\xfe", Content("code-file", "a Mach-O binary")),
    (0, b"#!", Content("code-file", "a script")),
)

_ARCHIVE = Content("archive", "an archive by its name")
_PICKLE = Content("pickle", "a pickle by its name, which runs code when it is loaded")
_CODE = Content("code-file", "code by its name")
_EXTENSIONS: dict[Content, frozenset[str]] = {
    _ARCHIVE: frozenset(
        {"7z", "bz2", "egg", "gz", "jar", "lz4", "nemo", "rar", "tar", "tbz2", "tgz", "txz"}
        | {"whl", "xz", "zip", "zst"}
    ),
    _PICKLE: frozenset(
        {"bin", "ckpt", "dill", "joblib", "mar", "msgpack", "npy", "npz", "pckl", "pickle"}
        | {"pkl", "pt", "pt2", "pth"}
    ),
    _CODE: frozenset(
        {"bat", "c", "cc", "cmd", "cpp", "cu", "cuh", "dll", "dylib", "exe", "h", "ipynb", "js"}
        | {"lua", "mjs", "pl", "ps1", "py", "pyc", "pyd", "pyi", "pyo", "pyw", "pyx", "pyz", "r"}
        | {"rb", "sh", "so", "ts", "vbs", "wasm"}
    ),
}


def sniff(head: bytes) -> Content | None:
    """What a file is by its first bytes (up to `SNIFF_BYTES`), if it is one of the refused."""
    for offset, magic, content in _MAGIC:
        if head[offset : offset + len(magic)] == magic:
            return content
    if len(head) >= 2 and head[0] == 0x80 and 2 <= head[1] <= 5:
        return Content("pickle", "a pickle, which runs code when it is loaded")
    return None


def by_name(path: str) -> Content | None:
    """What a file is by its extension, if that is one of the refused; case does not matter."""
    _, dot, extension = path.lower().rpartition(".")
    if not dot:
        return None
    return next((what for what, names in _EXTENSIONS.items() if extension in names), None)
