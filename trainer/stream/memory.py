"""A memory of what a user did not like, as a Markdown file that goes into later prompts.

What always holds: notes are only added at the end, each text once, each with the number of the
session it comes from; the file stays within its bounds because the oldest notes leave; lines that
somebody else wrote into it stay where they are. No model writes it, and no judge reads it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

from reef_release.errors import SettingsError
from trainer.tiny.phrases import with_hint

__all__ = ["PLACEMENTS", "Memory", "Placement", "with_memory"]

Placement = Literal["system", "prefix", "suffix", "hint"]
PLACEMENTS: tuple[Placement, ...] = get_args(Placement)

_HEADING = "# What the user said about earlier replies\n\n"
_NOTE = re.compile(r"- session (\d{1,9}): (.+)")
_NOTE_CHARACTERS = 400


class Memory:
    """The file at *path*, made by the first note; one process at a time writes it."""

    def __init__(self, path: Path, *, max_notes: int = 40, max_bytes: int = 4000) -> None:
        """Raises `SettingsError` for bounds that leave no room for a note."""
        if max_notes < 1 or max_bytes < len(_HEADING) + 4 * _NOTE_CHARACTERS:
            raise SettingsError(
                f"A memory of {max_notes} notes and {max_bytes} bytes holds nothing.",
                next_step=f"Allow a note and {len(_HEADING) + 4 * _NOTE_CHARACTERS} bytes.",
            )
        self._path = path
        self._max_notes = max_notes
        self._max_bytes = max_bytes

    def markdown(self) -> str:
        """The whole file; empty while nothing was noted."""
        try:
            return self._path.read_text("utf-8")
        except FileNotFoundError:
            return ""

    def notes(self) -> list[str]:
        """The texts of the notes, oldest first."""
        return [
            found[2] for line in self.markdown().splitlines() if (found := _NOTE.fullmatch(line))
        ]

    def add(self, session: int, text: str) -> bool:
        """Note *text*; False when it stands there already or says nothing."""
        note = " ".join(text.split())[:_NOTE_CHARACTERS]
        if not note or _folded(note) in map(_folded, self.notes()):
            return False
        lines = (self.markdown() or _HEADING).splitlines()
        lines.append(f"- session {session}: {note}")
        self._write(self._bounded(lines))
        return True

    def _bounded(self, lines: list[str]) -> list[str]:
        while True:
            notes = [at for at, line in enumerate(lines) if _NOTE.fullmatch(line)]
            size_bytes = sum(len(line.encode()) + 1 for line in lines)
            if len(notes) <= self._max_notes and size_bytes <= self._max_bytes:
                return lines
            if len(notes) == 1:
                raise SettingsError(
                    f"{self._path} has no room for a note in {self._max_bytes} bytes.",
                    next_step="Shorten what you wrote into it yourself, or allow more bytes.",
                )
            del lines[notes[0]]

    def _write(self, lines: Sequence[str]) -> None:
        written = self._path.with_suffix(".new")
        written.write_text("\n".join(lines) + "\n", "utf-8")
        written.replace(self._path)


def with_memory(
    messages: Sequence[Mapping[str, str]], memory: Memory, placement: Placement
) -> list[dict[str, str]]:
    """The conversation with the memory in it; unchanged while nothing was noted.

    ``system``: the file as a system message; ``prefix`` and ``suffix``: before the first message
    or after the last; ``hint``: the notes alone, in the form of a hint that the tiny policy was
    trained on.
    """
    given = [dict(message) for message in messages]
    markdown = memory.markdown().strip()
    notes = memory.notes()
    if not notes:
        return given
    if placement == "system":
        return [{"role": "system", "content": markdown}, *given]
    if placement == "prefix":
        given[0]["content"] = f"{markdown}\n\n{given[0]['content']}"
        return given
    if placement == "suffix":
        given[-1]["content"] += f"\n\n{markdown}"
        return given
    return with_hint(given, " ".join(notes))


def _folded(text: str) -> str:
    return text.casefold().strip(" .!")
