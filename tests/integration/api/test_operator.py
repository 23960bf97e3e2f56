"""The operator's levers: hold, resume, rollback, revoke, and a new policy."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.api.story import Problem, Story, until

pytestmark = pytest.mark.anyio


async def refused(story: Story, name: str, **fields: Any) -> Problem:
    with pytest.raises(Problem) as caught:
        await story.lever(name, **fields)
    return caught.value


async def gated(story: Story) -> str:
    """A candidate whose gate has passed; not signed yet."""
    identity = str((await story.submit())["candidate_id"])
    await story.gate()
    return identity


async def count(story: Story, type_name: str) -> int:
    return len(await story.events(type=type_name))


async def settled(story: Story) -> None:
    """Until the service has folded and answered everything so far: one more round of its own."""
    before = await count(story, "checkpoint.published")
    await story.submit()
    await until(lambda: count(story, "checkpoint.published"), lambda found: bool(found > before))


@pytest.mark.parametrize(
    "path",
    ["hold", "resume", "rollback", "releases/none/revoke", "candidates/none/revoke"],
)
async def test_a_scenario_spelled_wrong_is_404_and_creates_nothing(story: Story, path: str) -> None:
    body = {"reason": "because", **({"release_id": "none"} if path == "rollback" else {})}
    wrong = await story.ask("operate", "POST", f"/reef/scenarios/homewrok/{path}", json=body)
    assert wrong.status_code == 404
    scenarios = (await story.get("audit", "/reef/scenarios"))["scenarios"]
    assert [each["name"] for each in scenarios] == ["homework"]


async def test_a_scenario_is_created_once(story: Story) -> None:
    with pytest.raises(Problem) as again:
        await story.create_scenario()
    assert (again.value.status, again.value.codes) == (409, ["known-scenario"])


async def test_a_scenario_needs_a_schema_that_is_stored_and_is_one(story: Story) -> None:
    policy = story.signed_policy(name="fresh")
    for schema, status in (
        ("0" * 64, 422),
        (await story.put_blob(b"{}"), 400),
        (await story.put_blob(b"\x00"), 400),
        ("no digest", 400),
        (await story.put_blob(story.site.model_schema()), 201),
    ):
        body = {"name": "fresh", "schema": schema, "policy": policy}
        response = await story.ask("operate", "POST", "/reef/scenarios", json=body)
        assert response.status_code == status, response.text


async def test_a_hold_blocks_the_promotion_and_resuming_lets_it_through(story: Story) -> None:
    origin = await story.release()
    identity = await gated(story)
    await story.lever("hold")
    assert (await refused(story, "hold")).codes == ["held"]
    await story.sign(identity)
    await settled(story)
    assert await story.serving() == origin
    assert (await story.candidate(identity))["status"] == "passed"

    await story.lever("resume")
    await story.promoted(identity)
    assert await story.serving() == identity
    assert (await refused(story, "resume")).codes == ["not-held"]


async def test_a_rollback_is_a_new_position_and_possible_during_a_hold(story: Story) -> None:
    first = await story.release()
    second = await story.release()
    await story.lever("hold")
    before = (await story.get("audit", story.path()))["channels"]["stable"]["pointer_position"]
    written = await story.lever("rollback", release_id=first)
    channel = (await story.get("audit", story.path()))["channels"]["stable"]
    assert channel["release_id"] == first
    assert channel["pointer_position"] == written["position"] > before
    assert channel["kind"] == "release.rolled_back"
    await story.lever("rollback", release_id=second)
    assert await story.serving() == second


async def test_a_rollback_goes_only_to_what_was_promoted_in_that_channel(story: Story) -> None:
    first = await story.release()
    waiting = await gated(story)
    second = (await story.submit())["candidate_id"]
    for release in (waiting, second, "0" * 64, "none"):
        problem = await refused(story, "rollback", release_id=release)
        assert problem.codes == ["never-promoted"]
        assert problem.status in (404, 409, 422)
    assert (await refused(story, "rollback", release_id=first)).codes == ["already-serving"]
    assert (await refused(story, "rollback", release_id=first, channel="beta")).codes == [
        "never-promoted"
    ]
    assert await story.serving() == first


async def test_a_document_follows_a_rollback(story: Story) -> None:
    first = await story.release()
    await story.release()
    etag = (await story.current()).headers["etag"]
    await story.lever("rollback", release_id=first)

    async def look() -> str:
        response = await story.current()
        return str(response.headers["etag"])

    assert await until(look, lambda seen: seen != etag)


@pytest.mark.parametrize("what", ["releases", "candidates"])
async def test_a_revoked_release_is_neither_promoted_nor_rolled_back_to(
    story: Story, what: str
) -> None:
    """Attack 39."""
    first = await story.release()
    second = await story.release()
    third = await story.release()
    await story.post("operate", story.path(what, second, "revoke"), {"reason": "it insults"})
    problem = await refused(story, "rollback", release_id=second)
    assert (problem.status, problem.codes) == (409, ["revoked"])
    view = await story.get("audit", story.path("releases", second))
    assert view["revoked"] is True
    with pytest.raises(Problem) as again:
        await story.post("operate", story.path(what, second, "revoke"), {"reason": "twice"})
    assert again.value.codes == ["revoked"]
    assert await story.serving() == third
    await story.lever("rollback", release_id=first)
    assert await story.serving() == first


async def test_a_candidate_revoked_after_it_passed_is_not_promoted(story: Story) -> None:
    origin = await story.release()
    identity = await gated(story)
    await story.post("operate", story.path("candidates", identity, "revoke"), {"reason": "leak"})
    with pytest.raises(Problem) as unsigned:
        await story.sign(identity)
    assert unsigned.value.codes == ["revoked"]
    assert await story.serving() == origin


async def test_a_candidate_revoked_before_its_gate_is_not_gated(story: Story) -> None:
    await story.release()
    revoked = (await story.submit())["candidate_id"]
    await story.post("operate", story.path("candidates", revoked, "revoke"), {"reason": "leak"})
    other = (await story.submit())["candidate_id"]
    assert (await story.claim_soon()).opened.candidate_id == other


async def test_revoking_what_does_not_exist_is_404(story: Story) -> None:
    for path in ("releases/none/revoke", "candidates/none/revoke"):
        with pytest.raises(Problem) as caught:
            await story.post("operate", story.path(path), {"reason": "because"})
        assert caught.value.status == 404


async def test_every_lever_says_who_and_why_in_the_log(story: Story) -> None:
    written = await story.lever("hold", reason="  a look at the answers  ")
    event = (await story.events(type="scenario.held"))[0]
    assert event["position"] == written["position"]
    assert event["event_id"] == written["event_id"]
    assert event["actor"] == "the-operate"
    assert event["data"] == {"reason": "a look at the answers"}


async def test_there_is_no_way_to_promote_by_request(story: Story) -> None:
    """No force flag, no admin route."""
    await story.release()
    identity = (await story.submit())["candidate_id"]
    for role in ("operate", "train", "gate", "sign", "audit", "serve"):
        for path in ("promote", "current", f"releases/{identity}/promote", "pointer"):
            for method in ("POST", "PUT"):
                response = await story.ask(role, method, story.path(path), content=b"{}")
                assert response.status_code in (404, 405)
    assert await count(story, "release.promoted") == 1


async def test_a_node_reports_what_it_loaded_and_what_it_refused(story: Story) -> None:
    release = await story.release()
    loaded = {
        "scenario": story.scenario,
        "channel": "stable",
        "release_id": release,
        "serial": 7,
        "canary_difference": "0.0001",
    }
    path = "/reef/nodes/node-1/reports"
    await story.post("serve", path, loaded)
    view = await story.get("audit", story.path())
    assert view["nodes"][0]["release_id"] == release

    reason = {"code": "serial", "message": "it is older", "where": ""}
    refusal = {"scenario": story.scenario, "channel": "stable", "release_id": release}
    await story.post("serve", path, {**refusal, "reasons": [reason]})
    view = await story.get("audit", story.path())
    assert view["nodes"][0]["reasons"] == [reason]

    wrong: list[tuple[dict[str, Any], int]] = [
        ({**loaded, "release_id": None}, 400),
        ({**loaded, "serial": None}, 400),
        ({**loaded, "serial": 2**53}, 400),
        ({**loaded, "release_id": "0" * 64}, 404),
        ({**loaded, "scenario": "homewrok"}, 404),
        ({**loaded, "canary_difference": 0.1}, 400),
    ]
    for report, status in wrong:
        response = await story.ask("serve", "POST", path, json=report)
        assert response.status_code == status, response.text
    odd = await story.ask("serve", "POST", "/reef/nodes/a%20b/reports", json=loaded)
    assert odd.status_code in (400, 422)
