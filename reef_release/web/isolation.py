"""The one place that every text passes on its way into a page.

Each value that a template prints goes through `printed`, each finished page through `laid_out`, and
what scripts are given through `printed_json`. So no template can forget: on no page stands a
character that prints nothing or turns the direction of others, and a text that runs from right
to left keeps its direction to itself.

Between the two, a value of such letters stands between the marks that Unicode has for that; in the
finished page they become `bdi` elements where elements may stand.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from reef_release.domain.visible import visible, visible_values

__all__ = ["dump_printed", "laid_out", "printed", "printed_json"]

_FIRST, _LAST = "\u2068", "\u2069"
_RIGHT_TO_LEFT = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
"""The blocks whose letters, and digits, run from right to left."""

_PART = re.compile(r"""<(/?)(\w*)(?:"[^"]*"|[^">])*>|[^<]+""")
_WITHOUT_ELEMENTS = frozenset({"option", "svg", "textarea", "title"})
_MARKS = re.compile(f"[{_FIRST}{_LAST}]")


def printed(value: Any) -> Any:
    """What a template prints of *value*; what is markup already went through here before."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    text = visible(value)
    return f"{_FIRST}{text}{_LAST}" if _RIGHT_TO_LEFT.search(text) else text


def laid_out(page: str) -> str:
    """The finished *page*, with the marks of `printed` as elements."""
    if _MARKS.search(page):
        page = "".join(_parts(page))
    return visible(page)


def dump_printed(value: Any, **options: Any) -> str:
    """JSON for a script, within a page."""
    return json.dumps(visible_values(value), **options)


def printed_json(value: Any) -> bytes:
    """JSON for a script, by itself."""
    return msgspec.json.encode(visible_values(msgspec.to_builtins(value)))


def _parts(page: str) -> list[str]:
    found: list[str] = []
    within: list[str] = []
    for part in _PART.finditer(page):
        text, closes, name = part[0], part[1], part[2]
        if name is not None:
            if name in _WITHOUT_ELEMENTS and not text.endswith("/>"):
                _step(within, name, closes=bool(closes))
            found.append(_MARKS.sub("", text))
        elif within:
            found.append(_MARKS.sub("", text))
        else:
            found.append(text.replace(_FIRST, "<bdi>").replace(_LAST, "</bdi>"))
    return found


def _step(within: list[str], name: str, *, closes: bool) -> None:
    if not closes:
        within.append(name)
    elif name in within:
        within.pop()
