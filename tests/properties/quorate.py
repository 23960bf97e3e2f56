"""The rule's machines under policies that ask for one, two or three gate workers.

There are several gate keys; a worker mostly signs with its own key and posts with its own token,
and now and then with those of another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from reef_release.domain import events as ev
from reef_release.domain.events import EventData
from reef_release.domain.gate import Gate
from reef_release.domain.quorum import lacking_workers, passes_so_far
from reef_release.domain.state import Scenario
from reef_release.signing.keys import Role
from tests.properties.cheap_world import CheapWorld
from tests.properties.guarded import GuardedMachine
from tests.properties.machine import WORDS
from tests.properties.machines import CheapMachine
from tests.world import World

__all__ = ["GuardedQuorumMachine", "QuorumMachine"]

_MORE = 3


class _QuorumWorld(CheapWorld):
    """Its roots list several gate keys."""

    def __init__(self) -> None:
        self.more: list[Any] = []
        super().__init__()

    def root_text(self, keys: Mapping[Role, Any], *, version: int, **_: Any) -> str:
        root = json.loads(super().root_text(keys, version=version))
        root["keys"] += [
            {"key_id": key.key_id, "role": "gate", "public_key": key.pem} for key in self.more
        ]
        return json.dumps(root)

    def workers(self) -> list[Any]:
        """The gate keys that count now."""
        known = self.state.keys
        keys = [self.keys[Role.GATE], *self.more]
        found = [
            key
            for key in keys
            if key.key_id in known and known[key.key_id].revoked_position is None
        ]
        return found or keys

    def decision(
        self, gate_id: str, outcome: str | None = None, key: Any = None, **changes: Any
    ) -> ev.DecisionPosted:
        if key is None:
            workers, gate = self.workers(), self.gate_of(gate_id)
            number = len(self.scenario.candidates[gate.opened.candidate_id].gates)
            key = workers[0 if self.head % 7 == 0 else number % len(workers)]
        return super().decision(gate_id, outcome, key, **changes)


class _Quorate(CheapMachine):
    """What all machines with a quorum do."""

    def make_world(self) -> World:
        return _QuorumWorld()

    def policy_of(self, which: int) -> dict[str, Any]:
        # None is asked for at first, so that both scenarios soon serve something.
        quorum = {"gate_quorum": (1, 2, 3, 3)[which % 4]} if which else {}
        return {**super().policy_of(which), **quorum, "max_attempts": 4}

    def mended(self, *, patient: bool) -> EventData | None:
        found = super().mended(patient=patient)
        world, state = self.world, self.world.state
        assert isinstance(world, _QuorumWorld)
        if found is not None or state.root is None:
            return found
        listed = {key.key_id for key in state.root.keys}
        while len(world.more) < _MORE:
            world.more.append(self._fresh())
        for place, key in enumerate(world.more):
            known = state.keys.get(key.key_id)
            if known is not None and known.revoked_position is not None:
                world.more[place] = self._fresh()
                return self.root_data()
            if key.key_id not in listed:
                return self.root_data()
            if known is None:
                return self.key_data(key)
        return None

    def _fresh(self) -> Any:
        key = self.make_key(Role.GATE)
        self.all_keys[key] = None
        return key

    def next_step(self, scenario: Scenario, luck: int) -> EventData:
        newest = list(scenario.candidates.values())[-1:]
        if newest and newest[0].gates and luck % 16:
            (candidate,) = newest
            gate = scenario.gates[candidate.gates[-1]]
            waits = gate.outcome == "passed" and lacking_workers(self.world.state, scenario, gate)
            if waits and scenario.open_gate(gate.opened.channel) is None:
                return self.opening(candidate.candidate_id)
        return super().next_step(scenario, luck)

    def mark(self, gate: Gate, luck: int) -> str:
        scenario = self.world.scenario
        candidate = scenario.candidates[gate.opened.candidate_id]
        due = gate.due()
        if due is not None and luck % 32 and passes_so_far(scenario, candidate):
            # Else next to no candidate would have the luck to pass several gates.
            return "+" if due[1] == "candidate" else "-"
        return super().mark(gate, luck)

    def offer(self, data: EventData, **envelope: Any) -> bool:
        world = self.world
        if isinstance(data, ev.DecisionPosted):
            signed_by = data.attestation.get("signed_by", "")
            actor = "gate-worker" if len(self.past) % 11 == 0 else f"of {signed_by[:8]}"
            envelope.setdefault("actor", actor)
        stands = super().offer(data, **envelope)
        if stands and isinstance(data, ev.ReleasePromoted) and self.begun:
            name = envelope.get("scenario", world.scenario_name)
            gate = world.state.scenarios[name].gates[data.gate_id]
            WORDS[f"promoted under {gate.policy.gate_quorum}"] += 1
        return stands


class QuorumMachine(_Quorate):
    """The one rule with a quorum."""


class GuardedQuorumMachine(_Quorate, GuardedMachine):
    """And with an error budget, approvals and a watch."""

    def go_on(self, where: int, luck: int) -> None:
        # Gates are long here, and a candidate has up to three of them on its way.
        for number in range(6):
            super().go_on(where, luck + 40503 * number)
