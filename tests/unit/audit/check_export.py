"""The second checker as its tests load it: the script and the two files beside it."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

__all__ = ["TOOLS", "load_checker"]

TOOLS = Path(__file__).parents[3] / "tools"


def load_checker(name: str = "check_export") -> ModuleType:
    """A module of the checker, found as Python finds it when the script is run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(TOOLS)
        return importlib.import_module(name)
