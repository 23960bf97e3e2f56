"""Text of other people inside a prompt: fenced, so that it cannot pose as the prompt.

What always holds: a fence does not occur in any text between fences, so no text can close its
own section or open another. It is a digest of all texts that it separates; whoever wants to
write it into one of them would have to know a digest of what they are still writing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import msgspec

__all__ = ["Section", "fence_for", "read_sections", "write_sections"]

_DIGITS = 16
_OPENING = re.compile(rf"^Fence: ([0-9a-f]{{{_DIGITS}}})$", re.M)
_NAME = re.compile(r"[A-Z]+(?: [a-z0-9]+)*")


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A named piece of text, such as `REPLY 2`."""

    name: str
    text: str


def fence_for(sections: Sequence[Section], salt: str) -> str:
    """16 hex digits that follow from the texts and *salt*, and stand in none of them."""
    digest = hashlib.sha256(salt.encode("utf-8", "replace"))
    for section in sections:
        digest.update(f"\0{section.name}\0{section.text}".encode("utf-8", "replace"))
    while True:
        fence = digest.hexdigest()[:_DIGITS]
        if not any(fence in section.text for section in sections):
            return fence
        digest.update(b"\0")


def write_sections(sections: Sequence[Section], fence: str) -> str:
    """The sections one after the other, after a line that names the fence."""
    parts = [f"Fence: {fence}"]
    for section in sections:
        parts.append(f"<<{fence} {section.name}>>\n{section.text}\n<<{fence} END>>")
    return "\n\n".join(parts)


def read_sections(text: str) -> list[Section]:
    """What `write_sections` wrote, wherever in *text* it stands; empty if nothing is there."""
    opening = _OPENING.search(text)
    if opening is None:
        return []
    fence = opening[1]
    begins, ends = f"\n<<{fence} ", f"\n<<{fence} END>>"
    found: list[Section] = []
    at = opening.end()
    while (begin := text.find(begins, at)) >= 0:
        line = text.find(">>\n", begin)
        end = text.find(ends, line)
        if line < 0 or end < 0:
            break
        name = text[begin + len(begins) : line]
        at = end + len(ends)
        if _NAME.fullmatch(name):
            found.append(Section(name=name, text=text[line + 3 : end]))
    return found
