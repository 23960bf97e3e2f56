"""The watcher: what it takes for its own trials, and what it signs."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from reef_release import wire
from reef_release.api.views import model_view
from reef_release.client import ReefClient
from reef_release.domain import events as ev
from reef_release.domain.watch import WatchProgress
from reef_release.errors import Conflict, Refused, Unavailable
from reef_release.signing.keys import Role
from reef_release.signing.watch import verify_finding
from tests.gates import FakeEngines, FakeGateEngine, right, wrong
from tests.unit.domain.test_watch import RULE, trial, watch
from tests.world import CHANNEL, World
from trainer.gate.models import ModelCache
from trainer.gate.watch_record import WatchRecord
from trainer.gate.watching import Watcher


@dataclass(kw_only=True)
class Watching:
    """The watch's routes over *world*, and the events, as `ReefClient` gives them.

    Every worker is given what is due; one that did not run all trials so far begins `anew`.

    `before_post` runs ahead of each post that the worker makes; `lose` loses so many answers.
    """

    world: World
    before_post: Callable[[], None] = lambda: None
    lose: int = 0
    lost: bool = False
    posted: list[wire.WatchTrialRequest] = field(default_factory=list)
    findings: list[dict[str, Any]] = field(default_factory=list)

    def claim(
        self, scenario: str, _worker: str, own: list[wire.OwnWatch]
    ) -> wire.WatchAssignment | None:
        found = watch(self.world)
        if found.due is None and found.fallen_position is not None:
            return None
        anew = self.lost and not any(
            found.is_run_by(each.digest, posting=each.posting) for each in own
        )
        due = found.due_anew if anew else found.due
        number, attempt = due or (0, 0)
        task = found.task(number, self.world.fold.suite(found.suite).tasks)
        return wire.WatchAssignment(
            scenario=scenario,
            lease_id="lease",
            lease_s=60.0,
            channel=CHANNEL,
            pointer_position=found.pointer_position,
            release=model_view(self.world.scenario, found.release_id),
            rule=found.rule,
            generation=found.generation,
            policy_digest=found.policy_digest,
            seed=found.seed,
            progress=WatchProgress.anew(number) if anew else found.progress,
            anew=anew,
            number=None if due is None else number,
            attempt=attempt,
            task_id=task.id,
            question=task.question,
        )

    def post_trial(self, _scenario: str, asked: wire.WatchTrialRequest) -> wire.WatchTrialView:
        self.before_post()
        found = watch(self.world)
        standing = found.newest
        same = standing is not None and self._is_same(standing, asked)
        if not same:
            due = found.due_anew if asked.anew else found.due
            if due != (asked.number, asked.attempt):
                raise Conflict("another trial is due", next_step="Claim again.")
            self._append(asked)
            found = watch(self.world)
            self.posted.append(asked)
        if self.lose:
            self.lose -= 1
            raise Unavailable("the answer was lost")
        standing = found.newest
        assert standing is not None
        return wire.WatchTrialView(
            position=found.newest_position,
            passed=None if standing.verdict is None else standing.verdict.passed,
            body=standing.body,
            progress=found.progress,
        )

    def post_finding(
        self, _scenario: str, _channel: str, _position: int, attestation: dict[str, Any]
    ) -> None:
        found = watch(self.world)
        self.findings.append(attestation)
        self.world.append(
            ev.WatchFallen(
                pointer_position=found.pointer_position,
                channel=CHANNEL,
                release_id=found.release_id,
                attestation=attestation,
            )
        )

    def events(self, *, after: int, limit: int, scenario: str, **chosen_by: str) -> wire.EventsView:
        decoded = [ev.decode(body) for body in self.world.bodies]
        chosen = [
            msgspec.Raw(body)
            for body, event in zip(self.world.bodies, decoded, strict=True)
            if event.envelope.position > after
            and chosen_by == {"type": event.data.TYPE}
            and event.envelope.scenario == scenario
        ][:limit]
        head = len(self.world.bodies)
        return wire.EventsView(events=chosen, next_after=head, head=head)

    def _append(self, asked: wire.WatchTrialRequest) -> None:
        if asked.reply is None:
            data = trial(self.world, "e", error=asked.error, anew=asked.anew)
        else:
            found = watch(self.world)
            task = found.task(asked.number, self.world.fold.suite(found.suite).tasks)
            passed = f"answer is {task.answer}." in asked.reply.reply
            changes = {"body_changes": _content(asked.reply), "anew": asked.anew}
            data = trial(self.world, "+" if passed else "-", **changes)
        self.world.append(data, actor="gate-worker")

    def _is_same(self, standing: ev.WatchTrial, asked: wire.WatchTrialRequest) -> bool:
        places = [(each.number, each.attempt, each.anew) for each in (standing, asked)]
        if places[0] != places[1]:
            return False
        if asked.reply is None or standing.body is None:
            return asked.reply is None and standing.body is None and standing.error == asked.error
        body = msgspec.json.decode(self.world.blobs.read_body_sync(standing.body, 2**20))
        return all(body[name] == value for name, value in _content(asked.reply).items())


def _content(reply: wire.TrialReply) -> dict[str, Any]:
    content: dict[str, Any] = msgspec.to_builtins(reply)
    return content


@dataclass(kw_only=True)
class Post:
    """A world whose second release is watched, the routes, and one machine's engines."""

    world: World
    watching: Watching
    directory: Path
    engines: FakeEngines = field(default_factory=lambda: FakeEngines(default=right))

    def step(self) -> bool:
        """One step of the worker as a process that has just started."""
        client = types.SimpleNamespace(watching=self.watching, events=self.watching.events)
        models = types.SimpleNamespace(
            keep_only=lambda *_models: None,
            engine=lambda model: FakeGateEngine(self.engines, model.release_id),
        )
        watcher = Watcher(
            cast("ReefClient", client),
            self.world.keys[Role.GATE],
            cast("ModelCache", models),
            name="gate-1",
            directory=self.directory,
            trial_timeout_s=5.0,
        )
        return watcher.step(self.world.scenario_name)

    def steps(self) -> None:
        """Until there is nothing left to do."""
        while self.step():
            pass

    def thief(self, mark: str = "-") -> None:
        """A trial by whoever stole the token."""
        self.world.append(trial(self.world, mark), actor="thief")


@pytest.fixture
def post(tmp_path: Path) -> Post:
    world = World(tmp_path / "world")
    world.create_scenario(watch=RULE)
    world.release()
    world.release()
    world.checkpoint()
    directory = tmp_path / "models"
    directory.mkdir()
    return Post(world=world, watching=Watching(world=world), directory=directory)


def test_a_fall_is_signed_over_ones_own_trials(post: Post) -> None:
    post.engines.default = wrong
    post.steps()
    finding = verify_finding(post.watching.findings[0], [post.world.keys[Role.GATE].public])
    assert (finding.trials, finding.passed) == (len(post.watching.posted), 0)
    assert watch(post.world).fallen_position == post.world.head


def test_a_thief_ahead_of_every_trial_gets_nothing_signed(post: Post) -> None:
    """Attack: a stolen token posts a wrong reply while the worker still generates its right one."""
    post.watching.before_post = post.thief
    outcomes = []
    while watch(post.world).due is not None:
        try:
            post.step()
        except (Conflict, Refused) as error:
            outcomes.append(type(error))
            if len(outcomes) > 2:
                post.watching.before_post = lambda: None
                post.thief()
    assert watch(post.world).progress.state_of(watch(post.world).rule) == "fallen"
    with pytest.raises(Refused, match="others have run trials"):
        post.step()
    assert outcomes[:2] == [Conflict, Refused]
    assert post.watching.findings == []
    assert post.watching.posted == []


@pytest.mark.parametrize("own", ["before", "after"])
def test_one_trial_of_a_thief_among_ones_own_spoils_the_watch(post: Post, own: str) -> None:
    post.engines.default = wrong
    if own == "before":
        post.step()
    post.thief()
    while watch(post.world).due is not None:
        with pytest.raises(Refused, match="others have run trials"):
            post.step()
        post.thief()
    with pytest.raises(Refused, match="others have run trials"):
        post.step()
    assert post.watching.findings == []


def test_a_lost_answer_is_asked_for_again(post: Post) -> None:
    post.engines.default = wrong
    post.watching.lose = 1
    with pytest.raises(Unavailable):
        post.step()
    post.steps()
    assert len(post.watching.posted) == needed_at_first(post)
    assert len(post.watching.findings) == 1


def test_a_lost_answer_to_an_errored_trial_is_asked_for_again(post: Post) -> None:
    def crash(_question: str) -> str:
        raise RuntimeError("out of memory")

    post.engines.default = crash
    post.watching.lose = 1
    with pytest.raises(Unavailable):
        post.step()
    post.engines.default = wrong
    post.steps()
    assert [asked.error for asked in post.watching.posted][:2] == ["crashed", None]
    assert len(post.watching.findings) == 1


def test_a_post_that_never_arrived_is_no_trial(post: Post) -> None:
    def away() -> None:
        post.watching.before_post = lambda: None
        raise Unavailable("nobody listens")

    post.watching.before_post = away
    with pytest.raises(Unavailable):
        post.step()
    post.thief()
    with pytest.raises(Refused, match="others have run trials"):
        post.step()


def test_without_its_record_a_worker_signs_nothing(post: Post) -> None:
    post.engines.default = wrong
    while watch(post.world).due is not None:
        post.step()
    (post.directory / "watch.json").unlink()
    with pytest.raises(Refused, match="record is lost"):
        post.step()
    assert post.watching.findings == []


@pytest.mark.parametrize("lose", [0, 1])
def test_where_the_worker_is_lost_another_signs_over_its_own_trials(post: Post, lose: int) -> None:
    for mark in "--+":
        post.thief(mark)
    post.engines.default = wrong
    post.watching.lost = True
    post.watching.lose = lose
    if lose:
        with pytest.raises(Unavailable):
            post.step()
    post.steps()
    finding = verify_finding(post.watching.findings[0], [post.world.keys[Role.GATE].public])
    assert [asked.anew for asked in post.watching.posted].count(True) == 1
    assert post.watching.posted[0].anew
    assert (finding.trials, finding.passed) == (len(post.watching.posted), 0)


def test_a_service_that_makes_a_run_anew_of_others_trials_is_refused(post: Post) -> None:
    post.thief()
    claim = post.watching.claim
    post.watching.claim = lambda *asked: msgspec.structs.replace(claim(*asked), anew=True)  # type: ignore[method-assign, type-var]
    with pytest.raises(Refused, match="no trials yet"):
        post.step()
    assert post.watching.posted == []


def test_what_was_refused_is_claimed_as_posted_no_more(post: Post) -> None:
    post.watching.before_post = post.thief
    with pytest.raises(Conflict):
        post.step()
    (own,) = WatchRecord(post.directory).all_of(post.world.scenario_name)
    assert not own.posting
    assert WatchRecord(post.directory).all_of("another") == []


def test_a_seed_that_does_not_follow_from_the_checkpoint_is_refused(post: Post) -> None:
    claim = post.watching.claim
    post.watching.claim = lambda *asked: msgspec.structs.replace(claim(*asked), seed="00" * 32)  # type: ignore[method-assign, type-var]
    with pytest.raises(Refused, match="seed"):
        post.step()
    assert post.watching.posted == []


def needed_at_first(post: Post) -> int:
    """How many failures in a row call the release fallen."""
    rule, count = watch(post.world).rule, 0
    evidence = WatchProgress().evidence
    while not evidence.is_enough(rule):
        evidence, count = evidence.after(rule, False), count + 1
    return count
