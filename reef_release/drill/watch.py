"""What is served, as three parties see it: the service, a node by its own rules, and an engine.

The drill's own eyes are a node's: a document counts only if the trust root and the proofs behind
it say so, and it must never contradict one that was seen before.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from reef_release.domain.canonical import canonical_json, sha256_hex
from reef_release.drill.context import CHANNEL, Context
from reef_release.errors import NotFound
from reef_release.node import grounds
from reef_release.node.material import gather
from reef_release.node.trusted import Memory, Trusted
from reef_release.tokens import TokenRole
from reef_release.verifiers.registry import is_objective

__all__ = ["Standing", "Watch", "moves"]

_LAG_S = 15.0
_LOOK_S = 0.05


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What a scenario serves: by the service, by the verified document, and by who serves it.

    `loaded` is the SHA-256 over the files that the engine has read, or what the nodes report;
    it is None for a scenario without a node.
    """

    scenario: str
    release_id: str | None
    position: int | None
    document_release_id: str | None
    document_position: int | None
    loaded: str | None

    @property
    def agrees(self) -> bool:
        """Whether the service says what it signed."""
        signed = (self.document_release_id, self.document_position)
        return (self.release_id, self.position) == signed


class Watch:
    """Looks at the watched scenario and at every stage, with one memory for the whole drill."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._trusted: dict[str, Trusted] = {}
        self._proven: set[tuple[str, int | None]] = set()

    def look(self) -> list[Standing]:
        """What is served now. Raises what a node raises that is lied to."""
        names = [self._context.scenario, *self._context.stages]
        return [self._settled(name) for name in names]

    def _settled(self, scenario: str) -> Standing:
        """A document follows its pointer event at once, but not in the same moment."""
        deadline = time.monotonic() + _LAG_S
        while not (seen := self._standing(scenario)).agrees and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
        return seen

    def _standing(self, scenario: str) -> Standing:
        view = self._context.view(scenario)
        channel = view.channels.get(CHANNEL)
        release, position = self._document(scenario)
        loaded = None
        if scenario == self._context.scenario:
            nodes = {node.node_id: node.release_id for node in view.nodes}
            own = self._context.own
            loaded = sha256_hex(canonical_json(dict(own.served_files()) if own else nodes))
        return Standing(
            scenario=scenario,
            release_id=channel.release_id if channel else None,
            position=channel.pointer_position if channel else None,
            document_release_id=release,
            document_position=position,
            loaded=loaded,
        )

    def _document(self, scenario: str) -> tuple[str | None, int | None]:
        client = self._context.client(TokenRole.SERVE)
        try:
            body = client.current(scenario).document or b""
        except NotFound:
            return None, None
        trusted = self._trusted.setdefault(scenario, self._eyes(scenario))
        while True:
            try:
                trusted.update_root(client.trust_root(trusted.root.version + 1))
            except NotFound:
                break
        opened = trusted.open_document(body, _now())
        old, new = trusted.memory.checkpoint_size, opened.checkpoint.size
        proof = client.consistency(old, new).proof if 0 < old < new else []
        trusted.accept(opened, [bytes.fromhex(each) for each in proof])
        document = opened.document
        if (scenario, document.pointer_position) not in self._proven:
            material = gather(client, document, new, trials=True)
            grounds.verify(
                material, document, opened.checkpoint, trusted.chain, is_objective, trials=True
            )
            trusted.accept_pointer(document)
            self._proven.add((scenario, document.pointer_position))
        return document.release_id, document.pointer_position

    def _eyes(self, scenario: str) -> Trusted:
        context = self._context
        anchor = sha256_hex(context.anchor.encode())
        return Trusted(
            anchor=context.anchor,
            successors=[],
            memory=Memory(anchor=anchor, scenario=scenario, channel=CHANNEL),
            origin=context.log_origin,
        )


def moves(before: Sequence[Standing], after: Sequence[Standing]) -> list[str]:
    """In words, what of *before* is otherwise in *after*, and where those who look disagree."""
    later = {each.scenario: each for each in after}
    told = [
        f"{each.scenario} moved from {_shown(each)} to {_shown(later[each.scenario])}"
        for each in before
        if later.get(each.scenario) != each
    ]
    return told + [
        f"{each.scenario}: the service says {_short(each.release_id)} at {each.position}, its "
        f"signed document {_short(each.document_release_id)} at {each.document_position}"
        for each in after
        if not each.agrees
    ]


def _shown(standing: Standing) -> str:
    loaded = f", loaded {standing.loaded[:12]}" if standing.loaded else ""
    return f"{_short(standing.release_id)} at {standing.position}{loaded}"


def _short(release_id: str | None) -> str:
    return release_id[:12] if release_id else "nothing"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
