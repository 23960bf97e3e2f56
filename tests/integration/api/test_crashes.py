"""kill -9 between any two steps of a promotion: the state is the log, and one promotion results."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from reef_release import wire
from reef_release.api.service import open_service
from reef_release.domain.canonical import canonical_json, parse_json
from reef_release.domain.events import ReleasePromoted
from reef_release.domain.fold import Fold
from reef_release.domain.gate import Gate
from reef_release.errors import SettingsError
from reef_release.log import Appended, EventLog, NewEvent
from reef_release.projections.replay import ReplayChecks
from reef_release.signing.current import verify_current
from reef_release.signing.keys import Role
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import Site, Story, open_story, until
from tests.world import facts

pytestmark = pytest.mark.anyio


class Crash(Exception):
    """The process is gone."""


class Promotion:
    """A candidate's way in steps, each of which may be repeated after a crash."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.identity = ""
        self.manifest: dict[str, Any] = {}
        self.assignment: wire.GateAssignment | None = None
        self.gate: Gate | None = None

    def steps(self) -> Iterator[Callable[[], Awaitable[None]]]:
        yield self.upload
        yield self.submit
        yield self.claim
        yield self.one_trial
        yield self.other_trials
        yield self.decide
        yield self.sign
        yield self.serve

    async def upload(self) -> None:
        self.manifest = await self.story.manifest()

    async def submit(self) -> None:
        path = self.story.path("candidates")
        role = "train" if self.manifest["base"] else "operate"
        view = await self.story.post(role, path, self.manifest, params={"wait": 0})
        self.identity = view["candidate_id"]

    async def claim(self) -> None:
        self.assignment = await self.story.claim_soon()

    async def one_trial(self) -> None:
        await self.story.run_trials(await self.story.claim_soon(), "+")

    async def other_trials(self) -> None:
        self.gate = await self.story.run_trials(await self.story.claim_soon(), "+")

    async def decide(self) -> None:
        assert self.gate is not None
        await self.story.decide(self.gate)

    async def sign(self) -> None:
        await self.story.sign(self.identity)

    async def serve(self) -> None:
        await self.story.promoted(self.identity)


async def check_end(story: Story, *promoted: str) -> None:
    """The pointer went exactly through *promoted*, everywhere where it shows."""
    events = await story.events(type="release.promoted")
    assert [event["data"]["release_id"] for event in events] == list(promoted)
    assert await story.serving() == promoted[-1]

    def over_last(response: httpx.Response) -> bool:
        if response.status_code != 200:
            return False
        keys = [story.site.key(Role.POINTER).public]
        return verify_current(response.json(), keys).document.release_id == promoted[-1]

    await until(story.current, over_last)
    ready = (await story.ask(None, "GET", "/readyz")).json()
    assert (ready["status"], ready["violations"]) == ("ok", 0)


async def test_a_server_killed_after_every_step_of_a_promotion_ends_at_the_candidate(
    server: ServerProcess,
) -> None:
    story = server.story()
    async with story.http:
        await story.create_scenario()
        origin = await story.release()
        promotion = Promotion(story)
        for step in promotion.steps():
            await step()
            server.kill()
            server.restart()
        await check_end(story, origin, promotion.identity)


@asynccontextmanager
async def doomed(site: Site, type_name: str, *, before: bool) -> AsyncIterator[Story]:
    """A service that dies as it appends the next *type_name*: before the event is stored, or
    after, so that it never learns that it was."""
    real = EventLog.append
    dead = False

    async def append(log: EventLog, event: NewEvent) -> Appended:
        nonlocal dead
        if dead or (before and event.type == type_name):
            dead = True
            raise Crash
        appended = await real(log, event)
        if event.type == type_name:
            dead = True
            raise Crash
        return appended

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EventLog, "append", append)
        async with open_story(site) as story:
            yield story


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize(
    "type_name",
    [
        "candidate.submitted",
        "candidate.admitted",
        "checkpoint.published",
        "gate.opened",
        "gate.trial",
        "gate.passed",
        "release.signed",
        "release.promoted",
    ],
)
async def test_a_crash_around_any_append_is_repaired_by_the_next_service(
    site: Site, type_name: str, before: bool
) -> None:
    async with open_story(site) as story:
        await story.create_scenario()
        origin = await story.release()
        manifest = await story.manifest()
    async with doomed(site, type_name, before=before) as dying:
        promotion = Promotion(dying)
        promotion.manifest = manifest
        for step in list(promotion.steps())[1:]:
            try:
                await step_or_stop(step, dying, type_name)
            except Exception:
                break
    async with open_story(site) as story:
        path = story.path("candidates")
        view = await story.post("train", path, manifest)
        identity = view["candidate_id"]
        if view["status"] == "admitted":
            assignment = await story.claim()
            if assignment is None:
                assignment = await story.claim_soon()
            gate = await story.run_trials(assignment, "++")
            await story.decide(gate)
        released = await story.ask("audit", "GET", story.path("releases", identity))
        if released.status_code == 404:
            await story.sign(identity)
        await story.promoted(identity)
        await check_end(story, origin, identity)


async def step_or_stop(step: Callable[[], Awaitable[None]], story: Story, type_name: str) -> None:
    """One step, unless it waits for something that the dead service will never do."""
    waits_for = {
        "claim": ("candidate.admitted", "checkpoint.published"),
        "serve": ("release.promoted",),
    }
    if type_name in waits_for.get(step.__name__, ()):
        raise Crash
    await step()


async def test_a_crash_between_the_promotion_and_its_document_loses_nothing(site: Site) -> None:
    """Attack 42: the pointer is a replay, so the next service publishes what is missing."""
    async with open_story(site) as story:
        await story.create_scenario()
        origin = await story.release()
        identity = (await story.submit())["candidate_id"]
        await story.gate()
    async with doomed(site, "release.promoted", before=False) as dying:
        await dying.sign(identity)
        await until(lambda: dying.events(type="release.promoted"), lambda found: len(found) == 2)
        assert (await dying.current()).json()
    async with open_story(site) as story:
        await check_end(story, origin, identity)


async def test_a_state_rebuilt_from_the_log_equals_the_live_one(site: Site) -> None:
    async with open_story(site) as story:
        await story.create_scenario()
        first = await story.release()
        await story.release()
        await story.lever("rollback", release_id=first)
        await story.submit()
        await story.run_trials(await story.claim_soon(), "-+", "+")
        assert story.service is not None
        live = story.service.state
        fold = Fold(ReplayChecks(site.anchor, story.service.blobs))
        for stored in await story.service.log.read(limit=10_000):
            assert canonical_json(parse_json(stored.body)) == stored.body
            fold.apply(stored.body)
            if fold.state.position == live.position:
                break
        assert facts(fold.state) == facts(live)
        assert fold.state.tree.root() == live.tree.root()
        assert fold.state.versions == live.versions


async def test_nothing_but_the_log_the_blobs_and_the_keys_is_needed(site: Site) -> None:
    async with open_story(site) as story:
        await story.create_scenario()
        release = await story.release()
        await story.submit()
        await story.run_trials(await story.claim_soon(), "+")
        before = await story.get("audit", story.path())
        document = (await until(story.current, lambda seen: seen.status_code == 200)).content
    for path in site.home.iterdir():
        if path.name not in ("keys", "blobs"):
            for each in path.rglob("*") if path.is_dir() else [path]:
                if each.is_file():
                    each.unlink()
    for name in ("incoming", "partial"):
        for path in (site.home / "blobs" / name).iterdir():
            path.unlink()
    async with open_story(site) as story:
        after = await story.get("audit", story.path())
        assert {**after, "position": 0} == {**before, "position": 0}
        assert await story.serving() == release
        assert (await story.current()).content == document


async def test_a_service_with_another_trust_root_does_not_touch_the_log(
    site: Site, tmp_path: Any
) -> None:
    async with open_story(site) as story:
        await story.create_scenario()
        await story.release()
        head = story.service.state.position if story.service else 0
    other = Site(home=tmp_path / "other", database=site.database)
    with pytest.raises(SettingsError, match="does not begin with the trust root"):
        async with open_service(other.settings()):
            raise AssertionError("it must not start")
    async with open_story(site) as story:
        found = await story.events(scenario="_", type="root.rotated")
        assert len(found) == 1
        assert story.service is not None
        assert story.service.state.violations == []
        assert story.service.state.position >= head


async def test_a_promotion_that_was_only_signed_is_done_at_the_next_start(site: Site) -> None:
    async with doomed(site, ReleasePromoted.TYPE, before=True) as dying:
        await dying.create_scenario()
        identity = (await dying.submit())["candidate_id"]
        await dying.gate()
        await dying.sign(identity)
        assert await dying.serving() is None
    async with open_story(site) as story:
        await story.promoted(identity)
        await check_end(story, identity)
