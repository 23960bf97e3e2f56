"""Fetches what proves a release, without believing any of it.

Which events are fetched follows from unverified bytes, so a lying service can make this fetch
the wrong ones; `grounds` then refuses them. Requests are few and bounded: whole types of rare
events, and of frequent ones only the window in which the wanted event can lie.
"""

from __future__ import annotations

from collections.abc import Callable

from reef_release.client import ReefClient
from reef_release.domain import events as ev
from reef_release.domain.canonical import sha256_hex
from reef_release.node.case import Below, Beside, Material
from reef_release.node.fetching import Fetching, Found, text_of
from reef_release.node.gates import draw_of
from reef_release.node.leaves import Leaf, refuse
from reef_release.node.quorum import quorum_asked
from reef_release.signing.current import CurrentDocument

__all__ = ["gather"]


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
        self._log = Fetching(client, document.scenario, size)
        self._trust = Fetching(client, ev.GLOBAL, size)
        self._scenario = self._log.leaves(
            ev.ScenarioCreated, ev.PolicyChanged, ev.ScenarioHeld, ev.ScenarioResumed
        )

    def material(self, trials: bool) -> Material:
        release_id = self._document.release_id or ""
        moves = self._moves()
        pointer = _one(moves, lambda each: each.position == self._document.pointer_position)
        promotion = _one(
            moves,
            lambda each: (
                each.position <= pointer.position
                and isinstance(each.data, ev.ReleasePromoted)
                and each.data.release_id == release_id
            ),
        )
        before = [each for each in moves if each.position < promotion.position]
        previous = max(before, key=lambda each: each.position, default=None)
        start = previous.position if previous else -1
        gate_id = getattr(promotion.data, "gate_id", "")
        # A gate that opened before the previous pointer event is stale, so none is sought.
        opened = self._log.first(ev.GateOpened, start, "stale-gate", gate_id=gate_id)
        passed, beside = self._passes(opened, start, trials=trials)
        submitted = self._submission(release_id)
        foundation = getattr(submitted.data, "foundation", None)
        return Material(
            pointer=self._log.leaf(pointer),
            promotion=self._log.leaf(promotion),
            previous=self._log.leaf(previous) if previous else None,
            submitted=self._log.leaf(submitted),
            foundation=self._log.leaf(self._submission(foundation)) if foundation else None,
            below=self._below(foundation) if foundation else None,
            opened=self._log.leaf(opened),
            trials=self._trials(gate_id, opened, passed) if trials else None,
            passed=self._log.leaf(passed),
            signed=self._log.leaf(
                self._log.first(ev.ReleaseSigned, passed.position, release_id=release_id)
            ),
            trust=self._trust.leaves(ev.RootRotated, ev.KeyAdded, ev.KeyRevoked),
            scenario=self._scenario,
            revocations=[
                self._log.leaf(each)
                for kind in (ev.CandidateRevoked, ev.ReleaseRevoked)
                for each in self._log.events(kind)
                if _subject(each) in (release_id, foundation)
            ],
            bundle=text_of(self._client.bundle(self._document.scenario, release_id)),
            beside=beside,
        )

    def _below(self, foundation: str) -> Below:
        """What the release under an adapter rests on: the newest signing, if it was gated again."""
        bundle = self._client.bundle(self._document.scenario, foundation)
        digest = sha256_hex(bundle)
        signings = [
            each
            for each in self._log.events(ev.ReleaseSigned)
            if isinstance(each.data, ev.ReleaseSigned)
            and (each.data.release_id, each.data.bundle) == (foundation, digest)
        ]
        if not signings:
            raise refuse("missing-event", "the service shows no signing of the foundation")
        gate_id = getattr(signings[-1].data, "gate_id", "")
        opened = self._log.first(ev.GateOpened, -1, gate_id=gate_id)
        passed, beside = self._passes(opened, -1, trials=False)
        return Below(
            opened=self._log.leaf(opened),
            passed=self._log.leaf(passed),
            signed=self._log.leaf(signings[-1]),
            bundle=text_of(bundle),
            beside=beside,
        )

    def _passes(self, opened: Found, start: int, *, trials: bool) -> tuple[Found, list[Beside]]:
        """The pass of the gate that *opened*, and what may count beside it, all after *start*."""
        before: list[Found] = []
        gate_id = getattr(opened.data, "gate_id", "")
        for each in self._log.events(ev.GatePassed, start):
            if each.position < opened.position:
                before.append(each)
            elif getattr(each.data, "gate_id", "") == gate_id:
                return each, self._beside(opened, start, before, trials)
        raise refuse("missing-event", f"the service shows no gate.passed of gate {gate_id[:12]}")

    def _beside(self, opened: Found, start: int, passes: list[Found], trials: bool) -> list[Beside]:
        """What proves those of *passes* that are of the draw of *opened*, if any are needed.

        A pass counts only if its gate opened after *start*, with the pointer where it stood for
        *opened*. Others may well stand in an honest log: they are passed over.
        """
        digest = getattr(opened.data, "policy_digest", "")
        if not passes or quorum_asked(self._scenario, digest) == 1:
            return []
        openings: dict[str, Found] = {}
        for each in self._log.events(ev.GateOpened, start):
            if each.position >= opened.position:
                break
            if draw_of(each.data) == draw_of(opened.data):
                openings.setdefault(getattr(each.data, "gate_id", ""), each)
        found: dict[str, Beside] = {}
        for passed in passes:
            gate_id = getattr(passed.data, "gate_id", "")
            own = openings.get(gate_id)
            if own is not None and own.position < passed.position and gate_id not in found:
                found[gate_id] = Beside(
                    opened=self._log.leaf(own),
                    passed=self._log.leaf(passed),
                    trials=self._trials(gate_id, own, passed) if trials else None,
                )
        return list(found.values())

    def _trials(self, gate_id: str, opened: Found, passed: Found) -> list[Leaf]:
        """The trials of a gate, which lie between its opening and its end."""
        found = []
        for each in self._log.events(ev.GateTrial, opened.position):
            if each.position > passed.position:
                break
            if getattr(each.data, "gate_id", None) == gate_id:
                found.append(self._log.leaf(each))
        return found

    def _submission(self, release_id: str) -> Found:
        return self._log.first(ev.CandidateSubmitted, -1, candidate_id=release_id)

    def _moves(self) -> list[Found]:
        """The pointer events of the channel, in log order."""
        stream = f"release/{self._document.channel}"
        return sorted(
            (
                each
                for kind in (ev.ReleasePromoted, ev.ReleaseRolledBack)
                for each in self._log.events(kind)
                if each.event.envelope.stream == stream
            ),
            key=lambda each: each.position,
        )


def _subject(revocation: Found) -> str | None:
    """The release or candidate that was revoked."""
    data = revocation.data
    return getattr(data, "candidate_id", None) or getattr(data, "release_id", None)


def _one(moves: list[Found], fits: Callable[[Found], bool]) -> Found:
    """The last pointer event that fits."""
    for each in reversed(moves):
        if fits(each):
            return each
    raise refuse("no-pointer-event", "the service shows no such pointer event of this channel")
