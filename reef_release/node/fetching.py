"""Reading events for a proof: pages, and leaves with their inclusion proofs, all unverified."""

from __future__ import annotations

from collections.abc import Iterator

from reef_release.client import ReefClient
from reef_release.client.errors import BadAnswer
from reef_release.domain import events as ev
from reef_release.domain.events import Event, decode
from reef_release.errors import InvalidEvent, MalformedData
from reef_release.node.leaves import Leaf, refuse

__all__ = ["Fetching", "Found", "text_of"]

_PAGE = 250
_MAX_EVENTS = 1_000_000


class Found:
    """An event as it came. Raises `MalformedData`, and `Refused` for one of a later version."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        try:
            self.event: Event = decode(body)
        except MalformedData:
            raise
        except InvalidEvent as error:
            raise refuse("unreadable-event", error.detail) from error

    @property
    def position(self) -> int:
        return self.event.envelope.position

    @property
    def data(self) -> ev.EventData:
        return self.event.data


class Fetching:
    """The events of *scenario* as far as the tree of *size* events goes."""

    def __init__(self, client: ReefClient, scenario: str, size: int) -> None:
        self._client = client
        self._scenario = scenario
        self._size = size

    def first(
        self, kind: type[ev.EventData], after: int, code: str = "missing-event", **fields: str
    ) -> Found:
        """The first event of *kind* after a position whose data has these fields.

        Raises `Refused` with *code* if there is none.
        """
        for each in self.events(kind, after):
            if all(getattr(each.data, name) == value for name, value in fields.items()):
                return each
        wanted = ", ".join(f"{name} {value[:12]}" for name, value in fields.items())
        raise refuse(code, f"the service shows no {kind.TYPE} of {wanted} after {after}")

    def events(self, kind: type[ev.EventData], after: int = -1) -> Iterator[Found]:
        """The events of one type that the tree covers, in log order.

        Left out is what has not the form of its type: it has no effect in the log either.
        """
        for body in self._bodies(kind, after):
            try:
                found = Found(body)
            except MalformedData:
                continue
            if found.position < self._size:
                yield found

    def leaves(self, *kinds: type[ev.EventData]) -> list[Leaf]:
        """All events of these types, for streams that must be whole. Raises `Refused`."""
        found = []
        for kind in kinds:
            for body in self._bodies(kind, -1):
                try:
                    each = Found(body)
                except MalformedData as error:
                    raise refuse("unreadable-event", error.detail) from error
                if each.position < self._size:
                    found.append(self.leaf(each))
        return found

    def leaf(self, found: Found) -> Leaf:
        """*found* with its proof."""
        proof = self._client.inclusion(found.position, self._size).proof
        return Leaf(body=text_of(found.body), proof=proof)

    def _bodies(self, kind: type[ev.EventData], after: int) -> Iterator[bytes]:
        seen = 0
        while after < self._size - 1 and seen < _MAX_EVENTS:
            page = self._client.events(after, limit=_PAGE, scenario=self._scenario, type=kind.TYPE)
            yield from page.events
            if page.next_after <= after:
                return
            seen += len(page.events)
            after = page.next_after


def text_of(body: bytes) -> str:
    """JSON text as it came. Raises `BadAnswer`."""
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadAnswer("The service sent JSON that is not UTF-8.") from error
