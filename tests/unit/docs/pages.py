"""Reading the repository's Markdown: pages, links, anchors, fenced blocks, command lines."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_SHELLS = {"console", "bash", "sh", "shell"}


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block."""

    page: Path
    language: str
    text: str


def name_of(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


def blocks(page: Path) -> list[Block]:
    return [
        Block(page=page, language=match[1], text=match[2])
        for match in _FENCE.finditer(page.read_text("utf-8"))
    ]


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return _FENCE.sub("", page.read_text("utf-8"))


def links(page: Path) -> list[str]:
    return _LINK.findall(prose(page))


def anchors(page: Path) -> set[str]:
    """The anchors that a Markdown renderer gives the page's headings."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in _HEADING.findall(prose(page))
    }


def commands(page: Path) -> Iterator[list[str]]:
    """Each simple command of the page's shell blocks, as words.

    In a block that shows prompts only the lines with `$ ` are commands; the others are output.
    """
    for block in blocks(page):
        if block.language not in _SHELLS:
            continue
        lines = block.text.replace("\\\n", " ").splitlines()
        prompted = [line[2:] for line in lines if line.startswith("$ ")]
        for line in prompted or lines:
            yield from _simple(line)


def _simple(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for token in lexer:
        if set(token) <= set("|&;()"):
            yield from _command(words)
            words = []
        else:
            words.append(token)
    yield from _command(words)


def _command(words: list[str]) -> Iterator[list[str]]:
    """The words without assignments in front and redirections behind."""
    while words and re.fullmatch(r"[A-Za-z_]\w*=.*", words[0]):
        words = words[1:]
    for at, word in enumerate(words):
        if set(word) <= set("<>"):
            words = words[:at]
            break
    if words:
        yield words
