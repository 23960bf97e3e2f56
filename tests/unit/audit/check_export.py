"""The second checker as its tests load it: one file that is no part of a package."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

__all__ = ["TOOLS", "load_checker"]

TOOLS = Path(__file__).parents[3] / "tools"


@cache
def load_checker() -> ModuleType:
    """The module of the checker."""
    spec = importlib.util.spec_from_file_location("check_export", TOOLS / "check_export.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
