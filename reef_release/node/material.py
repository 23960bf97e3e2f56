"""Fetches what proves a release, without believing any of it.

Which events are fetched follows from unverified bytes, so a lying service can make this fetch
the wrong ones; `grounds` then refuses them. Requests are few and bounded: whole types of rare
events, and of frequent ones only the window in which the wanted event can lie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from reef_release.client import ReefClient
from reef_release.client.errors import BadAnswer
from reef_release.domain import events as ev
from reef_release.domain.canonical import sha256_hex
from reef_release.domain.events import Event, decode
from reef_release.errors import InvalidEvent
from reef_release.node.case import Below, Beside, Material
from reef_release.node.leaves import Leaf, refuse
from reef_release.signing.current import CurrentDocument

__all__ = ["gather"]

_PAGE = 250
_MAX_EVENTS = 1_000_000


def gather(client: ReefClient, document: CurrentDocument, size: int, *, trials: bool) -> Material:
    """The material for *document*, with proofs in the tree of *size* events.

    The *trials* of the gate are many and name its tasks: not every token may read them.

    Raises what the client raises, and `Refused` when an event that must exist is not given.
    """
    return _Gathering(client, document, size).material(trials)


class _Gathering:
    def __init__(self, client: ReefClient, document: CurrentDocument, size: int) -> None:
        self._client = client
        self._document = document
        self._size = size

    def material(self, trials: bool) -> Material:
        release_id = self._document.release_id or ""
        moves = self._moves()
        pointer = _one(moves, lambda each: each.position == self._document.pointer_position)
        promotion = _one(
            moves,
            lambda each: (
                each.position <= pointer.position
                and isinstance(each.event.data, ev.ReleasePromoted)
                and each.event.data.release_id == release_id
            ),
        )
        before = [each for each in moves if each.position < promotion.position]
        previous = max(before, key=lambda each: each.position, default=None)
        start = previous.position if previous else -1
        gate_id = getattr(promotion.event.data, "gate_id", "")
        # A gate that opened before the previous pointer event is stale, so none is sought.
        opened = self._first(ev.GateOpened, start, "stale-gate", gate_id=gate_id)
        passed, beside = self._passes(opened, start, trials=trials)
        submitted = self._submission(release_id)
        foundation = getattr(submitted.event.data, "foundation", None)
        return Material(
            pointer=self._leaf(pointer),
            promotion=self._leaf(promotion),
            previous=self._leaf(previous) if previous else None,
            submitted=self._leaf(submitted),
            foundation=self._leaf(self._submission(foundation)) if foundation else None,
            below=self._below(foundation) if foundation else None,
            opened=self._leaf(opened),
            trials=self._trials(gate_id, opened, passed) if trials else None,
            passed=self._leaf(passed),
            signed=self._leaf(
                self._first(ev.ReleaseSigned, passed.position, release_id=release_id)
            ),
            trust=self._leaves(ev.GLOBAL, ev.RootRotated, ev.KeyAdded, ev.KeyRevoked),
            scenario=self._leaves(
                self._document.scenario,
                ev.ScenarioCreated,
                ev.PolicyChanged,
                ev.ScenarioHeld,
                ev.ScenarioResumed,
            ),
            revocations=[
                self._leaf(each)
                for kind in (ev.CandidateRevoked, ev.ReleaseRevoked)
                for each in self._events(self._document.scenario, kind)
                if _subject(each) in (release_id, foundation)
            ],
            bundle=_text(self._client.bundle(self._document.scenario, release_id)),
            beside=beside,
        )

    def _below(self, foundation: str) -> Below:
        """What the release under an adapter rests on: the newest signing, if it was gated again."""
        bundle = self._client.bundle(self._document.scenario, foundation)
        digest = sha256_hex(bundle)
        signings = [
            each
            for each in self._events(self._document.scenario, ev.ReleaseSigned)
            if isinstance(each.event.data, ev.ReleaseSigned)
            and (each.event.data.release_id, each.event.data.bundle) == (foundation, digest)
        ]
        if not signings:
            raise refuse("missing-event", "the service shows no signing of the foundation")
        gate_id = getattr(signings[-1].event.data, "gate_id", "")
        opened = self._first(ev.GateOpened, -1, gate_id=gate_id)
        passed, beside = self._passes(opened, -1, trials=False)
        return Below(
            opened=self._leaf(opened),
            passed=self._leaf(passed),
            signed=self._leaf(signings[-1]),
            bundle=_text(bundle),
            beside=beside,
        )

    def _passes(self, opened: _Found, start: int, *, trials: bool) -> tuple[_Found, list[Beside]]:
        """The pass of the gate that *opened*, and those of its draw by other workers before it.

        All lie after *start*.
        """
        before: dict[str, _Found] = {}
        gate_id = getattr(opened.event.data, "gate_id", "")
        for each in self._events(self._document.scenario, ev.GatePassed, start):
            data = each.event.data
            if not isinstance(data, ev.GatePassed):
                continue
            if data.gate_id == gate_id and each.position > opened.position:
                return each, self._beside(opened, start, before, trials)
            if data.candidate_id == getattr(opened.event.data, "candidate_id", ""):
                before.setdefault(data.gate_id, each)
        raise refuse("missing-event", f"the service shows no gate.passed of gate {gate_id[:12]}")

    def _beside(
        self, opened: _Found, start: int, passes: dict[str, _Found], trials: bool
    ) -> list[Beside]:
        """What proves those of *passes* that are of the draw of *opened*."""
        found = []
        for gate_id, passed in passes.items():
            own = self._first(ev.GateOpened, start, gate_id=gate_id)
            if _draw(own) == _draw(opened):
                found.append(
                    Beside(
                        opened=self._leaf(own),
                        passed=self._leaf(passed),
                        trials=self._trials(gate_id, own, passed) if trials else None,
                    )
                )
        return found

    def _trials(self, gate_id: str, opened: _Found, passed: _Found) -> list[Leaf]:
        """The trials of a gate, which lie between its opening and its end."""
        found = []
        for each in self._events(self._document.scenario, ev.GateTrial, opened.position):
            if each.position > passed.position:
                break
            if getattr(each.event.data, "gate_id", None) == gate_id:
                found.append(self._leaf(each))
        return found

    def _submission(self, release_id: str) -> _Found:
        return self._first(ev.CandidateSubmitted, -1, candidate_id=release_id)

    def _moves(self) -> list[_Found]:
        """The pointer events of the channel, in log order."""
        stream = f"release/{self._document.channel}"
        return sorted(
            (
                each
                for kind in (ev.ReleasePromoted, ev.ReleaseRolledBack)
                for each in self._events(self._document.scenario, kind)
                if each.event.envelope.stream == stream
            ),
            key=lambda each: each.position,
        )

    def _first(
        self, kind: type[ev.EventData], after: int, code: str = "missing-event", **fields: str
    ) -> _Found:
        """The first event of *kind* after a position whose data has these fields."""
        for each in self._events(self._document.scenario, kind, after):
            if all(getattr(each.event.data, name) == value for name, value in fields.items()):
                return each
        wanted = ", ".join(f"{name} {value[:12]}" for name, value in fields.items())
        raise refuse(code, f"the service shows no {kind.TYPE} of {wanted} after {after}")

    def _events(self, scenario: str, kind: type[ev.EventData], after: int = -1) -> Iterator[_Found]:
        """The events of one type that the tree covers, in log order."""
        seen = 0
        while after < self._size - 1 and seen < _MAX_EVENTS:
            page = self._client.events(after, limit=_PAGE, scenario=scenario, type=kind.TYPE)
            for body in page.events:
                found = _Found(body)
                if found.position >= self._size:
                    return
                yield found
            if page.next_after <= after:
                return
            seen += len(page.events)
            after = page.next_after

    def _leaves(self, scenario: str, *kinds: type[ev.EventData]) -> list[Leaf]:
        return [self._leaf(each) for kind in kinds for each in self._events(scenario, kind)]

    def _leaf(self, found: _Found) -> Leaf:
        proof = self._client.inclusion(found.position, self._size).proof
        return Leaf(body=_text(found.body), proof=proof)


class _Found:
    """An event as it came."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        try:
            self.event: Event = decode(body)
        except InvalidEvent as error:
            raise refuse("unreadable-event", error.detail) from error

    @property
    def position(self) -> int:
        return self.event.envelope.position


def _draw(opened: _Found) -> tuple[object, ...]:
    """What gates of one draw have in common."""
    fields = ("candidate_id", "base", "channel", "policy_digest", "suite", "seed")
    return tuple(getattr(opened.event.data, name, None) for name in fields)


def _subject(revocation: _Found) -> str | None:
    """The release or candidate that was revoked."""
    data = revocation.event.data
    return getattr(data, "candidate_id", None) or getattr(data, "release_id", None)


def _one(moves: list[_Found], fits: Callable[[_Found], bool]) -> _Found:
    """The last pointer event that fits."""
    for each in reversed(moves):
        if fits(each):
            return each
    raise refuse("no-pointer-event", "the service shows no such pointer event of this channel")


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadAnswer("The service sent JSON that is not UTF-8.") from error
