"""The watch over HTTP, by a real gate worker with engines that reply what the test says."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from reef_release.client import ReefClient
from reef_release.domain.watch import WatchFinding
from reef_release.signing.keys import Role, create_key
from reef_release.signing.watch import sign_finding
from tests.gates import FakeEngines, right, wrong
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import Problem, Site, Story, open_story, until
from trainer.gate.worker import GateWorker, GateWorkerConfig, KeyDoesNotCount

pytestmark = pytest.mark.anyio

RULE: dict[str, Any] = {
    "verifiers": ["answer@1"],
    "bar": "0.8",
    "fallen": "0.2",
    "alpha": "0.1",
    "every_s": 1,
    "max_trials": 50,
    "automatic": True,
}


@pytest.fixture
async def watched(site: Site) -> AsyncIterator[Story]:
    """Two releases were promoted under a policy that watches."""
    with ServerProcess(site) as server:
        story = server.story()
        async with story.http:
            await story.create_scenario(watch=RULE)
            await story.release()
            await story.release()
            yield story


class Worker:
    """A gate worker of the site in *directory*, under the name of that."""

    def __init__(self, story: Story, directory: Path) -> None:
        self.engines = FakeEngines(default=right)
        self._client = ReefClient(str(story.http.base_url), story.site.token("gate"))
        self._worker = GateWorker(
            GateWorkerConfig(name=directory.name, models=directory),
            self._client,
            story.site.key(Role.GATE),
            load=self.engines,
        )

    async def once(self) -> None:
        """What is due now: one trial at most."""
        await to_thread.run_sync(lambda: self._worker.run(once=True))

    async def until_it_ends(self) -> None:
        """Run as the program does, which ends only by an error; after a minute it is stopped."""
        stop = threading.Event()
        longest = threading.Timer(60, stop.set)
        longest.start()
        try:
            await to_thread.run_sync(lambda: self._worker.run(stop=stop))
        finally:
            longest.cancel()
            await to_thread.run_sync(longest.join)

    def close(self) -> None:
        self._client.close()


@pytest.fixture
async def worker(watched: Story, tmp_path: Path) -> AsyncIterator[Worker]:
    made = Worker(watched, tmp_path / "gate-1")
    yield made
    made.close()


async def trials(story: Story) -> list[dict[str, Any]]:
    return [event["data"] for event in await story.events(type="watch.trial")]


async def until_trials(story: Story, worker: Worker, count: int) -> list[dict[str, Any]]:
    """Let the worker work until so many trials stand in the log."""

    async def look() -> list[dict[str, Any]]:
        await worker.once()
        return await trials(story)

    return await until(look, lambda found: len(found) >= count)


async def test_a_release_that_falls_is_held_and_rolled_back_by_itself(
    watched: Story, worker: Worker
) -> None:
    releases = (await watched.get("audit", watched.path("releases")))["releases"]
    first, second = (each["release_id"] for each in releases)
    found = await until_trials(watched, worker, 1)
    assert found[0]["verdict"]["passed"] is True
    worker.engines.scripts[second] = wrong

    async def look() -> str | None:
        await worker.once()
        return await watched.serving()

    assert await until(look, lambda serving: serving == first) == first
    view = await watched.get("audit", watched.path())
    assert second[:12] in view["held_reason"]
    back = (await watched.events(type="release.rolled_back"))[0]
    assert back["actor"] == "service"
    fallen = (await watched.events(type="watch.fallen"))[0]
    assert fallen["actor"] == "the-gate"
    assert f"position {fallen['position']}" in back["data"]["reason"]
    assert len(await watched.events(type="release.rolled_back")) == 1
    ready = (await watched.ask(None, "GET", "/readyz")).json()
    assert ready["violations"] == 0


async def test_a_worker_whose_finding_is_refused_for_its_key_stops_and_says_what_to_do(
    watched: Story, worker: Worker
) -> None:
    """It would find the same for ever, and a release that fell would be held by nobody."""
    served = await watched.serving()
    assert served is not None
    await until_trials(watched, worker, 1)
    worker.engines.scripts[served] = wrong
    key = watched.site.key(Role.GATE).key_id
    await watched.post("operate", f"/reef/trust/keys/{key}/revoke", {"reason": "a stolen laptop"})
    with pytest.raises(KeyDoesNotCount, match="does not count as a gate key") as stopped:
        await worker.until_it_ends()
    assert key[:16] in str(stopped.value)
    assert "keys rotate" in str(stopped.value)
    # It watched until it had something to sign, and nothing came of what it signed.
    assert [each["verdict"]["passed"] for each in await trials(watched)][-1] is False
    assert await watched.events(type="watch.fallen") == []
    assert await watched.serving() == served
    assert (await watched.get("audit", watched.path()))["held_reason"] is None
    assert (await watched.ask(None, "GET", "/readyz")).json()["violations"] == 0


async def test_trials_are_not_taken_faster_than_the_policy_says(watched: Story) -> None:
    """A stolen gate token cannot flood the log with them either."""
    claim = await watched.post("gate", watched.path("watch", "claim"), {"worker": "thief"})
    body = {
        "channel": "stable",
        "pointer_position": claim["pointer_position"],
        "number": 0,
        "attempt": 0,
        "error": "crashed",
    }
    await watched.post("gate", watched.path("watch", "trials"), body)
    with pytest.raises(Problem) as caught:
        await watched.post("gate", watched.path("watch", "trials"), {**body, "attempt": 1})
    assert caught.value.status == 409


async def test_a_trial_posted_again_is_answered_as_at_first_and_another_is_a_conflict(
    watched: Story,
) -> None:
    claim = await watched.post("gate", watched.path("watch", "claim"), {"worker": "gate-1"})
    reply = {
        "prompt_token_ids": [1],
        "token_ids": [2],
        "logprobs": [-0.5],
        "reply": "I do not know.",
        "finish_reason": "stop",
    }
    body = {
        "channel": "stable",
        "pointer_position": claim["pointer_position"],
        "number": 0,
        "attempt": 0,
        "reply": reply,
    }
    first = await watched.post("gate", watched.path("watch", "trials"), body)
    assert await watched.post("gate", watched.path("watch", "trials"), body) == first
    assert len(await trials(watched)) == 1
    other = {**body, "reply": {**reply, "logprobs": [-0.25]}}
    without = {**body, "reply": None, "error": "crashed"}
    for changed in (other, without):
        with pytest.raises(Problem) as caught:
            await watched.post("gate", watched.path("watch", "trials"), changed)
        assert caught.value.status == 409


async def test_a_stolen_gate_token_alone_brings_nothing_down(watched: Story) -> None:
    """Attack: wrong replies that the release never gave. The honest worker signs no such fall."""
    served = await watched.serving()
    own: list[dict[str, Any]] = []
    asked = {"worker": "thief", "own": own}

    async def forge() -> int:
        response = await watched.ask("gate", "POST", watched.path("watch", "claim"), json=asked)
        if response.status_code == 200 and response.json()["number"] is not None:
            claim = response.json()
            reply = {
                "prompt_token_ids": [1],
                "token_ids": [2],
                "logprobs": [-0.5],
                "reply": "I do not know.",
                "finish_reason": "stop",
            }
            body = {
                "channel": "stable",
                "pointer_position": claim["pointer_position"],
                "number": claim["number"],
                "attempt": 0,
                "reply": reply,
            }
            view = await watched.post("gate", watched.path("watch", "trials"), body)
            assert view["passed"] is False
            digest = view["progress"]["digest"]
            position = claim["pointer_position"]
            own[:] = [{"pointer_position": position, "digest": digest, "posting": False}]
        elif response.status_code == 200:
            return 1
        return 0

    assert await until(forge, lambda fallen: fallen == 1)
    claim = await watched.post("gate", watched.path("watch", "claim"), asked)
    # Without the gate key the finding cannot be signed.
    progress = claim["progress"]
    finding = WatchFinding(
        scenario=watched.scenario,
        channel="stable",
        pointer_position=claim["pointer_position"],
        release_id=claim["release"]["release_id"],
        policy_digest=claim["policy_digest"],
        seed=claim["seed"],
        trials=progress["evidence"]["trials"],
        passed=0,
        evidence="0",
        digest=progress["digest"],
    )
    body = {
        "channel": "stable",
        "pointer_position": claim["pointer_position"],
        "attestation": sign_finding(finding, create_key(Role.GATE)),
    }
    with pytest.raises(Problem) as caught:
        await watched.post("gate", watched.path("watch", "finding"), body)
    assert caught.value.status == 422
    # And the worker that has the key does not sign what it did not try.
    honest = Worker(watched, watched.site.home / "thief")
    await honest.once()
    honest.close()
    assert await watched.serving() == served
    assert await watched.events(type="watch.fallen") == []
    assert (await watched.get("audit", watched.path()))["held_reason"] is None


async def test_a_watch_goes_on_while_two_workers_look_after_it(site: Site, tmp_path: Path) -> None:
    """Between two trials the lease lapses, and the other one must not get in between."""
    with ServerProcess(site, lease_s="1") as server:
        story = server.story()
        async with story.http:
            await story.create_scenario(watch={**RULE, "every_s": 2})
            await story.release()
            await story.release()
            workers = [Worker(story, tmp_path / name) for name in ("gate-1", "gate-2")]
            for worker in workers:
                worker.engines.default = wrong

            async def look() -> list[dict[str, Any]]:
                # The second one asks far more often than the lease lasts.
                for worker in (workers[0], *[workers[1]] * 5):
                    await worker.once()
                return await story.events(type="watch.fallen")

            await until(look, bool)
            for worker in workers:
                worker.close()
            found = await trials(story)
            assert [each["anew"] for each in found] == [False] * len(found)


async def test_a_lost_worker_does_not_stop_the_watch(site: Site, tmp_path: Path) -> None:
    with ServerProcess(site, lease_s="3") as server:
        story = server.story()
        async with story.http:
            await story.create_scenario(watch=RULE)
            await story.release()
            await story.release()
            lost, other = (Worker(story, tmp_path / name) for name in ("gate-1", "gate-2"))
            lost.engines.default = other.engines.default = wrong
            await until_trials(story, lost, 1)
            lost.close()
            claimed = await story.ask(
                "gate", "POST", story.path("watch", "claim"), json={"worker": "gate-2"}
            )
            assert claimed.status_code == 204, "it is not lost yet"
            early = {
                "channel": "stable",
                "pointer_position": (await trials(story))[0]["pointer_position"],
                "number": 1,
                "attempt": 0,
                "error": "crashed",
                "anew": True,
            }
            with pytest.raises(Problem) as caught:
                await story.post("gate", story.path("watch", "trials"), early)
            assert caught.value.status == 409

            async def look() -> list[dict[str, Any]]:
                await other.once()
                return await story.events(type="watch.fallen")

            await until(look, bool)
            other.close()
            found = await trials(story)
            assert [each["anew"] for each in found][:3] == [False, True, False]
            assert [each["number"] for each in found] == list(range(len(found)))


async def test_watch_bodies_are_the_auditors_alone(watched: Story, worker: Worker) -> None:
    found = await until_trials(watched, worker, 1)
    for role in ("gate", "train", "serve", "operate", "audit"):
        response = await watched.ask(role, "GET", f"/reef/blobs/{found[0]['body']}")
        assert (response.status_code == 200) is (role == "audit"), role


async def test_without_a_watch_in_the_policy_there_is_nothing_to_claim(site: Site) -> None:
    async with open_story(site) as story:
        await story.create_scenario()
        await story.release()
        response = await story.ask(
            "gate", "POST", story.path("watch", "claim"), json={"worker": "gate-1"}
        )
        assert response.status_code == 204
