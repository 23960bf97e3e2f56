"""A world in which whatever somebody may write is written in order to be misread."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from reef_release.api.bodies import InteractionBody
from reef_release.api.judging import VotesBody
from reef_release.domain import events as ev
from reef_release.domain.reasons import Reason
from reef_release.domain.visible import is_hidden
from reef_release.wire import Vote
from tests import traffic_story
from tests.calls import bound, judged, recorded, unbound
from tests.web_story import reply_oddly
from tests.world import World, suite_lines

__all__ = ["HOSTILE", "HostileWorld", "hidden_in", "tell"]

HOSTILE = (
    "\u202egnitirw\u202c \u2066\u2067\u2068\u2069 \u200e\u200f\u061c \x1b[31m\x9b2J\x07\x7f\r"
    "\u200b\u200c\u200d\u2060\ufeff\u2028\u2029\U000e0041\U000e007f שלום <b>&\"'"
)
"""All but the one that no event can hold, since the database takes no U+0000."""

_JSON_HOSTILE = json.dumps(HOSTILE)[1:-1]
_WRITTEN = frozenset(
    {"code", "error", "finish_reason", "message", "model", "reason", "tag", "where", "worker"}
)
_NAMED = frozenset({"metrics", "settings"})


def hidden_in(text: str) -> set[str]:
    """The hidden characters that stand in *text* as they are."""
    return {each for each in set(text) if is_hidden(each)}


class HostileWorld(World):
    """Every event says something hostile wherever the rule lets anybody say something.

    Names of actors, streams and ids are printable ASCII by the log's own rule. `salted` are the
    types of events that do, `odd_gate` a gate whose replies are hostile.
    """

    def __init__(self, directory: Path) -> None:
        self.salted: set[str] = set()
        self.odd_gate = ""
        super().__init__(directory)

    @cached_property
    def suite(self) -> str:
        lines = suite_lines().decode().replace("What is", f"{_JSON_HOSTILE} What is")
        return self.blobs.put_bytes_sync(lines.encode())

    def append_raw(self, data: ev.EventData, **envelope: Any) -> int:
        written = data
        with suppress(msgspec.ValidationError):
            written = msgspec.convert(_salted(msgspec.to_builtins(data)), type(data))
        scenario = envelope.get("scenario")
        if written != data and self.reasons(written, scenario) == self.reasons(data, scenario):
            self.salted.add(data.TYPE)
            data = written
        return super().append_raw(data, **envelope)


def tell(world: HostileWorld) -> None:
    """What the story of traffic tells, and what nodes, approvers and judges say."""
    traffic_story.tell(world)
    release = world.serving
    assert release is not None
    fields: dict[str, Any] = {"channel": "stable", "release_id": release}
    world.append(ev.NodeLoaded(node_id="north", serial=1, canary_difference="0.001", **fields))
    reason = Reason(code="x", message="y", where="z")
    world.append(ev.NodeRefused(node_id="south", reasons=[reason], **fields))
    world.refuse(world.submit(settings={"rate": "1"}, metrics={"loss": "0.5"}))
    _talk(world, release)
    world.revoke_candidate(world.submit())
    world.odd_gate = world.open_gate(world.admitted())
    reply_oddly(world, world.odd_gate, "-")
    reply_oddly(world, world.odd_gate, "+")
    world.rollback(next(iter(world.scenario.candidates)))
    world.stale(world.odd_gate)
    world.revoke_release(release)
    world.change_policy(approvals=2)
    gate = world.gate(world.admitted())
    approved = world.gate_of(gate).opened.candidate_id
    world.append(ev.ReleaseApproved(release_id=approved, gate_id=gate, reason="good"), actor="bob")
    world.hold()
    world.resume()
    world.hold()


def _talk(world: World, release: str) -> None:
    put = world.blobs.put_body_sync
    said = [{"role": f"user{HOSTILE}", "content": HOSTILE}]
    reply = {"role": "assistant", "content": HOSTILE}
    body = put(msgspec.json.encode(InteractionBody(messages=said, reply=reply)))
    votes = [Vote(raw=HOSTILE, valid=True, score=-1, about=1, hints=[HOSTILE])]
    judgment = put(msgspec.json.encode(VotesBody(votes=votes, rejected=HOSTILE, keep=HOSTILE)))
    hint = put(HOSTILE.encode())
    world.append(recorded("odd", release_id=release, tag="t", body=body))
    world.append(unbound("odd"))
    world.append(recorded("odd.1", release_id=release, tag="t", body=body))
    world.append(bound("odd.1", "odd", session="odd"))
    world.append(judged("odd", target="odd", votes=judgment, hints=[hint]))
    world.append(ev.ReportReceived(turn_id="odd", score="0.5", feedback=hint))


def _salted(value: Any, name: str = "") -> Any:
    if isinstance(value, dict) and name in _NAMED:
        return {each + HOSTILE: found for each, found in value.items()}
    if isinstance(value, dict):
        return {each: _salted(found, each) for each, found in value.items()}
    if isinstance(value, list):
        return [_salted(each, name) for each in value]
    return value + HOSTILE if isinstance(value, str) and name in _WRITTEN else value
