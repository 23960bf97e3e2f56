"""Named SQL: files in which each statement follows a line `-- name: something`.

Comment lines between the name and the statement belong to the statement; what stands before
the first name describes the file.
"""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["load_statements"]

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def load_statements(path: Path) -> dict[str, str]:
    """The statements of *path* by name, in the order of the file."""
    _, *parts = _NAME.split(path.read_text("utf-8"))
    statements = dict(zip(parts[::2], (part.strip() for part in parts[1::2]), strict=True))
    if len(statements) * 2 != len(parts):
        raise ValueError(f"{path} names a statement twice")
    return statements
