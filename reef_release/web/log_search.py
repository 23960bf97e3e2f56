"""Events of the log as people look for them: by position, type, subject, or a text in them.

A text has no index, so a search looks through a window of 20,000 positions and says how far it
looked; the next window is one step further. What an id or a digest is the subject of is found by
the index of streams, wherever it stands.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from reef_release.domain.canonical import canonical_json
from reef_release.domain.state import State, Violation
from reef_release.log.finder import Finder
from reef_release.web.facts import Row, row_of, violation_at
from reef_release.web.history import History
from reef_release.web.summaries import summary

__all__ = ["PAGE", "WINDOW", "Found", "LogLine", "Query", "find_events", "position_in"]

PAGE = 50
WINDOW = 20_000
LEAST_TEXT = 3
_POSITION = re.compile(r"#?([0-9]{1,15})")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SUBJECTS = ("session", "turn", "batch", "candidate", "gate", "claim", "release")
"""Streams that are called by an id or a digest."""


@dataclass(frozen=True, kw_only=True)
class Query:
    """What is looked for; all of it must hold. Empty texts ask for nothing."""

    scenario: str | None = None
    type_name: str = ""
    text: str = ""
    before: int | None = None

    @property
    def is_search(self) -> bool:
        """Whether the bytes of events are looked through."""
        return bool(self.text)


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """One event; `violation` says that it broke a rule and has no effect."""

    row: Row
    summary: str
    violation: Violation | None


@dataclass(frozen=True, kw_only=True)
class Found:
    """A page of events, newest first.

    `subject` are those whose stream, or whose id, is the text. `looked` is the window of positions
    that was looked through, None where an index was used; the next page begins below `before`.
    """

    lines: tuple[LogLine, ...]
    subject: tuple[LogLine, ...]
    looked: tuple[int, int] | None
    before: int | None


def position_in(text: str) -> int | None:
    """The position that a text names: a number, with or without "#"."""
    match = _POSITION.fullmatch(text)
    return None if match is None else int(match[1])


async def find_events(
    history: History, finder: Finder, query: Query, scenarios: Sequence[str]
) -> Found:
    """The page of *query* as of the history's position.

    *scenarios* are those that the reader may see, where subjects are looked for.
    """
    if query.is_search:
        return await _search(history, finder, query, scenarios)
    types = (query.type_name,) if query.type_name else None
    rows = await history.newest(PAGE, query.scenario, types, before=query.before, all_events=True)
    full = len(rows) == PAGE and rows[-1].position > 0
    return Found(
        lines=_lines(history.state, rows),
        subject=(),
        looked=None,
        before=rows[-1].position if full else None,
    )


async def _search(
    history: History, finder: Finder, query: Query, scenarios: Sequence[str]
) -> Found:
    until = history.at if query.before is None else min(history.at, query.before - 1)
    after = max(-1, until - WINDOW)
    wanted = canonical_json(query.text)[1:-1]
    stored = await finder.containing(
        wanted, (after, until), PAGE, scenario=query.scenario, type_name=query.type_name or None
    )
    rows = [row_of(each.body) for each in stored]
    if len(rows) == PAGE:
        after = rows[-1].position - 1
    subject = await _subject(history, finder, query, scenarios) if query.before is None else []
    return Found(
        lines=_lines(history.state, rows),
        subject=_lines(history.state, subject),
        looked=(after + 1, until),
        before=after + 1 if after >= 0 else None,
    )


async def _subject(
    history: History, finder: Finder, query: Query, scenarios: Sequence[str]
) -> list[Row]:
    """The newest events of what the text names by its whole id."""
    text = query.text.strip().lower()
    if not (_DIGEST.fullmatch(text) or _is_uuid(text)):
        return []
    names = scenarios if query.scenario is None else [query.scenario]
    streams = [f"{subject}/{text}" for subject in _SUBJECTS]
    found = [
        row_of(each.body)
        for name in names
        for each in await finder.of_streams(history.at, name, streams, PAGE)
    ]
    named = await finder.with_id(text)
    if named is not None and named.position <= history.at:
        row = row_of(named.body)
        if row.envelope.scenario in names:
            found.append(row)
    kept = [row for row in found if query.type_name in ("", row.envelope.type)]
    return sorted(kept, key=lambda row: -row.position)[:PAGE]


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def _lines(state: State, rows: Sequence[Row]) -> tuple[LogLine, ...]:
    return tuple(
        LogLine(row=row, summary=summary(row, state), violation=violation_at(state, row.position))
        for row in rows
    )
