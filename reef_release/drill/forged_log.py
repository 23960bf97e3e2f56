"""The real log as a thief of the log's key tells it: up to one promotion, with one thing changed.

The thief rewrites what the log says, numbers it anew, and signs the tree of it. No proof is wrong
then, so only the rules themselves are left to stand against it: those of an audit that replays
the export, and those of a node that is shown this log instead of the real one.
"""

from __future__ import annotations

import base64
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx

from reef_release.audit import layout
from reef_release.domain.canonical import canonical_json, sha256_hex
from reef_release.domain.events import EventData, encode_data
from reef_release.domain.merkle import MerkleTree, leaf_hash
from reef_release.drill.context import CHANNEL, Context
from reef_release.drill.errors import GotThrough
from reef_release.drill.exports import exported
from reef_release.drill.lying import Answer, document
from reef_release.drill.sql import new_event
from reef_release.signing.keys import Role
from reef_release.signing.note import sign_checkpoint
from reef_release.tokens import TokenRole

__all__ = ["Edit", "Event", "ForgedLog", "Story", "story_of"]

_PAGE = 1000

Event = dict[str, Any]
Edit = Callable[["Story"], list[Event]]
"""The events of a story as the thief tells them; positions and versions are made to fit."""


@dataclass(frozen=True, kw_only=True)
class Story:
    """The events of the whole log up to the last promotion that replaced a release."""

    context: Context
    events: tuple[Event, ...]

    @property
    def promotion(self) -> Event:
        """The last event."""
        return self.events[-1]

    @property
    def release(self) -> str:
        """The release promoted."""
        return str(self.promotion["data"]["release_id"])

    @property
    def base(self) -> str:
        """The release that it replaced."""
        return str(self.promotion["data"]["base"])

    @property
    def schema(self) -> str:
        """The digest of what candidates are checked against."""
        return str(self.events[self.of_candidate("candidate.admitted")]["data"]["schema"])

    @property
    def base_promotion(self) -> tuple[int, str | None]:
        """Where the base was last put into serving, and what was served before it."""
        moves = [
            event
            for event in self.events[:-1]
            if event["type"] in ("release.promoted", "release.rolled_back")
            and event["scenario"] == self.context.scenario
            and event["data"]["channel"] == CHANNEL
        ]
        before = moves[-2]["data"]["release_id"] if len(moves) > 1 else None
        return int(moves[-1]["position"]), before

    def one(self, kind: str) -> int:
        """Where the gate of the promotion opened or passed, or the release was signed."""
        return self.all(kind)[0]

    def all(self, kind: str) -> list[int]:
        """Where the events of a type stand that belong to the gate of the promotion."""
        gate_id = self.promotion["data"]["gate_id"]
        found = [
            event["position"]
            for event in self.events
            if event["type"] == kind and event["data"].get("gate_id") == gate_id
        ]
        if not found:
            raise GotThrough(f"The log has no {kind} of the gate {gate_id}.")
        return found

    def altered(self, position: int, **changes: Any) -> list[Event]:
        """The story with other data at *position*."""
        events = list(self.events)
        event = events[position]
        events[position] = {**event, "data": {**event["data"], **changes}}
        return events

    def inserted(self, position: int, *data: EventData) -> list[Event]:
        """The story with events of the scenario before the one at *position*."""
        time = self.events[position]["recorded_at"]
        made = [{**self.made(each), "recorded_at": time} for each in data]
        return [*self.events[:position], *made, *self.events[position:]]

    def of_candidate(self, kind: str) -> int:
        """Where the release was submitted or admitted."""
        for event in self.events:
            of = (event["type"], event["scenario"], event["data"].get("candidate_id"))
            if of == (kind, self.context.scenario, self.release):
                return int(event["position"])
        raise GotThrough(f"The log has no {kind} of {self.release}.")

    def made(self, data: EventData) -> Event:
        """An event of the scenario that nobody appended; it has no place yet."""
        made = new_event(self.context.scenario, data)
        return {
            "actor": made.actor,
            "causation_id": None,
            "correlation_id": None,
            "data": json.loads(encode_data(data)),
            "event_id": made.event_id,
            "recorded_at": self.promotion["recorded_at"],
            "scenario": made.scenario,
            "schema_version": made.schema_version,
            "stream": made.stream,
            "type": made.type,
        }

    def told(self, events: Sequence[Event]) -> ForgedLog:
        """*events* numbered anew, in a tree that the stolen log key signs."""
        versions: Counter[tuple[str, str]] = Counter()
        bodies = []
        for position, event in enumerate(events):
            stream = (event["scenario"], event["stream"])
            versions[stream] += 1
            numbered = {**event, "position": position, "version": versions[stream]}
            bodies.append(canonical_json(numbered))
        tree = MerkleTree(map(leaf_hash, bodies))
        key = self.context.key(Role.LOG)
        note = sign_checkpoint(self.context.log_origin, len(bodies), tree.root(), key)
        return ForgedLog(story=self, bodies=tuple(bodies), tree=tree, note=note)


def story_of(context: Context) -> Story:
    """The story, read at first use. Raises `GotThrough` when no release replaced another yet."""
    found: Story | None = context.kept.get("story")
    if found is None:
        events = _log(context)
        ends = [
            event["position"]
            for event in events
            if (event["type"], event["scenario"]) == ("release.promoted", context.scenario)
            and event["data"]["base"] is not None
            and event["data"]["channel"] == CHANNEL
        ]
        if not ends:
            raise GotThrough("No release of this scenario has replaced another one yet.")
        story = Story(context=context, events=tuple(events[: ends[-1] + 1]))
        found = context.kept["story"] = story
    return found


def _log(context: Context) -> list[Event]:
    client, events = context.client(TokenRole.AUDIT), list[Event]()
    while True:
        page = client.events(len(events) - 1, limit=_PAGE).events
        events += map(json.loads, page)
        if len(page) < _PAGE:
            return events


@dataclass(frozen=True, kw_only=True)
class ForgedLog:
    """A log that its key has signed; `bodies` are its events as they would be stored."""

    story: Story
    bodies: tuple[bytes, ...]
    tree: MerkleTree
    note: str

    @property
    def events(self) -> list[Event]:
        """The events, as they are numbered now."""
        return [json.loads(body) for body in self.bodies]

    def document(self) -> bytes:
        """A current document by the stolen pointer key, for the promotion at the end."""
        events = self.events
        gate_id = events[-1]["data"]["gate_id"]
        passed = next(
            event["data"]
            for event in events
            if event["type"] == "gate.passed" and event["data"]["gate_id"] == gate_id
        )
        decision = base64.b64decode(passed["attestation"]["payload"])
        return document(
            self.story.context,
            release_id=self.story.release,
            pointer_position=events[-1]["position"],
            gate_digest=sha256_hex(decision),
            checkpoint=self.note,
        )

    def answers(self) -> dict[str, Answer]:
        """What a service says that has this log and no other."""
        return {"/reef/events": self._page, "/reef/log/proof/inclusion": self._proof}

    def _page(self, request: httpx.Request) -> httpx.Response:
        asked = _query(request)
        after, kind = int(asked.get("after", -1)), asked.get("type")
        # The liar shows every opening there is: a node must not rest on what it asked for.
        first = -1 if kind == "gate.opened" else after
        found = [
            event["position"]
            for event in self.events
            if event["position"] > first
            and event["scenario"] == asked.get("scenario")
            and event["type"] == kind
        ]
        events = b",".join(self.bodies[position] for position in found)
        head = len(self.bodies) - 1
        body = b'{"events":[%b],"head":%d,"next_after":%d}' % (events, head, head)
        return httpx.Response(200, content=body, headers={"content-type": "application/json"})

    def _proof(self, request: httpx.Request) -> httpx.Response:
        asked = _query(request)
        position, size = int(asked["position"]), int(asked["size"])
        proof = self.tree.inclusion_proof(position, size)
        return httpx.Response(
            200,
            json={
                "position": position,
                "size": size,
                "leaf_hash": leaf_hash(self.bodies[position]).hex(),
                "proof": [each.hex() for each in proof],
                "root": self.tree.root(size).hex(),
            },
        )

    @contextmanager
    def exported(self) -> Iterator[Path]:
        """An export of this log, in itself without a fault."""
        with exported(self.story.context) as folder:
            events = folder / layout.EVENTS
            shutil.rmtree(events)
            events.mkdir()
            data = b"".join(body + b"\n" for body in self.bodies)
            (events / layout.segment_name(0)).write_bytes(data)
            (folder / layout.CHECKPOINT).write_bytes(self.note.encode())
            path = folder / layout.MANIFEST
            manifest = json.loads(path.read_bytes())
            segment = {"first": 0, "count": len(self.bodies), "size_bytes": len(data)}
            manifest |= {"segments": [segment], "size": len(self.bodies)}
            path.write_bytes(canonical_json(manifest))
            yield folder


def _query(request: httpx.Request) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(request.url.query.decode()).items()}
