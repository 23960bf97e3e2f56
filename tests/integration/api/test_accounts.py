"""Accounts over HTTP, of a service with its own log: what is served and why, and who is told."""

from __future__ import annotations

import pytest

from tests.integration.api.story import Problem, Story

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
