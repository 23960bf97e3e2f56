"""One event of the log: its envelope, its data, its bytes, and its neighbours in four chains."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from reef_release.domain.merkle import leaf_hash
from reef_release.domain.state import Violation
from reef_release.log.entries import StoredEvent
from reef_release.log.finder import Finder
from reef_release.web.facts import Row, row_of, violation_at
from reef_release.web.history import History
from reef_release.web.summaries import summary

__all__ = ["EventView", "Neighbour", "event_view"]

_NAMED = re.compile(r"[0-9a-f]{64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MOST_NAMED = 40


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """Another event that this one stands in a chain with."""

    how: str
    row: Row
    summary: str


@dataclass(frozen=True, kw_only=True)
class EventView:
    """The event in `body`; `named` are the digests and ids in its data, each with its field."""

    row: Row
    body: bytes
    raw: str
    pretty: str
    leaf: str
    summary: str
    violation: Violation | None
    neighbours: tuple[Neighbour, ...]
    named: tuple[tuple[str, str], ...]


async def event_view(
    history: History, finder: Finder, body: bytes, may_see: Callable[[str], bool]
) -> EventView:
    """The event in *body*, with the neighbours up to the history's position.

    *may_see* says of which scenarios the reader sees events.
    """
    row = row_of(body)
    data = json.loads(bytes(row.envelope.data))
    return EventView(
        row=row,
        body=body,
        raw=body.decode("utf-8"),
        pretty=json.dumps(data, indent=2, ensure_ascii=False),
        leaf=leaf_hash(body).hex(),
        summary=summary(row, history.state),
        violation=violation_at(history.state, row.position),
        neighbours=tuple(
            each
            for each in await _neighbours(history, finder, row)
            if may_see(each.row.envelope.scenario)
        ),
        named=tuple(dict.fromkeys(_named(data, "")))[:_MOST_NAMED],
    )


async def _neighbours(history: History, finder: Finder, row: Row) -> list[Neighbour]:
    envelope, at = row.envelope, history.at
    around = await finder.at([row.position - 1, row.position + 1])
    versions = [envelope.version - 1, envelope.version + 1]
    beside = await finder.of_versions(envelope.scenario, envelope.stream, versions)
    cause = None if envelope.causation_id is None else await finder.with_id(envelope.causation_id)
    found = [("cause", cause)] if cause is not None else []
    found += [(_side(each, row, "in its stream"), each) for each in beside]
    found += [(_side(each, row, "in the log"), each) for each in around]
    rows = [(how, row_of(each.body)) for how, each in found if each.position <= at]
    return [
        Neighbour(how=how, row=each, summary=summary(each, history.state)) for how, each in rows
    ]


def _side(stored: StoredEvent, row: Row, where: str) -> str:
    return f"{'before' if stored.position < row.position else 'after'} it {where}"


def _named(value: Any, where: str) -> Iterator[tuple[str, str]]:
    """Digests and ids in *value* with the names of their fields."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _named(each, f"{where}.{key}" if where else key)
    elif isinstance(value, list):
        for each in value:
            yield from _named(each, where)
    elif isinstance(value, str) and _NAMED.fullmatch(value):
        yield where, value
