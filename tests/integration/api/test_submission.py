"""Submitting candidates: what is refused at once, what admission finds, and repetitions."""

from __future__ import annotations

import json
import struct
from typing import Any

import anyio
import pytest

from tests.integration.api.story import Problem, Story, model_files, open_story, until

pytestmark = pytest.mark.anyio


async def refused(story: Story, role: str, manifest: dict[str, Any], **params: Any) -> Problem:
    with pytest.raises(Problem) as caught:
        await story.post(role, story.path("candidates"), manifest, params=params)
    return caught.value


async def types(story: Story) -> list[str]:
    return [event["type"] for event in await story.events(scenario=story.scenario)]


async def test_an_origin_is_the_operators(story: Story) -> None:
    manifest = await story.manifest()
    problem = await refused(story, "train", manifest)
    assert problem.status == 403
    assert await types(story) == ["scenario.created"]
    view = await story.post("operate", story.path("candidates"), manifest)
    assert view["status"] == "admitted"
    assert view["gates"] == []


async def test_every_reason_against_the_files_is_told_at_once(story: Story) -> None:
    await story.release()
    header = b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    weights = struct.pack("<Q", len(header)) + header + struct.pack("<ff", 1.0, float("nan"))
    files = {
        "config.json": json.dumps({"model_type": "tiny", "auto_map": {"A": "x.B"}}).encode(),
        "model.safetensors": weights,
        "model.py": b"import os",
    }
    manifest = await story.manifest(files)
    problem = await refused(story, "train", manifest)
    assert problem.status == 422
    assert len(problem.codes) >= 4, problem.body
    assert {"auto-map", "non-finite", "shape-mismatch"} <= set(problem.codes), problem.codes
    assert all(reason["message"] for reason in problem.body["reasons"])
    assert (await types(story))[-2:] == ["candidate.submitted", "candidate.refused"]

    view = await story.candidate(problem.body["candidate_id"])
    assert view["status"] == "refused"
    assert view["reasons"] == problem.body["reasons"]
    again = await refused(story, "train", manifest)
    assert again.body["reasons"] == problem.body["reasons"]
    assert (await types(story)).count("candidate.submitted") == 2
    assert await story.claim() is None


async def test_what_cannot_be_a_manifest_leaves_no_event(story: Story) -> None:
    await story.release()
    before = await types(story)
    good = await story.manifest()
    first, second = good["files"]
    unsafe = [{**first, "path": path} for path in ("../config.json", "/etc/passwd", "a\\b", ".git")]
    wrong: dict[str, tuple[dict[str, Any], int, list[str]]] = {
        "no files": ({"files": []}, 400, []),
        "too many files": ({"files": [first] * 1001}, 400, []),
        "a file twice": ({"files": [first, first]}, 400, []),
        "names that differ by case": (
            {"files": [first, {**first, "path": "CONFIG.json"}]},
            400,
            ["ambiguous-path"],
        ),
        "a missing blob": (
            {"files": [first, {**second, "sha256": "0" * 64}]},
            422,
            ["missing-blob"],
        ),
        "no digest": ({"files": [{**first, "sha256": "abc"}]}, 400, ["bad-digest"]),
        "another length": ({"files": [first, {**second, "size_bytes": 1}]}, 422, ["size"]),
        "no base": ({"base": None}, 422, ["base"]),
        "an unknown base": ({"base": "0" * 64}, 422, ["base"]),
        "a foundation under full weights": ({"foundation": good["base"]}, 422, ["foundation"]),
        "an adapter without foundation": ({"kind": "lora"}, 422, ["foundation"]),
        **{
            f"the path {file['path']}": ({"files": [file]}, 400, ["unsafe-path"]) for file in unsafe
        },
    }
    for name, (change, status, codes) in wrong.items():
        problem = await refused(story, "train", {**good, **change})
        assert problem.status == status, (name, problem.body)
        assert set(codes) <= set(problem.codes), (name, problem.body)
    assert await types(story) == before
    assert (await story.post("train", story.path("candidates"), good))["status"] == "admitted"


async def test_all_files_that_are_missing_are_named_at_once(story: Story) -> None:
    files = [
        {"path": f"model-{n}.safetensors", "sha256": f"{n:064x}", "size_bytes": 1} for n in range(3)
    ]
    problem = await refused(story, "operate", {"files": files})
    assert [reason["where"] for reason in problem.body["reasons"]] == [f["path"] for f in files]


async def test_the_same_submission_again_is_answered_with_what_became_of_it(story: Story) -> None:
    await story.release()
    manifest = await story.manifest()
    first = await story.post("train", story.path("candidates"), manifest)
    second = await story.post("train", story.path("candidates"), manifest)
    assert first["candidate_id"] == second["candidate_id"]
    assert first["submitted_position"] == second["submitted_position"]
    reordered = {**manifest, "files": manifest["files"][::-1]}
    third = await story.post("train", story.path("candidates"), reordered)
    assert third["submitted_position"] == first["submitted_position"]

    await story.gate()
    await story.sign(first["candidate_id"])
    await story.promoted(first["candidate_id"])
    late = await story.post("train", story.path("candidates"), manifest)
    assert late["status"] == "promoted"
    assert (await types(story)).count("candidate.submitted") == 2


async def test_the_same_submission_many_times_at_once_is_one_candidate(story: Story) -> None:
    manifest = await story.manifest()
    statuses: list[str] = []

    async def submit() -> None:
        view = await story.post("operate", story.path("candidates"), manifest)
        statuses.append(view["status"])

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(submit)
    assert statuses == ["admitted"] * 8
    assert (await types(story)).count("candidate.submitted") == 1
    assert (await types(story)).count("candidate.admitted") == 1


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 8},
        {"settings": {"learning_rate": 0.5}},
        {"batches": ["b1"]},
        {"parent": None},
        {"metrics": {"loss": 1.5}},
    ],
)
async def test_the_same_files_with_other_details_are_a_conflict_for_ever(
    story: Story, change: dict[str, Any]
) -> None:
    await story.release()
    manifest = await story.manifest(seed=7, settings={"learning_rate": 1e-06})
    assert (await story.post("train", story.path("candidates"), manifest))["candidate_id"]
    for _ in range(2):
        problem = await refused(story, "train", {**manifest, **change})
        assert problem.status == 409
        # The refusal must not have poisoned the first submission.
        assert (await story.post("train", story.path("candidates"), manifest))["status"]


async def test_floats_of_a_trainer_stand_as_decimals_in_the_event(story: Story) -> None:
    settings = {"learning_rate": 1e-06, "betas": [0.9, 0.999], "nested": {"x": 1, "y": "z"}}
    await story.submit(settings=settings, metrics={"loss": 0.25})
    data = (await story.events(type="candidate.submitted"))[0]["data"]
    assert data["settings"] == {
        "learning_rate": "1e-06",
        "betas": ["0.9", "0.999"],
        "nested": {"x": 1, "y": "z"},
    }
    assert data["metrics"] == {"loss": "0.25"}


async def test_settings_that_do_not_fit_an_event_are_refused_with_the_limit(story: Story) -> None:
    problem = await refused(story, "operate", await story.manifest(settings={"x": "y" * 70_000}))
    assert problem.status == 400
    assert "60000" in problem.body["detail"]
    assert (await story.submit(settings={"x": "y" * 50_000}))["status"] == "admitted"


async def test_without_waiting_the_answer_is_202_and_the_status_appears(story: Story) -> None:
    manifest = await story.manifest()
    response = await story.ask(
        "operate", "POST", story.path("candidates"), json=manifest, params={"wait": 0}
    )
    assert response.status_code == 202
    assert response.json()["status"] == "submitted"
    identity = response.json()["candidate_id"]
    found = await until(
        lambda: story.candidate(identity), lambda view: view["status"] != "submitted"
    )
    assert found["status"] == "admitted"


async def test_an_adapter_on_the_served_release_is_admitted_and_on_another_is_not(
    story: Story,
) -> None:
    origin = await story.release()
    other = await story.submit()
    good = await story.manifest(model_files(9), kind="lora", foundation=origin)
    # These are no adapter's files, so admission refuses them; the foundation is right.
    problem = await refused(story, "train", good)
    assert problem.status == 422
    assert "foundation" not in problem.codes
    bad = await story.manifest(model_files(10), kind="lora", foundation=other["candidate_id"])
    problem = await refused(story, "train", bad)
    assert problem.codes == ["foundation"]


async def test_an_admission_that_a_crash_interrupted_is_done_after_the_restart(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outage(*_: object, **__: object) -> None:
        raise OSError("the disk does not answer")

    with monkeypatch.context() as patch:
        patch.setattr("reef_release.artifacts.admission.admit", outage)
        view = await story.submit(wait=0.2)
        assert view["status"] == "submitted"
    async with open_story(story.site) as restarted:
        found = await until(
            lambda: restarted.candidate(view["candidate_id"]),
            lambda view: view["status"] != "submitted",
        )
    assert found["status"] == "admitted"
    assert (await types(story)).count("candidate.admitted") == 1


async def test_listing_candidates_keeps_one_status(story: Story) -> None:
    origin = await story.release()
    second = (await story.submit())["candidate_id"]

    async def listed(**params: str) -> list[str]:
        view = await story.get("train", story.path("candidates"), params=params)
        return [each["candidate_id"] for each in view["candidates"]]

    assert await listed() == [origin, second]
    assert await listed(status="promoted") == [origin]
    assert await listed(status="admitted") == [second]
    assert await listed(status="refused") == []


async def test_a_candidate_of_another_channel_has_an_origin_of_its_own(story: Story) -> None:
    await story.release()
    manifest = await story.manifest(channel="beta")
    assert manifest["base"] is None
    assert (await refused(story, "train", manifest)).status == 403
    view = await story.post("operate", story.path("candidates"), manifest)
    assert view["channel"] == "beta"
    await story.gate()
    await story.sign(view["candidate_id"])
    await story.promoted(view["candidate_id"])
    assert await story.serving("beta") == view["candidate_id"]
    assert await story.serving("stable") != view["candidate_id"]
