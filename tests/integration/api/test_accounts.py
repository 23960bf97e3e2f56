"""Accounts over HTTP, of a service with its own log: what is served and why, and who is told."""

from __future__ import annotations

import pytest

from tests.integration.api.story import Problem, Site, Story, open_story

pytestmark = pytest.mark.anyio


async def test_what_was_refused_served_and_rolled_back_to_is_told_with_its_reasons(
    story: Story,
) -> None:
    first = await story.release()
    second = await story.release()
    failed = str((await story.submit())["candidate_id"])
    gate = await story.gate("---", "+++")
    await story.lever("rollback", release_id=first)
    told = await story.get("operate", story.path("account"))
    (channel,) = told["channels"]
    assert (channel["release_id"], channel["pointer"]["type"]) == (first, "release.rolled_back")
    assert channel["pointer"]["actor"] == "the-operate"
    assert channel["pointer"]["reason"]
    assert channel["grounds"]["gate"]["outcome"] == "passed"
    assert all(each["at"] for each in channel["grounds"]["signatures"])
    assert told["levers"][0]["type"] == "release.rolled_back"
    (refusal,) = (each for each in told["refusals"] if each["candidate_id"] == failed)
    assert (refusal["outcome"], refusal["gate"]["gate_id"]) == ("failed", gate.opened.gate_id)
    assert refusal["gate"]["rules"][0]["found"]
    account = await story.get("operate", story.path("candidates", second, "account"))
    assert account["status"] == "promoted"
    assert "reef-release rollback can serve it again" in account["next_step"]


async def test_who_trains_learns_which_rule_broke_and_no_figure(story: Story) -> None:
    await story.release()
    failed = str((await story.submit())["candidate_id"])
    await story.gate("---", "+++")
    path = story.path("candidates", failed, "account")
    full, bare = [await story.get(role, path) for role in ("audit", "train")]
    assert [rule["outcome"] for rule in bare["gates"][0]["rules"]] == [
        rule["outcome"] for rule in full["gates"][0]["rules"]
    ]
    assert all(rule["found"] for rule in full["gates"][0]["rules"])
    assert not any(rule["found"] for rule in bare["gates"][0]["rules"])
    assert bare["gates"][0]["incumbent_passed"] is None
    told = await story.get("train", story.path("account"))
    assert not any(rule["found"] for each in told["refusals"] for rule in each["gate"]["rules"])
    with pytest.raises(Problem) as unknown:
        await story.get("audit", story.path("candidates", "nobody", "account"))
    assert unknown.value.status == 404


async def test_who_trains_learns_nothing_of_a_gate_that_goes_on(story: Story) -> None:
    """Asked for after each trial, counts would tell the verdicts one by one."""
    await story.release()
    candidate = str((await story.submit())["candidate_id"])
    gate = await story.run_trials(await story.claim_soon(), "-", "+")
    paths = [story.path("candidates", candidate), story.path("candidates"), story.path("")]
    paths = [path.rstrip("/") for path in paths]

    async def counts(role: str, path: str) -> list[object]:
        told = await story.get(role, path)
        views = told.get("candidates", [told])
        (found,) = (
            each
            for view in views
            for each in view["gates"]
            if each["gate_id"] == gate.opened.gate_id
        )
        return [found[f"{name}_count"] for name in ("task", "passed", "error")]

    account = story.path("candidates", candidate, "account")
    for path in paths:
        assert await counts("train", path) == [None] * 3
        assert await counts("audit", path) == [1, 0, 0]
    (bare,) = (await story.get("train", account))["gates"]
    assert [bare[name] for name in ("tasks", "passed", "incumbent_passed", "errors")] == [None] * 4
    assert {rule["outcome"] for rule in bare["rules"]} == {None}
    (full,) = (await story.get("audit", account))["gates"]
    assert (full["tasks"], full["passed"], full["errors"]) == (1, 0, 0)
    await story.decide(await story.run_trials(await story.claim_soon(), "--", "++"))
    for path in paths:
        assert await counts("train", path) == await counts("audit", path)
    (bare,) = (await story.get("train", account))["gates"]
    assert (bare["tasks"], bare["passed"]) == (3, 0)


async def test_who_trains_is_not_told_the_reasons_of_approvers(site: Site) -> None:
    async with open_story(site) as story:
        await story.create_scenario(approvals=1)
        candidate = str((await story.submit())["candidate_id"])
        await story.gate()
        await story.sign(candidate)
        said = {"reason": "I asked it ten times"}
        answer = await story.ask(
            "approve", "POST", story.path("releases", candidate, "approve"), json=said
        )
        assert answer.status_code < 300
        await story.promoted(candidate)
        for path in (story.path("account"), story.path("candidates", candidate, "account")):
            texts = [(await story.ask(role, "GET", path)).text for role in ("audit", "train")]
            assert ["I asked it ten times" in text for text in texts] == [True, False]
            assert "not told to trainers" in texts[1]
