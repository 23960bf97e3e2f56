"""What an export says was erased, and whether an erased body is still somewhere.

An erased body breaks nothing: the events keep their digests, and no promotion follows from it. An
erasure of something that promotions do follow from is none; the replay calls it a violation.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from reef_release.audit.report import ErasedBody, ErasuresReport, Problems
from reef_release.domain import events as ev
from reef_release.domain.events import Event

__all__ = ["Erasures", "copies_of"]

_MOST_LISTED = 1000


class Erasures:
    """Follows the events of an export; `kept` are the digests that its promotions follow from."""

    def __init__(self) -> None:
        self._events: dict[str, Event] = {}
        self.kept: set[str] = set()

    def follow(self, event: Event) -> None:
        """Take in the next event."""
        if isinstance(event.data, ev.BodyErased):
            self._events.setdefault(event.data.digest, event)

    def report(
        self,
        where: Path,
        looked_at: Sequence[Path],
        valid: Iterable[str] | None,
        problems: Problems,
    ) -> ErasuresReport:
        """What was erased. *valid* are the digests that a fold accepted, None without a fold.

        A body in the export *where* itself is a problem; in the other folders it is only said.
        """
        for digest in sorted(self._events.keys() & self.kept if valid is None else ()):
            message = "It is said to be erased, and promotions follow from it."
            problems.add(f"blobs/{digest}", "kept", message, self._events[digest].envelope.position)
        wanted = self._events.keys() - self.kept if valid is None else set(valid)
        found: dict[str, list[str]] = {}
        for folder in (where, *looked_at):
            for digest, path in copies_of(wanted, folder):
                found.setdefault(digest, []).append(str(path))
                if folder == where:
                    message = "The log says that this body was erased, and here it is."
                    position = self._events[digest].envelope.position
                    problems.add(path.relative_to(where).as_posix(), "erased", message, position)
        bodies = [_body(self._events[digest], found.get(digest, [])) for digest in wanted]
        bodies.sort(key=lambda body: (not body.present_in, body.position))
        return ErasuresReport(
            count=len(bodies),
            reasons=dict(Counter(body.reason for body in bodies).most_common(20)),
            present=len(found),
            bodies=bodies[:_MOST_LISTED],
        )


def copies_of(digests: Iterable[str], folder: Path) -> Iterator[tuple[str, Path]]:
    """The files under *folder* that are named as blobs of these digests are.

    In exports and backups that is the digest, in a service's blob directory the digest after two
    letters, in its unfinished uploads the digest with an ending.
    """
    wanted = set(digests)
    if not wanted:
        return
    for parent, _, files in os.walk(folder):
        for name in files:
            path = Path(parent) / name
            for digest in {name, name.partition(".")[0], path.parent.name + name} & wanted:
                yield digest, path


def _body(event: Event, present_in: list[str]) -> ErasedBody:
    data, envelope = event.data, event.envelope
    assert isinstance(data, ev.BodyErased)
    return ErasedBody(
        digest=data.digest,
        kind=data.kind,
        scenario=envelope.scenario,
        turn_id=data.turn_id,
        reason=data.reason,
        actor=envelope.actor,
        position=envelope.position,
        recorded_at=envelope.recorded_at,
        present_in=present_in,
    )
