"""Passes that are shown beside a release's own: which count, and that the others harm nothing.

A lying service chooses what it shows, and whoever has the database's password adds events without
effect. So under a quorum of two no forged pass may stand for the second worker's, and none may keep
from serving what two workers passed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from reef_release.domain import events as ev
from reef_release.domain import rule, validation
from reef_release.domain.canonical import canonical_json
from reef_release.domain.decision import GateDecision, decision_of
from reef_release.errors import Refused
from reef_release.node import grounds as rules
from reef_release.node.case import Below, Beside, Material
from reef_release.node.leaves import Leaf
from reef_release.node.material import gather
from reef_release.signing.keys import Role, create_key
from reef_release.verifiers.registry import is_objective
from tests.fakes import FakeService
from tests.quorum import Worker, gated_by
from tests.unit.node.conftest import Host, codes, judge, serve_adapter
from tests.unit.node.test_quorum import judge as judge_with_workers
from tests.unit.node.test_quorum import promoted, trusted
from tests.world import World

OTHER = "ab" * 32


def served(service: FakeService) -> str:
    """What a node that knows all the workers serves."""
    return judge_with_workers(service).release_id


# Events beside that stand in honest logs, or that anybody can add, keep nothing from serving


def moved_under(world: World, kind: str, first: str, waiting: str) -> None:
    """The pointer moves while a gate is open: to an earlier release, or to one that waits."""
    if kind == "rollback":
        world.rollback(first)
    else:
        world.promote(waiting)


@pytest.mark.parametrize("kind", ["rollback", "promotion"])
def test_a_pass_that_came_after_the_pointer_moved_keeps_no_release_from_serving(
    service: FakeService, kind: str
) -> None:
    world = service.world
    first = world.serving
    assert first is not None
    world.release()
    waiting = world.passed()
    candidate = world.admitted()
    late = world.open_gate(candidate)
    world.run_trials(late, "++")
    moved_under(world, kind, first, waiting)
    world.decide(late)
    world.promote(world.passed(candidate))
    world.checkpoint()
    assert world.state.violations == []
    assert judge(service).release_id == candidate


@pytest.mark.parametrize("kind", ["rollback", "promotion"])
def test_nor_does_it_where_the_policy_asks_for_two_workers(
    service: FakeService, workers: list[Worker], kind: str
) -> None:
    world = service.world
    first = world.serving
    assert first is not None
    promoted(world, workers[:2])
    other = world.admitted()
    gated_by(world, other, workers[0])
    waiting = gated_by(world, other, workers[1])
    world.sign(waiting)
    candidate = world.admitted()
    late = world.open_gate(candidate)
    world.run_trials(late, "++")
    moved_under(world, kind, first, waiting)
    world.append(world.decision(late, key=workers[2].key), actor=workers[2].actor)
    for worker in workers[:2]:
        gate_id = gated_by(world, candidate, worker)
    world.sign(gate_id)
    world.promote(gate_id)
    world.checkpoint()
    assert world.state.violations == []
    assert served(service) == candidate


def void_pass(world: World, opened: ev.GateOpened) -> int:
    """A pass of that gate which nobody signed, past the rule."""
    return world.append_raw(
        ev.GatePassed(
            gate_id=opened.gate_id,
            candidate_id=opened.candidate_id,
            base=opened.base,
            channel=opened.channel,
            attestation={},
            canary=OTHER,
        )
    )


@pytest.mark.parametrize("quorum", [1, 2])
def test_two_events_without_effect_around_a_move_keep_no_release_from_serving(
    service: FakeService, workers: list[Worker], quorum: int
) -> None:
    world = service.world
    world.change_policy(gate_quorum=quorum, max_attempts=4)
    candidate = world.admitted()
    void = world.opening(candidate, gate_id="evil", channel="evil", base=None, phase="bootstrap")
    world.append_raw(void)
    promoted(world, workers[:quorum])
    void_pass(world, void)
    for worker in workers[:quorum]:
        gate_id = gated_by(world, candidate, worker)
    world.sign(gate_id)
    world.promote(gate_id)
    world.checkpoint()
    assert len(world.state.violations) == 2
    assert served(service) == candidate


def unreadable(world: World, data: ev.EventData) -> None:
    """An event of that type with a field that there is none of."""
    body = msgspec.json.decode(world.envelope(data))
    body["data"]["extra"] = 1
    encoded = canonical_json(body)
    world.fold.apply(encoded)
    world.bodies.append(encoded)


def test_passes_without_effect_of_the_same_draw_keep_no_release_from_serving(
    service: FakeService, workers: list[Worker]
) -> None:
    world = service.world
    candidate = world.admitted()
    gated_by(world, candidate, workers[0])
    void = world.opening(candidate, gate_id="evil", seed=world.opening(candidate).seed)
    world.append_raw(msgspec.structs.replace(void, channel="evil"))
    void_pass(world, msgspec.structs.replace(void, gate_id="unknown"))
    world.hold()
    world.append_raw(void, stream="gate/elsewhere")
    void_pass(world, void)
    events = [world.last(kind).data for kind in ("gate.passed", "candidate.submitted")]
    for data in (msgspec.structs.replace(void, gate_id="unread"), *events):
        unreadable(world, data)
    world.resume()
    gate_id = gated_by(world, candidate, workers[1])
    world.sign(gate_id)
    world.promote(gate_id)
    world.checkpoint()
    assert len(world.state.violations) >= 7
    assert served(service) == candidate


def test_nothing_is_looked_up_beside_where_one_worker_is_enough(service: FakeService) -> None:
    world = service.world
    candidate = world.admitted()
    void = world.opening(candidate, gate_id="evil", channel="evil")
    world.append_raw(void)
    void_pass(world, void)
    gate_id = world.passed(candidate)
    world.promote(gate_id)
    world.checkpoint()
    assert judge(service).release_id == candidate
    asked = [request.url.params.get("type") for request in service.requests]
    assert asked.count("gate.opened") == 1


# Forged passes beside do not stand for the second worker's


@dataclass(kw_only=True)
class Scene:
    """A log whose writer asks for no quorum though the policy does; one worker passes."""

    service: FakeService
    workers: list[Worker]
    candidate: str = ""

    @property
    def world(self) -> World:
        return self.service.world

    def forge(
        self,
        worker: Worker | None = None,
        opened: dict[str, Any] | None = None,
        decided: dict[str, Any] | None = None,
        posted: dict[str, Any] | None = None,
    ) -> tuple[int, int]:
        """A gate that nobody ran, and its pass signed by the second worker; where they stand."""
        world, worker = self.world, worker or self.workers[1]
        opening = world.opening(self.candidate, **(opened or {}))
        at = world.append_raw(opening)
        decision = msgspec.structs.replace(self._decision(opening), **(decided or {}))
        fields = {
            "gate_id": opening.gate_id,
            "candidate_id": opening.candidate_id,
            "base": opening.base,
            "channel": opening.channel,
            "attestation": world.sign_decision(decision, worker.key),
            "canary": decision.canary,
        } | (posted or {})
        ended = world.append_raw(ev.GatePassed(**fields), actor=worker.actor)
        if world.scenario.open_gate(opening.channel) is not None:
            world.append(world.decision(opening.gate_id, "errored"), actor="gate-worker")
        return at, ended

    def _decision(self, opening: ev.GateOpened) -> GateDecision:
        gate = next(each for each in self.world.scenario.gates.values() if each.outcome == "passed")
        decision = decision_of(self.world.scenario_name, gate, "passed", OTHER)
        return msgspec.structs.replace(decision, **msgspec.structs.asdict(opening))

    def passed_alone(self) -> None:
        """The one worker's own pass, and with it the promotion."""
        gate_id = gated_by(self.world, self.candidate, self.workers[0])
        self.world.sign(gate_id)
        self.world.promote(gate_id)
        self.world.checkpoint()

    def leaf(self, position: int, size: int) -> Leaf:
        proof = self.service.client().inclusion(position, size).proof
        return Leaf(body=self.world.bodies[position].decode(), proof=proof)

    def judged(self, show: Callable[[Material, int], Material]) -> list[str]:
        """The codes against the newest release with what *show* makes of the honest material."""
        node = trusted(self.world)
        opened = node.open_document(self.service.signed(), self.world.time())
        size = opened.checkpoint.size
        material = gather(self.service.client(), opened.document, size, trials=False)
        try:
            grounds = rules.verify(
                show(material, size),
                opened.document,
                opened.checkpoint,
                node.chain,
                is_objective,
                trials=False,
            )
        except Refused as refused:
            return codes(refused)
        assert grounds.release_id == self.world.serving
        return []


@pytest.fixture
def scene(service: FakeService, workers: list[Worker], monkeypatch: pytest.MonkeyPatch) -> Scene:
    for module in (validation, rule):
        monkeypatch.setattr(module, "lacking_workers", lambda *_: [])
    made = Scene(service=service, workers=workers)
    made.candidate = made.world.admitted()
    return made


def of_another_candidate(scene: Scene) -> tuple[int, int]:
    return scene.forge(opened={"candidate_id": scene.world.admitted()})


def by_an_unlisted_key(scene: Scene) -> tuple[int, int]:
    return scene.forge(Worker(create_key(Role.GATE), "gate-worker-2"))


def by_a_revoked_key(scene: Scene) -> tuple[int, int]:
    key_id = scene.workers[1].key.key_id
    scene.world.append(ev.KeyRevoked(key_id=key_id, role="gate", reason="stolen"))
    return scene.forge()


def by_a_key_revoked_afterwards(scene: Scene) -> tuple[int, int]:
    forged = scene.forge()
    key_id = scene.workers[1].key.key_id
    scene.world.append(ev.KeyRevoked(key_id=key_id, role="gate", reason="stolen"))
    return forged


def by_the_same_worker(scene: Scene) -> tuple[int, int]:
    return scene.forge(Worker(scene.workers[0].key, "another"))


def of_a_gate_opened_twice(scene: Scene) -> tuple[int, int]:
    scene.world.append_raw(scene.world.opening(scene.candidate, gate_id="twice", channel="evil"))
    return scene.forge(opened={"gate_id": "twice"})


DRAW: dict[str, dict[str, Any]] = {
    "base": {"base": OTHER},
    "channel": {"channel": "evil"},
    "phase": {"phase": "bootstrap", "base": None},
    "policy": {"policy_digest": OTHER},
    "suite": {"suite": OTHER},
    "checkpoint": {"checkpoint_position": 0},
    "seed": {"seed": OTHER},
}
FORGED: dict[str, Callable[[Scene], tuple[int, int]]] = {
    **{
        f"another {name}": lambda scene, fields=fields: scene.forge(opened=fields)
        for name, fields in DRAW.items()
    },
    **{
        f"a decision of another {name}": lambda scene, fields=fields: scene.forge(decided=fields)
        for name, fields in DRAW.items()
    },
    **{
        f"posted for another {name}": lambda scene, name=name: scene.forge(posted={name: "cd" * 32})
        for name in ("gate_id", "candidate_id", "base", "channel", "canary")
    },
    "another scenario": lambda scene: scene.forge(decided={"scenario": "physics"}),
    "another gate": lambda scene: scene.forge(decided={"gate_id": "another"}),
    "a failure": lambda scene: scene.forge(decided={"outcome": "failed"}),
    "no canary": lambda scene: scene.forge(posted={"canary": None}),
    "no signature": lambda scene: scene.forge(posted={"attestation": {}}),
    "another candidate": of_another_candidate,
    "an unlisted key": by_an_unlisted_key,
    "a revoked key": by_a_revoked_key,
    "a key revoked afterwards": by_a_key_revoked_afterwards,
    "the same worker": by_the_same_worker,
    "a gate opened twice": of_a_gate_opened_twice,
}
SPOILT: dict[str, Callable[[Beside, Material | Below], list[Beside]]] = {
    "left out": lambda _beside, _own: [],
    "opening and pass changed over": lambda beside, _own: [
        Beside(opened=beside.passed, passed=beside.opened)
    ],
    "the release's own pass": lambda _beside, own: [Beside(opened=own.opened, passed=own.passed)],
    "its own pass under the other's opening": lambda beside, own: [
        Beside(opened=beside.opened, passed=own.passed)
    ],
    "the other's pass under its own opening": lambda beside, own: [
        Beside(opened=own.opened, passed=beside.passed)
    ],
    "the signing in its place": lambda beside, own: [
        Beside(opened=beside.opened, passed=own.signed)
    ],
    "the proof of the other leaf": lambda beside, _own: [
        Beside(
            opened=beside.opened,
            passed=Leaf(body=beside.passed.body, proof=beside.opened.proof),
        )
    ],
    "a proof that ends early": lambda beside, _own: [
        Beside(
            opened=Leaf(body=beside.opened.body, proof=beside.opened.proof[:-1]),
            passed=beside.passed,
        )
    ],
    "a proof of no hashes": lambda beside, _own: [
        Beside(
            opened=Leaf(body=beside.opened.body, proof=["zz"]),
            passed=beside.passed,
        )
    ],
    "another actor written in": lambda beside, _own: [
        Beside(
            opened=beside.opened,
            passed=Leaf(
                body=beside.passed.body.replace('"actor":"', '"actor":"x'),
                proof=beside.passed.proof,
            ),
        )
    ],
}


def beside_of(scene: Scene, at: tuple[int, int], size: int) -> Beside:
    opened, passed = (scene.leaf(position, size) for position in at)
    return Beside(opened=opened, passed=passed)


def test_a_second_workers_word_for_the_same_draw_counts_so_that_the_forgeries_are_near_misses(
    scene: Scene,
) -> None:
    at = scene.forge()
    scene.passed_alone()

    def show(own: Material, size: int) -> Material:
        return msgspec.structs.replace(own, beside=[beside_of(scene, at, size)])

    assert scene.judged(show) == []


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_pass_does_not_stand_for_the_second_workers(scene: Scene, what: str) -> None:
    at = FORGED[what](scene)
    scene.passed_alone()

    def show(own: Material, size: int) -> Material:
        beside = beside_of(scene, at, size)
        return msgspec.structs.replace(own, beside=[beside, beside])

    assert scene.judged(show) == ["too-few-workers"]
    assert scene.judged(lambda own, _size: own) == ["too-few-workers"], "as it is looked up"


@pytest.mark.parametrize("what", SPOILT)
def test_a_pass_that_is_shown_wrongly_does_not_count(scene: Scene, what: str) -> None:
    at = scene.forge()
    scene.passed_alone()

    def show(own: Material, size: int) -> Material:
        return msgspec.structs.replace(own, beside=SPOILT[what](beside_of(scene, at, size), own))

    assert scene.judged(show) == ["too-few-workers"]


def test_a_second_opening_of_a_gate_does_not_bring_an_old_pass_back(scene: Scene) -> None:
    scene.forge(opened={"gate_id": "twice"})
    again = scene.world.append_raw(scene.world.opening(scene.candidate, gate_id="twice"))
    passed = scene.world.append_raw(scene.world.last("gate.passed").data)
    scene.passed_alone()

    def show(own: Material, size: int) -> Material:
        return msgspec.structs.replace(own, beside=[beside_of(scene, (again, passed), size)])

    assert scene.judged(show) == ["too-few-workers"]


def test_a_pass_from_before_the_pointer_moved_or_after_the_gate_opened_does_not_count(
    scene: Scene,
) -> None:
    world, base = scene.world, scene.world.serving
    assert base is not None
    before = scene.forge()
    aside = gated_by(world, world.admitted(), scene.workers[0])
    world.sign(aside)
    world.promote(aside)
    world.rollback(base)
    gate_id = gated_by(world, scene.candidate, scene.workers[0])
    after = scene.forge()
    world.sign(gate_id)
    world.promote(gate_id)
    world.checkpoint()
    for at in (before, after):

        def show(own: Material, size: int, at: tuple[int, int] = at) -> Material:
            return msgspec.structs.replace(own, beside=[beside_of(scene, at, size)])

        assert scene.judged(show) == ["too-few-workers"]


def test_good_passes_count_among_forged_ones_in_any_order(
    service: FakeService, workers: list[Worker]
) -> None:
    scene = Scene(service=service, workers=workers)
    scene.candidate = scene.world.admitted()
    bad = scene.forge(decided={"seed": OTHER})
    good = scene.world.head + 1
    gated_by(scene.world, scene.candidate, workers[1])
    passed = scene.world.head
    scene.passed_alone()
    for reverse in (False, True):

        def show(own: Material, size: int, reverse: bool = reverse) -> Material:
            shown = [beside_of(scene, at, size) for at in (bad, (good, passed), bad)]
            return msgspec.structs.replace(own, beside=shown[::-1] if reverse else shown)

        assert scene.judged(show) == []


def test_a_node_goes_on_with_what_it_serves_when_passes_are_forged(
    host: Host, scene: Scene
) -> None:
    world = scene.world
    assert world.state.root is not None
    host.service.roots[2] = world.state.root.metadata
    node = host.started()
    serving = host.engine.serving
    assert serving == world.serving
    scene.forge(decided={"seed": OTHER})
    scene.passed_alone()
    standing = node.step()
    assert codes(standing) == ["too-few-workers"]
    (reason,) = standing.reasons
    assert "not counted" in reason.message
    assert (standing.release_id, host.engine.serving) == (serving, serving)


# What an adapter stands on


def adapter_served(scene: Scene) -> None:
    """Over a foundation that needs two workers and has the pass of one; itself it needs one."""
    scene.passed_alone()
    scene.world.change_policy(gate_quorum=1)
    serve_adapter(scene.service)


def judged_over(scene: Scene, shown: Callable[[Below, int], list[Beside]]) -> list[str]:
    """The codes against the adapter when *shown* are the passes of its foundation."""

    def show(own: Material, size: int) -> Material:
        assert own.below is not None
        below = msgspec.structs.replace(own.below, beside=shown(own.below, size))
        return msgspec.structs.replace(own, below=below)

    return scene.judged(show)


def test_an_adapter_whose_foundation_too_few_workers_passed_is_refused(scene: Scene) -> None:
    adapter_served(scene)
    with pytest.raises(Refused) as caught:
        judge_with_workers(scene.service)
    (reason,) = caught.value.reasons
    assert reason.code == "too-few-workers"
    assert "2 gate workers of the foundation" in reason.message


def test_an_adapters_foundation_that_two_workers_passed_is_served_beside_what_has_no_effect(
    service: FakeService, workers: list[Worker]
) -> None:
    world = service.world
    candidate = world.admitted()
    void_pass(world, world.opening(candidate, gate_id="unknown"))
    for worker in workers[:2]:
        gate_id = gated_by(world, candidate, worker)
    world.sign(gate_id)
    world.promote(gate_id)
    world.change_policy(gate_quorum=1)
    _, adapter = serve_adapter(service)
    assert served(service) == adapter


def test_a_second_workers_word_counts_for_a_foundation_too(scene: Scene) -> None:
    at = scene.forge()
    adapter_served(scene)
    assert judged_over(scene, lambda _own, size: [beside_of(scene, at, size)]) == []


@pytest.mark.parametrize("what", FORGED)
def test_nor_does_a_forged_pass_stand_for_one_of_the_foundations(scene: Scene, what: str) -> None:
    at = FORGED[what](scene)
    adapter_served(scene)
    shown = judged_over(scene, lambda _own, size: [beside_of(scene, at, size)] * 2)
    assert shown == ["too-few-workers"]


@pytest.mark.parametrize("what", SPOILT)
def test_nor_does_one_of_the_foundations_count_that_is_shown_wrongly(
    scene: Scene, what: str
) -> None:
    at = scene.forge()
    adapter_served(scene)
    shown = judged_over(scene, lambda own, size: SPOILT[what](beside_of(scene, at, size), own))
    assert shown == ["too-few-workers"]
