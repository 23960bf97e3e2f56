"""What an attack is: a value that says what it tries and what must stop it, and then tries it.

A `Stop` is specific: who stopped it, by which reason, and which event says so in the log. An
attack that ends otherwise, also by an error that nobody expected, was not stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from reef_release.domain.events import GLOBAL
from reef_release.drill.context import Context
from reef_release.drill.errors import GotThrough
from reef_release.errors import ReefError
from reef_release.tokens import TokenRole

__all__ = ["Access", "Attack", "Outcome", "Seen", "Stop", "recorded", "stopped"]


class Access(StrEnum):
    """What an attack needs beyond tokens; only a stack that the drill started gives it."""

    KEYS = "keys"
    DATABASE = "database"
    DISK = "disk"
    PROCESSES = "processes"
    ENGINE = "engine"
    MODELS = "models"
    TRAFFIC = "traffic"

    @property
    def words(self) -> str:
        """For people."""
        return _WORDS[self]


_WORDS = {
    Access.KEYS: "private keys",
    Access.DATABASE: "the service's database password",
    Access.DISK: "the service's disk",
    Access.PROCESSES: "stopping the service's programs",
    Access.ENGINE: "an engine that serves nobody",
    Access.MODELS: "models made for it, and gates that are its own to spend",
    Access.TRAFFIC: "traffic that nobody else learns from",
}


_DECISIVE = ("scenario.", "policy.", "candidate.", "gate.", "release.", "key.", "root.")
"""Types whose events could bear on what is served; the service's own clockwork writes others."""


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """What must stop an attack: who, by which reason, and the event that says so.

    One of `events` must; without any, nothing is written.
    """

    by: str
    code: str
    events: tuple[str, ...] = ()

    def __str__(self) -> str:
        events = " or ".join(self.events)
        return f"{self.by}: {self.code}" + (f" ({events})" if events else "")


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A `Stop` as it happened; `position` is that of its event."""

    by: str
    code: str
    event: str | None = None
    position: int | None = None
    words: str = ""

    def is_a(self, stop: Stop) -> bool:
        """Whether this is what *stop* asks for."""
        written = self.event in stop.events if stop.events else self.event is None
        return (self.by, self.code) == (stop.by, stop.code) and written

    def __str__(self) -> str:
        where = "nothing written" if self.event is None else f"{self.event} at {self.position}"
        return f"{self.by}: {self.code} ({where})"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How an attack ended. `twin`: what became of the same thing unmodified."""

    seen: tuple[Seen, ...]
    twin: str


@dataclass(frozen=True, kw_only=True)
class Attack:
    """One attempt.

    `name` is its stable id, `rows` the numbers in the list of known attacks that it belongs to.
    `tries` says what is tried; all of `stops` must be seen. `prepare` may move a pointer, of a
    scenario of its own, and is over before what is served is looked at; `run` may not.
    `roles` are those whose tokens it uses, `needs` is beyond tokens; a `quick` one takes no gate.
    One that `promotes` is no attack, but shows that the good still gets through.
    """

    name: str
    rows: tuple[int, ...]
    tries: str
    stops: tuple[Stop, ...]
    run: Callable[[Context], Outcome]
    prepare: Callable[[Context], object] | None = None
    roles: frozenset[TokenRole] = frozenset()
    needs: frozenset[Access] = frozenset()
    quick: bool = False
    promotes: bool = False


def stopped(context: Context, act: Callable[[], object], by: str, code: str) -> Seen:
    """That *act* is refused for the reason *code*, and that nothing about it was written.

    Raises `GotThrough` otherwise.
    """
    before = context.head()
    words = _refusal(act, code)
    written = [
        f"{event.envelope.type} at {event.envelope.position}"
        for scenario in (context.scenario, *context.stages, GLOBAL)
        for event in context.events(after=before, scenario=scenario)
        if event.envelope.type.startswith(_DECISIVE)
    ]
    if written:
        raise GotThrough(f"It was refused as {code}, but wrote {', '.join(written)}.")
    return Seen(by=by, code=code, words=words)


def recorded(
    context: Context, act: Callable[[], object], by: str, code: str, kind: str, **fields: Any
) -> Seen:
    """That *act* is refused for the reason *code*, and that a new event of type *kind* says so."""
    before = context.head()
    words = _refusal(act, code)
    position = context.event(kind, after=before, **fields)
    return Seen(by=by, code=code, event=kind, position=position, words=words)


def _refusal(act: Callable[[], object], code: str) -> str:
    """What is said of *code*. Raises `GotThrough` when *act* is not refused for it."""
    try:
        act()
    except GotThrough:
        raise
    except ReefError as error:
        found = {reason.code: str(reason) for reason in error.reasons}
        found.setdefault(error.problem, error.detail)
        if code not in found:
            told = ", ".join(sorted(found))
            raise GotThrough(f"It was stopped by {told}, and not by {code}: {error}") from error
        return found[code]
    raise GotThrough(f"It was accepted; {code} had to stop it.")
