"""Tool calls of a streamed reply, put together by their index."""

from __future__ import annotations

from typing import Any

__all__ = ["ToolCalls"]


class ToolCalls:
    """What came of them so far."""

    def __init__(self) -> None:
        self._calls: dict[int, dict[str, Any]] = {}

    def take(self, pieces: Any) -> None:
        """Take in the `tool_calls` of one delta; what is none is left out."""
        for piece in pieces if isinstance(pieces, list) else ():
            if isinstance(piece, dict):
                call = self._calls.setdefault(self._index(piece), {})
                for name, value in piece.items():
                    if name == "function" and isinstance(value, dict):
                        _join_function(call.setdefault("function", {}), value)
                    elif name != "index" and value not in (None, ""):
                        call[name] = value

    def whole(self) -> list[dict[str, Any]]:
        """The calls in their order, as a message has them."""
        return [{"type": "function", **call} for _, call in sorted(self._calls.items()) if call]

    def _index(self, piece: dict[str, Any]) -> int:
        index = piece.get("index")
        if isinstance(index, int):
            return index
        # Some servers leave the index out: an id that is new begins another call.
        last = max(self._calls, default=-1)
        known = self._calls.get(last, {}).get("id")
        return last + 1 if last < 0 or piece.get("id") not in (None, "", known) else last


def _join_function(function: dict[str, Any], piece: dict[str, Any]) -> None:
    for name, value in piece.items():
        before = function.get(name)
        if name == "arguments" and isinstance(before, str) and isinstance(value, str):
            function[name] = before + value
        elif value is not None and (value != "" or before is None):
            # The name comes whole; some servers repeat it with every piece.
            function[name] = value
