"""Any sequence of commands by any roles, against one fold, with an oracle that looks on.

A step is one append. Honest ones are what a role would append next; crimes are the same with
fields exchanged for values that stand elsewhere in the story, or with the signature of a key of
another role; repeats append again what was appended before. All of them go past the service's
own check straight into the fold, as SQL by hand with a writer's rights would. The fold may let
an event through or not; `Oracle` says for each that it let through whether it may stand there,
and one that it did not let through must have changed nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from reef_release.domain import events as ev
from reef_release.domain.events import EventData
from reef_release.domain.gate import Gate
from reef_release.domain.state import Scenario
from reef_release.domain.validation import stream_of
from reef_release.signing.keys import Role
from tests.properties.oracle import Fact, Oracle
from tests.world import CHANNEL, World

__all__ = ["WORDS", "RuleMachine"]

SCENARIOS = ("homework", "physics")
CHANNELS = (CHANNEL, CHANNEL, CHANNEL, "canary")
NOBODY = "0" * 64
MARKS = "+++++++++++----te"
WORDS: Counter[str] = Counter()
"""What happened in all machines of this process: steps, and events by type and fate."""

_PART = {
    "verifiers": ["answer@1"],
    "rule": {"kind": "consecutive_passes", "k": 2, "max_trials": 6, "max_failures": 3},
}
_POOL = 24
_NUMBER = st.integers(0, 1 << 16)


class RuleMachine(RuleBasedStateMachine):
    """Subclasses give `make_world` and `make_oracle`."""

    VERBS = (
        *("trial",) * 4,
        "submit",
        "admit",
        "refuse",
        "checkpoint",
        *("open_gate",) * 4,
        *("decide",) * 2,
        *("lie",) * 3,
        "stale",
        *("sign",) * 4,
        *("promote",) * 6,
        *("rollback",) * 6,
        "hold",
        *("resume",) * 2,
        *("revoke_candidate",) * 2,
        *("revoke_release",) * 2,
        "revoke_key",
        "add_key",
        "rotate_root",
        "change_policy",
    )

    def make_world(self) -> World:
        raise NotImplementedError

    def make_oracle(self, world: World) -> Oracle:
        raise NotImplementedError

    def make_key(self, role: Role) -> Any:
        raise NotImplementedError

    def abused(self, key: Any, role: Role) -> Any | None:
        """*key* as its owner would use it to sign what *role* signs; None if it cannot."""
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.world = self.make_world()
        self.oracle = self.make_oracle(self.world)
        self.past: list[EventData] = []
        self.pools: dict[str, list[Any]] = {}
        self.all_keys = dict.fromkeys([*self.world.keys.values()])
        self.served: dict[tuple[str, str], int] = {}
        self.seen = self.shape()
        self.begun = False
        world = self.world
        self.offer(ev.RootRotated(version=1, metadata=world.anchor, reason="the anchor"))
        for key in world.keys.values():
            self.offer(self.key_data(key))
        for name in SCENARIOS:
            world.scenario_name = name
            self.offer(world.scenario_data(**self.policy_of(0)))

            for _ in range(30):
                self.offer(self.next_step(world.scenario, 0))
        self.begun = True

    # The kinds of step

    @rule(kind=_NUMBER, verb=st.sampled_from(VERBS), which=_NUMBER, luck=_NUMBER)
    def command(self, kind: int, verb: str, which: int, luck: int) -> None:
        """Somebody does something, after all others went on with their work for a while."""
        self.go_on(which, luck)
        # One rule for all kinds: Hypothesis likes to leave whole rules out of an example.
        (self.honest, self.crime, self.crime, self.repeat)[kind % 4](kind // 4, verb, which)

    def honest(self, _kind: int, verb: str, which: int) -> None:
        """What somebody would rightly append next, if it is the time for it."""
        data = self.next_data(verb, which)
        if data is not None:
            self.offer(data)

    def crime(self, kind: int, verb: str, which: int) -> None:
        """The same with one field or another changed, or signed by whom it should not be."""
        data = self.next_data(verb, which)
        if data is None:
            data = self.past[which % len(self.past)]
        place, straight = divmod(kind, 2)
        if not straight and (forged := self.forged(data, which)) is not None:
            self.offer(forged)
            return
        fields = data.__struct_fields__
        for turn in range(4):
            name = fields[(place + turn) % len(fields)]
            pool = self.pools.get(name, [getattr(data, name)])
            value = pool[(which + place // len(fields) + turn) % len(pool)]
            self.offer(msgspec.structs.replace(data, **{name: value}))

    def repeat(self, kind: int, _verb: str, which: int) -> None:
        """What was appended before, again, here or in another scenario or stream."""
        data = self.past[-1 - which % min(len(self.past), 200)]
        if kind % 3:
            self.offer(data)
        elif kind % 2:
            self.offer(data, scenario=("_", *SCENARIOS)[which % 3])
        else:
            self.offer(data, stream=stream_of(self.past[kind % len(self.past)]))

    def go_on(self, where: int, luck: int) -> None:
        """In one scenario a candidate goes on its way, and what stands in it is put right."""
        self.world.scenario_name = SCENARIOS[where % 5 == 4]
        stuck = False
        for number in range(luck % 13):
            scenario = self.world.scenario
            chance = (luck + 40503 * number) * 2654435761 >> 15
            data = self.mended(patient=luck % 3 == 0) or (
                self.next_submit(scenario, chance) if stuck else self.next_step(scenario, chance)
            )
            stuck = not self.offer(data)

    # Appending

    def offer(self, data: EventData, **envelope: Any) -> bool:
        """Append past all checks; whether the fold let it through."""
        world = self.world
        self.remember(data)
        head = world.head
        violations = len(world.state.violations)
        world.append_raw(data, **envelope)
        assert world.head == head + 1
        let_through = len(world.state.violations) == violations
        if self.begun:
            WORDS["steps"] += 1
            WORDS[f"{data.TYPE} {'stands' if let_through else 'violates'}"] += 1
        now = self.shape()
        if let_through:
            body = ev.decode_envelope(world.bodies[-1])
            fact = Fact(head + 1, body.scenario, body.stream, body.type, data, body.actor)
            self.oracle.saw(fact)
        else:
            assert now == self.seen, f"a forbidden {data.TYPE} had an effect"
        self.seen = now
        self.pointers_are_what_the_log_says()
        return let_through

    def remember(self, data: EventData) -> None:
        self.past.append(data)
        for name in data.__struct_fields__:
            pool = self.pools.setdefault(name, [])
            value = getattr(data, name)
            if value not in pool:
                pool.append(value)
                if len(pool) > _POOL:
                    del pool[which_to_forget(len(self.past))]

    def shape(self) -> tuple[Any, ...]:
        """Everything that matters of the state, small enough to compare after every step."""
        state = self.world.state
        return (
            state.root and state.root.version,
            tuple((key_id, key.revoked_position) for key_id, key in state.keys.items()),
            len(state.checkpoints),
            tuple(
                (
                    name,
                    each.held_reason,
                    len(each.policies),
                    tuple(
                        (c.status, c.admitted_position, c.revoked_position, len(c.gates))
                        for c in each.candidates.values()
                    ),
                    tuple((len(g.trials), g.outcome) for g in each.gates.values()),
                    tuple(
                        (r.gate_id, r.key_id, r.promoted_position, r.revoked_position)
                        for r in each.releases.values()
                    ),
                    tuple((channel, len(moves)) for channel, moves in each.pointers.items()),
                )
                for name, each in state.scenarios.items()
            ),
            tuple((place, each.serial) for place, each in state.current.items()),
        )

    def pointers_are_what_the_log_says(self) -> None:
        """And what is served, and said to be served, is one of them."""
        state = self.world.state
        for name, scenario in state.scenarios.items():
            for channel, moves in scenario.pointers.items():
                told = self.oracle.moves(name, channel)
                assert [(move.position, move.release_id) for move in moves] == told
                current = state.current.get((name, channel))
                if current is None:
                    continue
                said = (current.pointer_position, current.release_id)
                assert said in told, "the document names what the log does not"
                assert current.serial > current.pointer_position
                assert current.serial >= self.served.get((name, channel), -1)
                self.served[name, channel] = current.serial

    # What is next

    def next_data(self, verb: str, which: int) -> EventData | None:
        """What *verb* would append; None when nothing fits."""
        build: Callable[[Scenario, int], EventData | None] = getattr(self, f"next_{verb}")
        return build(self.world.scenario, which)

    def mended(self, *, patient: bool) -> EventData | None:
        """What must come first: a key that counts for every role, and unless *patient* no hold."""
        world, state = self.world, self.world.state
        assert state.root is not None
        listed = {key.key_id for key in state.root.keys}
        for role, key in world.keys.items():
            known = state.keys.get(key.key_id)
            if known is not None and known.revoked_position is not None:
                return self.next_rotate_root(world.scenario, list(world.keys).index(role))
            if key.key_id not in listed:
                return self.root_data()
            if known is None:
                return self.key_data(key)
        if state.keys[world.scenario.policy.key_id].revoked_position is not None:
            return self.next_change_policy(world.scenario, 0)
        if world.scenario.held_reason is not None and not patient:
            return self.next_resume(world.scenario, 0)
        return None

    def next_step(self, scenario: Scenario, luck: int) -> EventData:
        """The next step on the way of the newest candidate, which is often right."""
        newest = list(scenario.candidates.values())[-1:]
        if not newest or (newest[0].revoked_position is not None and luck % 2):
            return self.next_submit(scenario, luck)
        (candidate,) = newest
        if candidate.status == "submitted":
            return self.admission(candidate.candidate_id)
        if candidate.admitted_position is None:
            return self.next_submit(scenario, luck)
        if self.world.state.first_checkpoint_covering(candidate.admitted_position) is None:
            return self.world.checkpoint_data()
        gate = scenario.gates[candidate.gates[-1]] if candidate.gates else None
        if gate is None or gate.outcome in ("errored", "stale"):
            undecided = scenario.open_gate(candidate.submitted.channel)
            if undecided is None:
                return self.opening(candidate.candidate_id)
            gate = undecided
        gate_id = gate.opened.gate_id
        serving = scenario.serving(gate.opened.channel)
        moved = serving is not None and serving.position > gate.opened_position
        if gate.outcome is None:
            if gate.verdict_due() is not None:
                return self.world.decision(gate_id)
            if serving is not None and moved and luck % 2:
                return ev.GateStale(gate_id=gate_id, pointer_position=serving.position)
            return self.world.trial(gate_id, self.mark(gate, luck))
        if gate.outcome != "passed" or moved or luck % 4 == 0:
            # Also when it passed: others may sign and promote it, later or too late.
            return self.next_submit(scenario, luck)
        release = scenario.releases.get(candidate.candidate_id)
        if release is None or release.gate_id != gate_id:
            return self.world.signature(gate_id)
        return self.world.promotion(gate_id)

    def next_submit(self, scenario: Scenario, which: int) -> EventData:
        channel = CHANNELS[which % len(CHANNELS)]
        pointer = scenario.serving(channel)
        served = pointer.release_id if pointer else None
        adapter = (
            served is not None
            and which % 5 == 0
            and scenario.candidates[served].submitted.kind == "full"
        )
        return self.world.submission(
            channel=channel,
            base=served,
            parent=served,
            kind="lora" if adapter else "full",
            foundation=served if adapter else None,
        )

    def admission(self, candidate: str) -> EventData:
        return ev.CandidateAdmitted(
            candidate_id=candidate,
            schema=self.world.scenario.schema,
            tensor_count=1,
            size_bytes=4,
        )

    def next_admit(self, scenario: Scenario, which: int) -> EventData | None:
        candidate = pick(scenario.candidates, which)
        return self.admission(candidate) if candidate else None

    def next_refuse(self, scenario: Scenario, which: int) -> EventData | None:
        candidate = pick(scenario.candidates, which)
        return ev.CandidateRefused(candidate_id=candidate, reasons=[]) if candidate else None

    def next_checkpoint(self, _scenario: Scenario, _which: int) -> EventData:
        return self.world.checkpoint_data()

    def opening(self, candidate: str) -> EventData:
        scenario = self.world.scenario
        channel = scenario.candidates[candidate].submitted.channel
        pointer = scenario.serving(channel)
        return self.world.opening(
            candidate,
            channel=channel,
            base=pointer.release_id if pointer else None,
            phase="standard" if pointer else "bootstrap",
        )

    def next_open_gate(self, scenario: Scenario, which: int) -> EventData | None:
        ripe = [
            candidate_id
            for candidate_id, candidate in scenario.candidates.items()
            if candidate.admitted_position is not None and not candidate.gates
        ]
        candidate = pick(ripe or scenario.candidates, which)
        return self.opening(candidate) if candidate else None

    def next_trial(self, scenario: Scenario, which: int) -> EventData | None:
        due = [gate_id for gate_id, gate in scenario.gates.items() if gate.due() is not None]
        gate_id = pick(due, which)
        return (
            self.world.trial(gate_id, self.mark(scenario.gates[gate_id], which))
            if gate_id
            else None
        )

    def mark(self, _gate: Gate, luck: int) -> str:
        """How a trial that is due ends."""
        return MARKS[luck % len(MARKS)]

    def next_decide(self, scenario: Scenario, which: int) -> EventData | None:
        due = [
            gate_id
            for gate_id, gate in scenario.gates.items()
            if gate.outcome is None and gate.verdict_due() is not None
        ]
        gate_id = pick(due, which)
        return self.world.decision(gate_id) if gate_id else None

    def next_stale(self, scenario: Scenario, which: int) -> EventData | None:
        undecided = [gate_id for gate_id, gate in scenario.gates.items() if gate.outcome is None]
        gate_id = pick(undecided or scenario.gates, which)
        if gate_id is None:
            return None
        pointer = scenario.serving(scenario.gates[gate_id].opened.channel)
        return ev.GateStale(gate_id=gate_id, pointer_position=pointer.position if pointer else 0)

    def next_lie(self, scenario: Scenario, which: int) -> EventData | None:
        """The gate worker says that a gate passed that did not, or not yet."""
        undecided = [gate_id for gate_id, gate in scenario.gates.items() if gate.outcome is None]
        gate_id = pick(undecided, which)
        return self.world.decision(gate_id, "passed") if gate_id else None

    def next_sign(self, scenario: Scenario, which: int) -> EventData | None:
        ripe = [
            gate_id
            for gate_id, gate in scenario.gates.items()
            if gate.outcome == "passed" and gate.opened.candidate_id not in scenario.releases
        ]
        gate_id = pick(ripe or scenario.gates, which)
        return self.world.signature(gate_id) if gate_id else None

    def next_promote(self, scenario: Scenario, which: int) -> EventData | None:
        release = pick(self.ripe(scenario), which) if which % 8 else None
        gate_id = scenario.releases[release].gate_id if release else pick(scenario.gates, which)
        return self.world.promotion(gate_id) if gate_id else None

    def ripe(self, scenario: Scenario) -> list[str]:
        """Releases that were never promoted."""
        return [each for each, it in scenario.releases.items() if it.promoted_position is None]

    def next_rollback(self, scenario: Scenario, which: int) -> EventData | None:
        channel = pick(scenario.pointers, which)
        if channel is None:
            return None
        *earlier, now = [move.release_id for move in scenario.pointers[channel]]
        release = pick([each for each in earlier if each != now] or scenario.releases, which // 4)
        assert release is not None
        return ev.ReleaseRolledBack(release_id=release, channel=channel, reason="it is worse")

    def next_hold(self, _scenario: Scenario, _which: int) -> EventData:
        return ev.ScenarioHeld(reason="the answers look odd")

    def next_resume(self, _scenario: Scenario, _which: int) -> EventData:
        return ev.ScenarioResumed(reason="they were fine")

    def next_revoke_candidate(self, scenario: Scenario, which: int) -> EventData | None:
        candidate = pick(self.ripe(scenario) or scenario.candidates, which)
        return ev.CandidateRevoked(candidate_id=candidate, reason="x") if candidate else None

    def next_revoke_release(self, scenario: Scenario, which: int) -> EventData | None:
        release = pick(self.ripe(scenario) or scenario.releases, which)
        return ev.ReleaseRevoked(release_id=release, reason="x") if release else None

    def next_revoke_key(self, _scenario: Scenario, which: int) -> EventData | None:
        key = list(self.all_keys)[which % len(self.all_keys)]
        return ev.KeyRevoked(key_id=key.key_id, role=key.role.value, reason="it was stolen")

    def next_add_key(self, _scenario: Scenario, which: int) -> EventData:
        """Bring in the keys that the newest root lists, one after another."""
        known = self.world.state.keys
        for key in self.world.keys.values():
            if key.key_id not in known:
                return self.key_data(key)
        return self.key_data(list(self.all_keys)[which % len(self.all_keys)])

    def next_rotate_root(self, _scenario: Scenario, which: int) -> EventData:
        """Take a role's key out and another one in."""
        role = list(self.world.keys)[which % len(self.world.keys)]
        fresh = self.make_key(role)
        self.all_keys[fresh] = None
        self.world.keys = {**self.world.keys, role: fresh}
        return self.root_data()

    def root_data(self) -> EventData:
        """The root after the one in force, over the keys of the world."""
        root = self.world.state.root
        version = root.version + 1 if root else 1
        return ev.RootRotated(
            version=version,
            metadata=self.world.root_text(self.world.keys, version=version),
            reason="a new year",
        )

    def next_change_policy(self, _scenario: Scenario, which: int) -> EventData:
        return self.world.policy_data(**self.policy_of(which))

    def policy_of(self, which: int) -> dict[str, Any]:
        """Changes of the world's policy; each third one has no objective verifier."""
        part = {**_PART, "verifiers": [["answer@1"], ["answer@1"], ["style@1"]][which % 3]}
        return {"standard": part, "bootstrap": part, "max_attempts": 3}

    def key_data(self, key: Any) -> EventData:
        root = self.world.state.root
        return ev.KeyAdded(
            key_id=key.key_id,
            role=key.role.value,
            public_key=key.public.pem,
            root_version=root.version if root else 0,
        )

    # Crimes that need a key or a lie

    def forged(self, data: EventData, which: int) -> EventData | None:
        """*data* signed by any key there ever was, or with a lie in it."""
        world, owner = self.world, list(self.all_keys)[which % len(self.all_keys)]
        match data:
            case ev.DecisionPosted(gate_id=gate_id) if gate_id in world.scenario.gates:
                outcome = data.TYPE.removeprefix("gate.")
                key = self.abused(owner, Role.GATE)
                return world.decision(gate_id, outcome, key) if key else None
            case ev.GateTrial(verdict=ev.VerdictRecord(passed=passed)):
                verdict = ev.VerdictRecord(passed=not passed, checks={"answer@1": not passed})
                return msgspec.structs.replace(data, verdict=verdict)
            case ev.ReleaseSigned(gate_id=gate_id) if gate_id in world.scenario.gates:
                key = self.abused(owner, Role.RELEASE)
                return world.signature(gate_id, key) if key else None
            case ev.PolicyChanged():
                key = self.abused(owner, Role.POLICY)
                return world.policy_data(key, **self.policy_of(0)) if key else None
            case ev.KeyAdded():
                # A key that no root lists.
                return self.key_data(self.make_key(list(world.keys)[which % len(world.keys)]))
            case ev.GateOpened() if which % 3 == 0:
                seeds = self.pools.get("seed", [data.seed])
                return msgspec.structs.replace(data, seed=seeds[which % len(seeds)])
            case ev.GateOpened():
                base = self.pools["base"][which % len(self.pools["base"])]
                phase = "standard" if base else "bootstrap"
                return msgspec.structs.replace(data, base=base, phase=phase)
            case ev.CheckpointPublished():
                key = self.abused(owner, Role.LOG)
                return world.checkpoint_data(key) if key else None
        return None


def pick(among: Any, which: int) -> str | None:
    """One of them, more often a new one."""
    found = list(among)
    if which % 4:
        found = found[-3:]
    return found[which % len(found)] if found else None


def which_to_forget(turn: int) -> int:
    """The first of a pool or one in the middle, so that it keeps old and new values."""
    return turn % _POOL
