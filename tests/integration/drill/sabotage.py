"""Takes one check out of a function while it runs, whoever has imported that function."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

__all__ = ["disable"]


def disable(
    monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any], check: str, instead: str
) -> None:
    """Run *function* from now on as if *instead* stood where *check* stands in its source."""
    source = textwrap.dedent(inspect.getsource(function))
    definition = re.search(r"^(async )?def ", source, re.MULTILINE)
    assert definition is not None
    source = source[definition.start() :]
    assert source.count(check) == 1, f"{function.__qualname__} has no line {check!r}"
    changed = "from __future__ import annotations\n" + source.replace(check, instead)
    names = dict(function.__globals__)
    exec(compile(changed, f"<{function.__qualname__}, changed>", "exec"), names)
    monkeypatch.setattr(function, "__code__", names[function.__name__].__code__)
