"""Training over HTTP: a batch from its claim to a release, and whatever can come between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from reef_release.domain.traffic.batch_records import MAX_IDLE_CLAIMS
from reef_release.ids import uuid7
from reef_release.tokens import Principal, TokenRole
from tests.integration.api.story import Problem, Site, Story, model_files, open_story, until
from tests.integration.api.test_crashes import doomed
from tests.integration.api.traffic import claim_batch, judged_turn, signal
from tests.integration.api.trainer import TrainerJob

pytestmark = pytest.mark.anyio


@pytest.fixture
async def story(site: Site) -> AsyncIterator[Story]:
    """A service that serves an origin and forms a batch of every judged turn."""
    async with open_story(site, batch_size=1) as story:
        await story.create_scenario()
        await story.release()
        yield story


@pytest.fixture
async def job(story: Story) -> TrainerJob:
    return await job_of(story)


async def job_of(story: Story) -> TrainerJob:
    return TrainerJob(story=story, base=await story.serving() or "")


async def refusal(asked: Any) -> Problem:
    with pytest.raises(Problem) as caught:
        await asked
    assert caught.value.body["next_step"]
    return caught.value


async def released(story: Story, count: int) -> list[tuple[str, str]]:
    events = await until(
        lambda: story.events(type="batch.released"), lambda found: len(found) >= count
    )
    return [(event["data"]["batch_id"], event["data"]["reason"]) for event in events]


async def test_a_turn_goes_from_a_judgment_through_training_into_a_release(
    story: Story, job: TrainerJob
) -> None:
    first = await job.claim()
    assert (await job.batch(first))["stage"] == "claimed"
    await job.start(first, settings={"clip": 0.2, "epochs": 2, "lora": False, "note": "x"})
    view = await signal(story)
    assert (view["waiting"]["training"], view["waiting"]["completed"]) == (1, 0)
    await job.step(first, metrics={"loss": 0.25, "steps": 3, "tiny": 1e-9, "minus": -0.0})
    await job.step(first, step=2)
    job.result()
    await job.complete(first, steps=2)
    assert (await job.batch(first))["screening"] is None
    job.parent, job.steps = job.weights_id, 2
    job.batches.append(first["batch_id"])
    await job.train()
    started, *_ = await story.events(type="training.started")
    assert started["data"]["settings"] == {
        "clip": "0.2",
        "epochs": "2",
        "lora": "false",
        "note": "x",
    }
    step, *_ = await story.events(type="training.step")
    assert step["data"]["metrics"] == {
        "loss": "0.25",
        "steps": "3.0",
        "tiny": "1e-09",
        "minus": "-0.0",
    }
    assert await claim_batch(story) is None
    total = (await signal(story))["total"]
    assert (total["batched"], total["completed"], total["trained"]) == (2, 2, 0)
    line = await job.show_line()
    assert (line["batches"], line["steps"], line["over"]) == (job.batches, 3, None)
    assert line["weights_id"] == job.weights_id

    view = await job.submit()
    assert view["candidate_id"] == job.weights_id
    await story.gate()
    await story.sign(job.weights_id)
    await story.promoted(job.weights_id)
    view = await job.batch(first)
    assert (view["stage"], view["used_in"]) == ("used", job.weights_id)
    view = await signal(story)
    assert (view["total"]["completed"], view["total"]["trained"]) == (2, 2)
    assert view["waiting"]["completed"] == 0
    metrics = (await story.ask(None, "GET", "/metrics")).text
    assert 'reef_signal{scenario="homework",what="trained"} 2.0' in metrics
    assert (await job.show_line())["over"] == "base-left"
    assert await story.events(type="batch.released") == []


async def test_the_same_event_again_gets_the_first_result_and_another_in_its_place_never(
    job: TrainerJob,
) -> None:
    batch = await job.claim()
    first = await job.start(batch)
    assert await job.start(batch) == first
    assert await job.start(batch, event_id=uuid7()) == first
    assert (await refusal(job.start(batch, seed=8))).status == 409
    step = await job.step(batch)
    await job.step(batch, step=2)
    assert await job.step(batch) == step
    assert (await refusal(job.step(batch, metrics={"loss": 0.75}))).status == 409
    job.result()
    completed = await job.complete(batch, steps=2)
    assert await job.complete(batch, steps=2) == completed
    assert (await refusal(job.complete(batch, steps=2, weights_id="ab" * 32))).status == 409
    # Also when all is over.
    assert await job.start(batch) == first
    assert await job.step(batch) == step
    assert (await refusal(job.step(batch, step=3))).codes == ["trained"]
    events = await job.story.events()
    kinds = [each["type"] for each in events if each["type"].startswith("training.")]
    assert kinds == ["training.started", "training.step", "training.step", "training.completed"]


async def test_what_is_sent_at_once_is_stored_once(site: Site) -> None:
    async with (
        open_story(site, batch_size=1) as one,
        open_story(site, batch_size=1) as other,
    ):
        await one.create_scenario()
        await one.release()
        job = await job_of(one)
        batch = await job.claim()
        twin = TrainerJob(story=other, base=job.base, line=job.line)
        assert await other.events(type="batch.claimed")
        for post in ("start", "step"):
            answers = await asyncio.gather(
                *(getattr(each, post)(batch) for each in (job, twin) * 3)
            )
            assert all(answer == answers[0] for answer in answers)
        job.result()
        twin.files = job.files
        answers = await asyncio.gather(*(each.complete(batch) for each in (job, twin) * 3))
        assert all(answer == answers[0] for answer in answers)
        assert len(await one.events(type="training.completed")) == 1


async def test_an_event_id_of_the_producer_is_kept_and_stands_for_one_event(
    job: TrainerJob,
) -> None:
    batch = await job.claim()
    identity = uuid7()
    assert (await job.start(batch, event_id=identity))["event_id"] == identity
    problem = await refusal(job.step(batch, event_id=identity))
    assert (problem.status, problem.body["position"]) == (409, problem.body["position"])
    assert (await job.step(batch, event_id=uuid7()))["event_id"] != identity
    assert (await refusal(job.step(batch, step=2, event_id="mine"))).status == 400


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"metrics": {"loss": None}}, "not finite"),
        ({"metrics": {"loss": 1e308}}, "not finite"),
        ({"metrics": {"loss": "0.5"}}, "malformed"),
        ({"metrics": {"loss": True}}, "malformed"),
        ({"metrics": {}, "extra": 1}, "malformed"),
        ({"step": "1"}, "malformed"),
        ({"batch_id": "another"}, "names the batch"),
        ({"lease_id": "none"}, "UUIDv7"),
    ],
    ids=str,
)
async def test_a_figure_that_is_not_finite_is_refused_with_what_to_do(
    job: TrainerJob, changes: dict[str, Any], words: str
) -> None:
    batch = await job.claim()
    await job.start(batch)
    problem = await refusal(job.step(batch, **changes))
    assert problem.status == 400
    assert words in problem.body["detail"]
    if words == "not finite":
        assert "training.failed" in problem.body["next_step"]
    await job.step(batch)


@pytest.mark.parametrize("figure", [b"NaN", b"Infinity", b"1e999"])
async def test_json_without_a_number_is_refused(job: TrainerJob, figure: bytes) -> None:
    batch = await job.claim()
    await job.start(batch)
    body = (
        b'{"lease_id":"%s","type":"training.step","data":{"batch_id":"%s","line":"%s",'
        b'"step":1,"epoch":1,"metrics":{"loss":%s}}}'
        % (batch["lease_id"].encode(), batch["batch_id"].encode(), job.line.encode(), figure)
    )
    path = job.story.path("batches", batch["batch_id"], "events")
    assert (await refusal(job.story.post("train", path, body))).status == 400


async def test_a_trainer_posts_only_of_the_batch_that_it_holds(
    story: Story, job: TrainerJob
) -> None:
    batch = await job.claim()
    # Another training token, that has got to know the lease.
    other = Principal(name="another-trainer", role=TokenRole.TRAIN, scenario=None)
    token = story.site.tokens.issue(other)
    headers = {"Authorization": f"Bearer {token}"}
    path = story.path("batches", batch["batch_id"])
    data = {"batch_id": batch["batch_id"], "line": job.line, "parent": job.base, "seed": 1}
    body = {"lease_id": batch["lease_id"], "type": "training.started", "data": data}
    stolen = await story.ask(None, "POST", f"{path}/events", json=body, headers=headers)
    assert stolen.status_code == 403
    give_back = {"lease_id": batch["lease_id"]}
    stolen = await story.ask(None, "POST", f"{path}/release", json=give_back, headers=headers)
    assert stolen.status_code == 403
    seen = (await story.ask(None, "GET", path, headers=headers)).json()
    assert (seen["lease_id"], seen["worker"]) == (None, "trainer-1")
    assert (await job.batch(batch))["lease_id"] == batch["lease_id"]
    assert (await job.batch(batch, "audit"))["lease_id"] is None

    problem = await refusal(job.start(batch, lease_id=uuid7()))
    assert (problem.status, problem.codes) == (409, ["other-lease"])
    problem = await refusal(job.start({**batch, "batch_id": "none"}))
    assert problem.status == 404
    job.result()
    assert (await refusal(job.complete(batch))).codes == ["not-started"]
    await job.start(batch)
    assert (await refusal(job.step(batch, step=2))).codes == ["step-not-due"]


async def test_another_trainer_neither_sees_nor_enters_a_line(
    story: Story, job: TrainerJob
) -> None:
    first = await job.train()
    await job.submit()
    batch = await job.claim()
    problem = await refusal(job.start(batch))
    assert problem.codes == ["candidate-waits"]
    await job.give_back(batch)
    other = Principal(name="another-trainer", role=TokenRole.TRAIN, scenario=None)
    headers = {"Authorization": f"Bearer {story.site.tokens.issue(other)}"}

    async def ask(method: str, path: str, body: Any = None) -> Any:
        return (await story.ask(None, method, path, json=body, headers=headers)).json()

    batches = story.path("batches")
    assert (await ask("GET", batches))["lines"] == []
    assert (await ask("GET", f"{batches}/{first['batch_id']}"))["line"] is None
    assert [each["line"] for each in (await story.get("train", batches))["lines"]] == [job.line]
    assert (await story.get("audit", f"{batches}/{first['batch_id']}"))["line"] == job.line
    held = await until(lambda: ask("POST", f"{batches}/claim", {"worker": "w"}))
    data = {"batch_id": held["batch_id"], "line": job.line, "parent": job.parent, "seed": 1}
    body = {"lease_id": held["lease_id"], "type": "training.started", "data": data}
    answer = await ask("POST", f"{batches}/{held['batch_id']}/events", body)
    assert [reason["code"] for reason in answer["reasons"]] == ["other-trainer"]
    assert (await job.show_line())["over"] is None


async def test_trained_weights_are_not_submitted_as_made_by_hand(job: TrainerJob) -> None:
    await job.train()
    assert (await refusal(job.submit(batches=[]))).codes == ["batches-missing"]
    assert (await refusal(job.submit(parent="ab" * 32))).codes == ["parent"]
    await job.submit(parent=job.weights_id)


async def test_what_was_recorded_greedily_forms_no_batch(story: Story) -> None:
    await judged_turn(story, temperature=0.0)
    (event,) = await until(lambda: story.events(type="sample.refused"))
    assert event["data"]["reason"] == "temperature"


async def test_a_failed_training_lets_others_try_twice_more_until_an_operator_restores_it(
    story: Story, job: TrainerJob
) -> None:
    batch = await job.claim()
    await job.start(batch)
    failed = await job.post(batch, "failed", reason="error", detail="x" * 5000)
    assert await job.post(batch, "failed", reason="error", detail="x" * 5000) == failed
    for failures, reason in ((1, "drift"), (2, "kl")):
        again = await until(lambda: claim_batch(story, "trainer-2"))
        assert again["batch_id"] == batch["batch_id"]
        assert (await job.batch(again))["failures"] == failures
        await job.start(again)
        await job.post(again, "failed", reason=reason, detail="0.3 nats")
    (event,) = await until(lambda: story.events(type="sample.refused"))
    assert event["data"]["reason"] == "quarantined"
    assert (await job.batch(again))["stage"] == "quarantined"
    assert await claim_batch(story) is None
    view = await signal(story)
    assert (view["total"]["batched"], view["total"]["refused"]) == (0, {"quarantined": 1})
    assert "trainers-failed" in [finding["code"] for finding in view["findings"]]
    problem = await refusal(job.post(batch, "failed", reason="boredom"))
    assert problem.status == 400

    path = story.path("batches", batch["batch_id"], "restore")
    assert (await refusal(story.post("operate", path, {"reason": " "}))).status == 400
    assert (await refusal(story.post("train", path, {"reason": "mine"}))).status == 403
    await story.post("operate", path, {"reason": "the trainer was broken"})
    (event,) = await story.events(type="batch.restored")
    assert event["actor"] == "the-operate"
    assert event["data"]["reason"] == "the trainer was broken"
    problem = await refusal(story.post("operate", path, {"reason": "again"}))
    assert (problem.status, problem.codes) == (409, ["nothing-refused"])
    fresh = await until(lambda: claim_batch(story))
    assert fresh["samples"] == batch["samples"]
    assert (await signal(story))["total"]["refused"] == {}


async def test_a_line_that_a_watch_stops_is_over_and_its_turns_are_trained_in_another(
    story: Story, job: TrainerJob
) -> None:
    first = await job.train()
    second = await job.claim()
    await job.start(second)
    await job.post(second, "failed", reason="kl", detail="0.3 nats")
    assert await released(story, 1) == [(first["batch_id"], "abandoned")]
    assert (await job.show_line())["over"] == "given-up"
    assert (await job.batch(second))["failures"] == 0
    other = await job_of(story)
    again = await until(lambda: claim_batch(story))
    assert again["batch_id"] == second["batch_id"]
    await other.train(again)
    rest = await until(lambda: claim_batch(story))
    assert rest["samples"] == first["samples"]


async def test_what_came_to_nothing_in_three_lines_is_refused_and_told(site: Site) -> None:
    async with open_story(site, batch_size=1, sample_max_lines=2) as story:
        await story.create_scenario()
        await story.release()
        for number in range(2):
            job = await job_of(story)
            batch = await job.train(
                await (job.claim() if number == 0 else until(lambda: claim_batch(story)))
            )
            await job.give_back(batch)
        (event,) = await until(lambda: story.events(type="sample.refused"))
        assert event["data"]["reason"] == "came-to-nothing"
        view = await signal(story)
        assert view["total"]["refused"] == {"came-to-nothing": 1}
        told = {finding["code"]: finding["message"] for finding in view["findings"]}
        assert "trainers-failed" not in told
        assert "not promoted in 2 lines" in told["not-promoted"]
        assert batch["batch_id"] in told["not-promoted"]
        restore = story.path("batches", batch["batch_id"], "restore")
        await story.post("operate", restore, {"reason": "the settings were wrong"})
        again = await until(lambda: claim_batch(story))
        assert again["samples"] == batch["samples"]


async def test_a_batch_that_is_given_back_for_ever_stands_in_nobodys_way(
    story: Story, job: TrainerJob
) -> None:
    batch = await job.claim()
    for _ in range(MAX_IDLE_CLAIMS - 1):
        await job.give_back(batch)
        batch = await until(lambda: claim_batch(story))
    await job.give_back(batch)
    assert (await job.batch(batch))["stage"] == "quarantined"
    (event,) = await until(lambda: story.events(type="sample.refused"))
    assert event["data"]["reason"] == "quarantined"
    assert (await signal(story))["total"]["batched"] == 0


async def test_an_operator_frees_what_a_trainer_trained_and_kept(
    story: Story, job: TrainerJob
) -> None:
    batch = await job.train()
    path = story.path("batches", batch["batch_id"], "restore")
    await story.post("operate", path, {"reason": "nobody knows whose token that was"})
    assert await released(story, 1) == [(batch["batch_id"], "abandoned")]
    assert (await refusal(job.submit())).codes == ["batch-released"]
    again = await until(lambda: claim_batch(story))
    assert again["samples"] == batch["samples"]


async def test_turns_are_not_used_up_by_a_training_without_steps(
    story: Story, job: TrainerJob
) -> None:
    batch = await job.claim()
    await job.start(batch)
    job.result()
    problem = await refusal(job.complete(batch, weights_id=job.base, steps=0))
    assert (problem.status, problem.codes) == (422, ["steps"])


async def test_how_the_result_does_is_recorded_when_the_training_is_completed(
    story: Story, job: TrainerJob
) -> None:
    batch = await job.claim()
    await job.start(batch)
    await job.step(batch)
    job.result()
    for wrong in (None, 1e308, "0.5"):
        assert (await refusal(job.complete(batch, metrics={"kl": wrong}))).status == 400
    await job.complete(batch, metrics={"kl": 0.25, "entropy": 1e-9})
    (event,) = await story.events(type="training.completed")
    assert event["data"]["metrics"] == {"kl": "0.25", "entropy": "1e-09"}
    assert event["schema_version"] == 2


async def test_what_is_revoked_is_trained_from_no_more(story: Story, job: TrainerJob) -> None:
    held = await job.claim()
    await judged_turn(story)
    await until(lambda: story.events(type="batch.formed"), lambda found: len(found) == 2)
    await story.post("operate", story.path("releases", job.base, "revoke"), {"reason": "it lies"})
    assert await claim_batch(story) is None
    problem = await refusal(job.start(held))
    assert (problem.status, problem.codes[0]) == (409, "revoked-teacher")
    await judged_turn(story)
    view = await signal(story)
    assert [finding["code"] for finding in view["findings"]] == ["revoked-teacher"]
    assert len(await story.events(type="batch.formed")) == 2
    assert await story.events(type="sample.refused") == []


async def test_a_gate_that_errs_for_good_ends_the_line_and_says_so_to_the_trainer(
    story: Story, job: TrainerJob
) -> None:
    batch = await job.train()
    view = await job.submit()
    await story.gate("eee")
    # The same draw again, and nothing is lost by it.
    assert (await job.show_line())["over"] is None
    assert (await job.batch(batch))["stage"] == "trained"
    await story.gate("eee")
    assert (await job.show_line())["over"] == "candidate-errored"
    assert await released(story, 1) == [(batch["batch_id"], "abandoned")]
    assert (await story.candidate(view["candidate_id"]))["status"] == "errored"
    again = await job.submit()
    assert (again["candidate_id"], again["status"]) == (view["candidate_id"], "errored")
    assert await story.claim() is None
    other = await job_of(story)
    fresh = await until(lambda: claim_batch(story))
    assert fresh["samples"] == batch["samples"]
    await other.train(fresh)
    await other.submit()
    await story.gate()
    await story.sign(other.weights_id)
    await story.promoted(other.weights_id)


async def test_a_train_token_submits_so_many_candidates_a_day(site: Site) -> None:
    async with open_story(site, submissions_per_day=2) as story:
        await story.create_scenario()
        await story.release()
        first = model_files(next(site.numbers))
        await story.submit(first)
        await story.submit()
        problem = await refusal(story.submit())
        assert (problem.status, problem.body["type"]) == (
            429,
            "urn:reef-release:problem:too-many-requests",
        )
        assert 86_000 < int(problem.response.headers["retry-after"]) <= 86_400
        # What was submitted is answered, and others have bounds of their own.
        assert (await story.submit(first))["status"] == "admitted"
        await story.submit(role="operate")
        assert len(await story.events(type="candidate.submitted")) == 4
    async with open_story(site, submissions_per_day=2) as story:
        assert (await refusal(story.submit())).status == 429


async def test_candidates_submitted_at_once_are_counted_one_by_one(site: Site) -> None:
    async with open_story(site, submissions_per_day=2) as story:
        await story.create_scenario()
        await story.release()
        manifests = [await story.manifest() for _ in range(8)]
        path, wait = story.path("candidates"), {"wait": 0}
        answers = await asyncio.gather(
            *(story.ask("train", "POST", path, json=each, params=wait) for each in manifests)
        )
        assert [each.status_code for each in answers].count(429) == 6
        assert all(each.status_code in (201, 202, 429) for each in answers)


async def test_after_a_failed_gate_the_turns_wait_again_and_are_trained_in_another_line(
    story: Story, job: TrainerJob
) -> None:
    batches = [await job.train(), await job.train()]
    turns = [batch["samples"][0]["turn_id"] for batch in batches]
    await job.submit()
    assert (await refusal(job.give_back(batches[0]))).codes == ["candidate-waits"]
    await story.gate("---")
    assert await released(story, 2) == [(name, "abandoned") for name in job.batches]
    assert (await job.show_line())["over"] == "candidate-failed"
    assert (await signal(story))["total"]["completed"] == 0
    second = await job_of(story)
    again = [await second.train(await until(lambda: claim_batch(story))) for _ in turns]
    assert [batch["samples"][0]["turn_id"] for batch in again] == turns
    await second.submit()
    await story.gate()
    await story.sign(second.weights_id)
    await story.promoted(second.weights_id)
    assert (await signal(story))["total"]["trained"] == 2


async def test_a_refused_candidate_lets_its_turns_go(story: Story, job: TrainerJob) -> None:
    batch = await job.claim()
    await job.start(batch)
    await job.step(batch)
    job.files = {"config.json": b"{}", "model.safetensors": b"torn"}
    await job.complete(batch)
    job.batches.append(batch["batch_id"])
    assert (await refusal(job.submit())).status == 422
    assert await released(story, 1) == [(batch["batch_id"], "abandoned")]
    again = await until(lambda: claim_batch(story))
    assert again["samples"] == batch["samples"]


async def test_when_the_pointer_leaves_the_base_what_was_trained_on_it_is_stale(
    story: Story, job: TrainerJob
) -> None:
    batch = await job.train()
    held = await job.claim()
    await job.start(held)
    await story.release()
    assert await released(story, 1) == [(batch["batch_id"], "abandoned")]
    (refused,) = await until(lambda: story.events(type="sample.refused"))
    assert refused["data"]["reason"] == "stale"
    assert (await refusal(job.step(held))).codes == ["line-over"]
    problem = await refusal(job.submit())
    assert (problem.status, problem.codes) == (422, ["batch-released"])
    job.line, job.parent = uuid7(), await story.serving() or ""
    job.steps = 0
    await job.give_back(held)
    assert (held["batch_id"], "stale") in await released(story, 3)


async def test_a_claim_of_a_release_served_no_more_is_not_trained_from_the_new_one(
    story: Story, job: TrainerJob
) -> None:
    held = await job.claim()
    await story.release()
    fresh = await job_of(story)
    problem = await refusal(fresh.start(held))
    assert problem.status == 409
    assert "served no more" in problem.body["detail"]


async def test_a_trainer_gives_its_line_up(story: Story, job: TrainerJob) -> None:
    first, second = await job.train(), await job.train()
    await job.give_back(second)
    assert sorted(await released(story, 2)) == sorted(
        (batch["batch_id"], "abandoned") for batch in (first, second)
    )
    assert (await refusal(job.submit())).codes == ["batch-released", "batch-released"]


async def test_a_candidate_names_what_its_line_trained_and_nothing_else(
    story: Story, job: TrainerJob
) -> None:
    await job.train()
    other = await job_of(story)
    await other.train()
    held = await job.claim()
    for batches, codes in (
        ([*job.batches, *job.batches], ["batch-twice"]),
        ([*job.batches, "none"], ["no-batch"]),
        ([*job.batches, held["batch_id"]], ["not-trained"]),
        ([*job.batches, *other.batches], ["other-line"]),
        (other.batches, ["other-weights"]),
    ):
        problem = await refusal(job.submit(batches=batches))
        assert (problem.status, problem.codes) == (422, codes)
    assert (
        await story.events(type="candidate.submitted", scenario="homework")
        == (await story.events(type="candidate.submitted"))[:1]
    )
    await job.submit()
    await story.gate()
    await story.sign(job.weights_id)
    await story.promoted(job.weights_id)
    problem = await refusal(story.submit(batches=job.batches))
    assert problem.codes == ["batch-used"]
    assert (await story.submit())["status"] == "admitted"


async def test_batches_are_listed_page_by_page_with_the_lines_that_go_on(
    story: Story, job: TrainerJob
) -> None:
    screening = {
        "tasks": 4,
        "passed": 2,
        "right": 3,
        "base_passed": 1,
        "base_right": 3,
        "submits": False,
    }
    first = await job.train(screening=screening)
    assert (await job.batch(first))["screening"] == screening
    await job.claim()
    path = story.path("batches")
    page = await story.get("train", path, params={"limit": 1})
    assert [batch["stage"] for batch in page["batches"]] == ["trained"]
    assert [line["line"] for line in page["lines"]] == [job.line]
    after = page["next_after"]
    page = await story.get("operate", path, params={"limit": 1, "after": after})
    assert [batch["stage"] for batch in page["batches"]] == ["claimed"]
    assert page["next_after"] is None
    assert (await refusal(story.get("train", path, params={"limit": 0}))).status == 400
    assert (await refusal(story.get("train", story.path("lines", "none")))).status == 404
    assert (await refusal(story.get("train", story.path("batches", "none")))).status == 404
    await story.release()
    assert (await story.get("train", path))["lines"] == []


async def test_a_trainer_killed_in_mid_step_loses_the_steps_and_nothing_else(site: Site) -> None:
    async with open_story(site, batch_size=1, lease_s=1) as story:
        await story.create_scenario()
        await story.release()
        job = await job_of(story)
        batch = await job.claim()
        await job.start(batch)
        await job.step(batch)
        # Killed. Another process with the same disk learns from the log what is to be done.
        assert await released(story, 1) == [(batch["batch_id"], "expired")]
        again = await until(lambda: claim_batch(story, "trainer-2"))
        assert again["batch_id"] == batch["batch_id"]
        assert (await refusal(job.step(batch, step=2))).codes == ["other-lease"]
        line = await job.show_line()
        assert (line["steps"], line["training"], line["weights_id"]) == (0, None, job.base)
        await job.train(again)
        view = await job.batch(again)
        assert (view["stage"], view["steps"]) == ("trained", 1)
        problem = await refusal(job.complete(batch, weights_id="cd" * 32))
        assert (problem.status, problem.codes) == (409, ["trained"])
        assert await claim_batch(story) is None


async def test_a_trainer_killed_between_completion_and_submission_submits_once(
    story: Story, job: TrainerJob
) -> None:
    await job.train()
    page = await story.get("train", story.path("batches"))
    (line,) = page["lines"]
    assert (line["weights_id"], line["candidates"]) == (job.weights_id, [])
    manifest = await story.manifest(job.files, batches=line["batches"])
    path = story.path("candidates")
    view = await story.post("train", path, manifest)
    # Killed again before it has read the answer.
    (line,) = (await story.get("train", story.path("batches")))["lines"]
    assert line["candidates"] == [view["candidate_id"]]
    again = await story.post("train", path, manifest)
    assert again["candidate_id"] == view["candidate_id"]
    assert len(await story.events(type="candidate.submitted")) == 2  # the origin, and this


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize(
    "type_name",
    ["training.started", "training.step", "training.completed", "candidate.submitted"],
)
async def test_a_crash_of_the_service_around_any_append_is_repaired_by_sending_again(
    site: Site, type_name: str, before: bool
) -> None:
    async with open_story(site, batch_size=1) as story:
        await story.create_scenario()
        await story.release()
        job = await job_of(story)
        batch = await job.claim()
    job.result()
    async with doomed(site, type_name, before=before) as dying:
        job.story = dying
        with pytest.raises(Problem):
            await deeds(job, batch)
    async with open_story(site, batch_size=1) as story:
        job.story = story
        await deeds(job, batch)
        events = [event["type"] for event in await story.events()]
        for name in ("started", "step", "completed"):
            assert events.count(f"training.{name}") == 1
        await story.gate()
        await story.sign(job.weights_id)
        await story.promoted(job.weights_id)
        assert story.service is not None
        assert story.service.state.violations == []


async def deeds(job: TrainerJob, batch: Any) -> None:
    await job.start(batch)
    await job.step(batch)
    await job.complete(batch)
    job.batches = [batch["batch_id"]]
    await job.submit()


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
async def test_a_crash_as_batches_are_abandoned_loses_no_turn(site: Site, before: bool) -> None:
    async with open_story(site, batch_size=1) as story:
        await story.create_scenario()
        await story.release()
        job = await job_of(story)
        await job.train()
        await job.train()
        await job.submit()
    async with doomed(site, "batch.released", before=before) as dying:
        await dying.gate("---")
        if not before:
            await released(dying, 1)
    async with open_story(site, batch_size=1) as story:
        assert sorted(await released(story, 2)) == sorted(
            (name, "abandoned") for name in job.batches
        )
        claims = [await until(lambda: claim_batch(story)) for _ in job.batches]
        assert len({claim["samples"][0]["turn_id"] for claim in claims}) == 2
        assert len(await story.events(type="batch.released")) == 2


async def test_a_judged_turn_that_waits_is_in_no_batch_twice(story: Story) -> None:
    first = await job_of(story)
    second = await job_of(story)
    await first.train()
    await second.train()
    await first.submit()
    await story.gate()
    await story.sign(first.weights_id)
    await story.promoted(first.weights_id)
    assert await released(story, 1) == [(second.batches[0], "abandoned")]
    problem = await refusal(story.submit(second.files, base=second.base, batches=second.batches))
    assert problem.codes == ["batch-released"]
    await judged_turn(story)
    assert await until(lambda: claim_batch(story)) is not None
