"""A log with one of everything that the pages of promotions, gates and candidates show."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from reef_release.domain import events as ev
from reef_release.domain.events import GLOBAL
from reef_release.domain.fold import Fold
from reef_release.domain.state import Scenario, State
from reef_release.projections.replay import ReplayChecks
from reef_release.web.facts import Row, row_of, violation_at
from tests.world import SCENARIO, World, byte_logprobs, text_tokens

__all__ = ["PAIRED", "WebStory", "reply_oddly", "rows_of", "tell", "tensors", "trial_positions"]

PAIRED: dict[str, Any] = {
    "verifiers": ["answer@1", "style@1"],
    "rule": {
        "kind": "all_of",
        "rules": [
            {"kind": "protected", "tasks": ["sum-000"]},
            {"kind": "consecutive_passes", "k": 3, "max_trials": 24, "max_failures": 24},
            {"kind": "improves", "alpha": None, "max_deficit": 4, "max_trials": 24},
        ],
    },
}
"""Three in a row, nothing protected broken, and better than the incumbent by the budget."""

_BUDGET = {
    "procedure": "false_discovery_rate",
    "alpha": "0.2",
    "gamma": {"first_block": 16, "decay": 2},
}
_RIGHT = "I add two to it,\x07 since 1 < 2 & 2 > 1.\n\n\tThe answer is {}."
_WRONG = "<script>alert('reply')</script> \u202eevil\u202c \x1b[31mred\n\n\tThe answer is {}.\n"


@dataclass(frozen=True, kw_only=True)
class WebStory:
    """The world after the story, with the ids of what a page may be asked for."""

    world: World
    origin: str
    second: str
    refused: str
    failed_gate: str
    errored_gate: str
    stale_gate: str
    paired: str
    paired_gate: str
    open_gate: str
    violation: int

    @property
    def state(self) -> State:
        return self.world.state

    @property
    def scenario(self) -> Scenario:
        return self.world.scenario

    def state_at(self, at: int) -> State:
        """The state by folding only what stands up to *at*."""
        fold = Fold(ReplayChecks(self.world.anchor, self.world.blobs))
        for body in self.world.bodies[: at + 1]:
            fold.apply(body)
        return fold.state


def tensors(values: dict[str, tuple[str, list[int], bytes]]) -> bytes:
    """A safetensors file of (dtype, shape, bytes) by name."""
    header, data = {}, b""
    for name, (dtype, shape, raw) in values.items():
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        data += raw
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def rows_of(world: World, at: int, types: tuple[str, ...], stream: str | None = None) -> list[Row]:
    """Events of the scenario (and of trust) of these types by *at*, the newest first."""
    found = []
    for body in reversed(world.bodies[: at + 1]):
        row = row_of(body)
        inside = row.envelope.scenario in (SCENARIO, GLOBAL) and row.envelope.type in types
        if inside and stream in (None, row.envelope.stream):
            found.append(row)
    return found


def trial_positions(world: World, gate_id: str, at: int) -> list[int]:
    """Where the valid trials of a gate stand, in order."""
    found = rows_of(world, at, ("gate.trial",), f"gate/{gate_id}")
    positions = [row.position for row in reversed(found)]
    return [each for each in positions if violation_at(world.state, each) is None]


def tell(directory: Path) -> WebStory:
    """A scenario from its creation to an open gate; see `WebStory` for what happens in it."""
    world = World(directory)
    world.create_scenario()
    origin = world.release()
    refused = world.submit()
    world.refuse(refused)
    failed_gate = world.gate(world.admitted(), "---")
    second = world.release()
    world.hold()
    world.rollback(origin)
    world.checkpoint()
    world.resume()
    errored_gate = world.gate(world.admitted(), "eee")
    world.change_policy(approvals=1)
    approved = world.gate(world.admitted())
    stale_gate = world.open_gate(world.admitted())
    world.run_trials(stale_gate, "-", "-")
    world.sign(approved)
    world.rollback(second)
    world.checkpoint()
    world.stale(stale_gate)
    violation = world.head + 1
    world.attack(world.promotion(approved))
    world.change_policy(standard=PAIRED, budget=_BUDGET, approvals=1)
    paired = world.admitted(
        metrics={"development.accuracy": "0.75", "kl": "0.01"}, settings={"learning_rate": "1e-05"}
    )
    paired_gate = world.open_gate(paired)
    _paired_trials(world, paired_gate)
    world.decide(paired_gate)
    world.sign(paired_gate)
    world.append(
        ev.ReleaseApproved(release_id=paired, gate_id=paired_gate, reason="read twenty answers"),
        actor="alice",
    )
    world.promote(paired_gate)
    world.checkpoint()
    world.revoke_release(origin)
    open_gate = world.open_gate(world.admitted())
    for mark in ("+", "-", "-", "e", "t", "+", "+"):
        reply_oddly(world, open_gate, mark)
    return WebStory(
        world=world,
        origin=origin,
        second=second,
        refused=refused,
        failed_gate=failed_gate,
        errored_gate=errored_gate,
        stale_gate=stale_gate,
        paired=paired,
        paired_gate=paired_gate,
        open_gate=open_gate,
        violation=violation,
    )


def _paired_trials(world: World, gate_id: str) -> None:
    """The candidate is right but in slot 2; the incumbent only there and in slot 1."""
    gate = world.gate_of(gate_id)
    while (due := gate.due()) is not None:
        slot, side, attempt = due
        if slot == 3 and side == "candidate" and attempt == 0:
            reply_oddly(world, gate_id, "t")
            continue
        right = (slot != 2) if side == "candidate" else slot in (1, 2)
        reply_oddly(world, gate_id, "+" if right else "-")


def reply_oddly(world: World, gate_id: str, mark: str) -> None:
    """The trial that is due, with a reply that nobody should show as it is."""
    gate = world.gate_of(gate_id)
    due = gate.due()
    assert due is not None
    if mark == "e":
        world.append(world.trial(gate_id, "e"), actor="gate-worker")
        return
    task = gate.tasks[due[0]]
    reply = _RIGHT.format(task.answer) if mark == "+" else _WRONG.format(int(task.answer) + 1)
    plain = world.trial_body(gate_id, mark)
    tokens = text_tokens(reply)
    logprobs = byte_logprobs(world.weights_of(plain.release_id), tokens)
    body = msgspec.structs.replace(plain, reply=reply, token_ids=tokens, logprobs=logprobs)
    changes: dict[str, Any] = {"body": world.put_trial(body)}
    if mark != "t":
        checks = ReplayChecks(world.anchor, world.blobs)
        changes["verdict"] = checks.verdict(gate.part.verifiers, reply, task.answer)
    world.append(world.trial(gate_id, mark, **changes), actor="gate-worker")
