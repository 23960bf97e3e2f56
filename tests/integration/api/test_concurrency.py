"""Several services, gate workers and trainers at once: real server processes on one database."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from reef_release.client import ReefClient
from reef_release.signing.keys import Role
from tests.gates import FakeEngines, right
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import Problem, Site, Story, known_gate, until
from trainer.gate.worker import GateWorker, GateWorkerConfig

pytestmark = pytest.mark.anyio


async def count(story: Story, type_name: str) -> int:
    return len(await story.events(type=type_name))


async def sound(*stories: Story) -> None:
    """No service has seen a violation."""
    for story in stories:
        ready = (await story.ask(None, "GET", "/readyz")).json()
        assert ready["violations"] == 0


async def test_a_gate_is_given_to_one_worker_whichever_service_is_asked(
    pair: tuple[Story, Story],
) -> None:
    one, two = pair
    await one.submit()
    first = await one.claim_soon("gate-1")
    assert await two.claim("gate-2") is None
    gate = await two.run_trials(first, "+")
    assert await two.claim("gate-2") is None
    again = await two.claim("gate-1")
    assert again is not None
    assert len(again.trials) == len(gate.trials)
    renewed = await one.ask("gate", "POST", f"/reef/leases/{again.lease_id}/renew")
    assert renewed.status_code == 201, renewed.text
    lost = await one.ask("gate", "POST", f"/reef/leases/{first.lease_id}/renew")
    assert lost.status_code == 404


async def test_of_claims_at_both_services_at_once_one_wins(pair: tuple[Story, Story]) -> None:
    one, two = pair
    await one.submit()
    await until(lambda: count(one, "checkpoint.published"))
    given: list[str] = []

    async def claim(story: Story, worker: str) -> None:
        found = await story.claim(worker)
        if found is not None:
            given.append(worker)

    async def race() -> list[str]:
        async with anyio.create_task_group() as group:
            for number in range(6):
                group.start_soon(claim, (one, two)[number % 2], f"gate-{number}")
        return given

    await until(race)
    assert len(given) == 1
    assert await count(one, "gate.opened") == 2


async def test_a_claim_ends_with_its_time_at_every_service(site: Site) -> None:
    with (
        ServerProcess(site, lease_s="2") as first,
        ServerProcess(site, lease_s="2") as second,
    ):
        one, two = first.story(), second.story()
        async with one.http, two.http:
            await one.create_scenario()
            await one.submit()
            held = await one.claim_soon("gate-1")
            taken = await until(lambda: two.claim("gate-2"))
            assert taken is not None
            assert taken.opened == held.opened
            assert await one.claim("gate-1") is None
            # The late worker's trial: first come, first served, and it counts once.
            assert held.due is not None
            await two.run_trials(taken, "+")
            with pytest.raises(Problem) as late:
                await one.post_trial(held, held.due, "-")
            assert late.value.status == 409
            await sound(one, two)


async def test_gate_workers_at_two_services_end_every_gate_once(
    pair: tuple[Story, Story], tmp_path: Path
) -> None:
    one, two = pair
    stop = threading.Event()
    clients = [ReefClient(str(story.http.base_url), story.site.token("gate")) for story in pair]
    workers = [
        GateWorker(
            GateWorkerConfig(name=f"gate-{number}", models=tmp_path / str(number), poll_s=0.05),
            client,
            one.site.key(Role.GATE),
            load=FakeEngines(default=right),
        )
        for number, client in enumerate([*clients, *clients])
    ]

    async def submit(story: Story) -> None:
        manifest = await story.manifest()
        await story.post("train", story.path("candidates"), manifest, params={"wait": 30})

    try:
        async with anyio.create_task_group() as group:
            for worker in workers:
                group.start_soon(to_thread.run_sync, lambda worker=worker: worker.run(stop=stop))
            async with anyio.create_task_group() as submitting:
                for story in (one, two, one):
                    submitting.start_soon(submit, story)
            # The incumbent is right as well, so nothing but a copy's worth is decided; what
            # matters is that each gate ends, by one worker's trials alone.
            await until(lambda: ended(one), lambda found: sum(found.values()) >= 4)
            stop.set()
    finally:
        stop.set()
        for client in clients:
            client.close()
    found = await ended(one)
    assert found.get("gate.errored", 0) == 0, "two workers were in each other's way"
    assert sum(found.values()) == await count(one, "gate.opened")
    await sound(one, two)


async def ended(story: Story) -> dict[str, int]:
    """How many gates ended, by how."""
    kinds = ("gate.passed", "gate.failed", "gate.inconclusive", "gate.errored", "gate.stale")
    return {kind: found for kind in kinds if (found := await count(story, kind))}


async def test_a_gate_whose_base_moved_is_stale_and_says_so(pair: tuple[Story, Story]) -> None:
    one, two = pair
    origin = await one.serving()
    assert origin is not None
    second = await two.release()
    await until(one.serving, lambda serving: serving == second)
    identity = (await one.submit())["candidate_id"]
    assignment = await one.claim_soon()
    gate = await one.run_trials(assignment, "+")
    await two.lever("rollback", release_id=origin)
    stale = await until(lambda: one.events(type="gate.stale"))
    assert stale[-1]["data"]["gate_id"] == assignment.opened.gate_id
    due = assignment.due
    assert due is not None
    for story in pair:
        with pytest.raises(Problem) as late:
            await story.post_trial(assignment, due, "+")
        assert late.value.status == 409
    assert gate.outcome is None
    with pytest.raises(Problem) as decided:
        await two.decide(known_gate(assignment), outcome="passed")
    assert decided.value.status == 409
    assert (await one.candidate(identity))["status"] == "stale"
    assert await one.serving() == origin != second
    # It gets another gate, against what is served now.
    again = await two.claim_soon()
    assert again.opened.candidate_id == identity
    assert again.opened.base == origin
    await sound(one, two)


async def test_a_rollback_and_a_promotion_that_race_leave_one_truth(
    pair: tuple[Story, Story],
) -> None:
    """Whichever comes first: either the promotion stands before the rollback, or not at all."""
    one, two = pair
    origin = await one.serving()
    assert origin is not None
    second = await two.release()
    await until(one.serving, lambda serving: serving == second)
    identity = (await one.submit())["candidate_id"]
    await one.gate()

    async def back() -> None:
        await two.lever("rollback", release_id=origin)

    async with anyio.create_task_group() as group:
        group.start_soon(back)
        group.start_soon(one.sign, identity)
    pointers = [
        (event["position"], event["type"], event["data"]["release_id"])
        for kind in ("release.promoted", "release.rolled_back")
        for event in await one.events(type=kind)
    ]
    last = max(pointers)
    promoted = [position for position, kind, who in pointers if who == identity]
    assert last[1:] == ("release.rolled_back", origin)
    assert len(promoted) <= 1
    for story in pair:
        assert await until(story.serving, lambda serving: serving == origin)
    await sound(one, two)


async def test_promotions_of_rivals_on_one_base_have_one_winner(
    pair: tuple[Story, Story],
) -> None:
    """Attack 40: of two passed gates on one base, the second is stale by the first's promotion."""
    one, two = pair
    first = (await one.submit())["candidate_id"]
    second = (await two.submit())["candidate_id"]
    await one.gate()
    await two.gate()
    answers: dict[str, Any] = {}

    async def sign(story: Story, identity: str) -> None:
        answers[identity] = await story.sign(identity)

    async with anyio.create_task_group() as group:
        group.start_soon(sign, one, first)
        group.start_soon(sign, two, second)
    winner = await until(one.serving, lambda serving: serving in (first, second))
    await until(two.serving, lambda serving: serving == winner)
    assert await count(one, "release.promoted") == 2
    for story in pair:
        other = await story.candidate(first if winner == second else second)
        assert other["status"] == "passed"
    await sound(one, two)


async def test_trainers_at_both_services_submit_at_once(pair: tuple[Story, Story]) -> None:
    one, two = pair
    same = await one.manifest()
    others = [await one.manifest() for _ in range(4)]
    found: list[str] = []

    async def submit(story: Story, manifest: Any) -> None:
        view = await story.post("train", story.path("candidates"), manifest, params={"wait": 30})
        found.append(view["candidate_id"])

    async with anyio.create_task_group() as group:
        for number, manifest in enumerate([same, same, same, *others]):
            group.start_soon(submit, (one, two)[number % 2], manifest)
    assert len(found) == 7
    assert len(set(found)) == 5
    assert await count(one, "candidate.submitted") == 6
    assert await count(one, "candidate.admitted") == 6
    await sound(one, two)
