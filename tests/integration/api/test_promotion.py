"""The way of a candidate into serving, over HTTP, from the operator's first request on."""

from __future__ import annotations

import json

import pytest

from reef_release import wire
from reef_release.domain.canonical import canonical_json
from reef_release.domain.decision import decision_of
from reef_release.domain.fold import Fold
from reef_release.domain.weights import candidate_id
from reef_release.projections.replay import ReplayChecks
from reef_release.signing.current import CurrentDocument, verify_current
from reef_release.signing.keys import Role
from reef_release.signing.note import open_checkpoint
from reef_release.signing.vsa import verify_decision
from reef_release.signing.weights import verify_bundle
from tests.integration.api.story import Problem, Story

pytestmark = pytest.mark.anyio


async def document(story: Story, release: str) -> CurrentDocument:
    """The current document once it is over *release*."""
    etag = ""
    while True:
        response = await story.current(params={"wait": 20}, headers={"If-None-Match": etag})
        assert response.status_code == 200, response.text
        etag = response.headers["etag"]
        keys = [story.site.key(Role.POINTER).public]
        found = verify_current(response.json(), keys).document
        if found.release_id == release:
            return found


async def test_an_origin_and_a_better_candidate_reach_serving(story: Story) -> None:
    assert (await story.current()).status_code == 404

    origin = await story.release()
    assert await story.serving() == origin
    first = await document(story, origin)

    better = await story.release()
    assert await story.serving() == better
    second = await document(story, better)

    assert second.serial > first.serial
    assert second.pointer_position > first.pointer_position
    assert second.root_version == 1


async def test_everything_that_a_stranger_needs_to_verify_a_release_is_served(story: Story) -> None:
    await story.release()
    release = await story.release()
    current = await document(story, release)
    keys = {role: [story.site.key(role).public] for role in Role if role is not Role.ROOT}

    bundle = await story.ask("serve", "GET", story.path("releases", release, "bundle"))
    files = verify_bundle(bundle.content, release, keys[Role.RELEASE]).files
    assert candidate_id(files) == release
    for path in files:
        route = story.path("releases", release, "files", path)
        content = await story.ask("serve", "GET", route)
        assert content.status_code == 200
        blob = await story.ask("serve", "GET", f"/reef/blobs/{files[path]}")
        assert content.content == blob.content

    path = story.path("releases", release, "attestation")
    attestation = await story.get("serve", path)
    verified = verify_decision(attestation, keys[Role.GATE])
    assert verified.digest == current.gate_digest
    assert verified.decision.outcome == "passed"
    assert verified.decision.candidate_id == release

    origin = story.service.settings.origin if story.service else ""
    checkpoint = open_checkpoint(current.checkpoint, origin, keys[Role.LOG])
    assert checkpoint.size > current.pointer_position

    view = await story.get("serve", story.path("releases", release))
    canary = await story.ask("serve", "GET", f"/reef/blobs/{view['canary']}")
    assert canary.content == story.canary()
    root = await story.ask(None, "GET", "/reef/trust/root/1")
    assert root.text == story.site.anchor
    assert (await story.ask(None, "GET", "/reef/trust/root")).text == story.site.anchor
    assert (await story.ask(None, "GET", "/reef/trust/root/2")).status_code == 404


async def test_the_events_of_a_promotion_stand_in_the_order_of_the_rule(story: Story) -> None:
    identity = await story.release()
    types = [event["type"] for event in await story.events(scenario=story.scenario)]
    assert types == [
        "scenario.created",
        "candidate.submitted",
        "candidate.admitted",
        "gate.opened",
        "gate.claimed",
        "gate.trial",
        "gate.trial",
        "gate.passed",
        "release.signed",
        "release.promoted",
    ]
    actors = {e["type"]: e["actor"] for e in await story.events(scenario=story.scenario)}
    assert actors["candidate.submitted"] == "the-operate"
    assert actors["gate.trial"] == actors["gate.passed"] == "the-gate"
    assert actors["release.signed"] == "the-sign"
    assert actors["candidate.admitted"] == actors["release.promoted"] == "service"
    view = await story.candidate(identity)
    assert view["status"] == "promoted"


async def test_a_request_that_wrote_sees_what_it_wrote(story: Story) -> None:
    origin = await story.submit(wait=0)
    assert origin["status"] in ("submitted", "admitted")
    assert (await story.candidate(origin["candidate_id"]))["candidate_id"]
    written = await story.lever("hold")
    view = await story.get("audit", story.path())
    assert view["held_reason"] == "the answers look odd"
    assert view["position"] >= written["position"]
    stored = await story.get("audit", "/reef/events", params={"after": written["position"] - 1})
    assert stored["events"][0]["event_id"] == written["event_id"]


async def test_weights_are_signed_only_after_their_gate_passed(story: Story) -> None:
    identity = (await story.submit())["candidate_id"]
    with pytest.raises(Problem) as refused:
        await story.sign(identity)
    assert refused.value.status == 409

    assignment = await story.claim_soon()
    gate = await story.run_trials(assignment, "---")
    assert await story.decide(gate) == "failed"
    with pytest.raises(Problem) as refused:
        await story.sign(identity)
    assert refused.value.status == 409
    assert await story.serving() is None


async def test_a_bundle_over_other_weights_or_by_another_key_is_refused(story: Story) -> None:
    origin = await story.release()
    identity = (await story.submit())["candidate_id"]
    await story.gate()
    path = story.path("releases", identity, "bundle")
    right = await story.bundle(identity)
    tampered = json.loads(right)
    tampered["dsseEnvelope"]["signatures"][0]["sig"] = "AAAA"
    wrong = {
        "another release's": await story.bundle(origin),
        "tampered": canonical_json(tampered),
        "no JSON": b"\x00\xff",
        "another shape": b"[]",
        "empty": b"",
    }
    for name, bundle in wrong.items():
        response = await story.ask("sign", "POST", path, content=bundle)
        assert response.status_code in (400, 422), (name, response.text)
    assert await story.serving() == origin
    await story.post("sign", path, right)
    await story.promoted(identity)
    with pytest.raises(Problem) as again:
        await story.post("sign", path, right)
    assert (again.value.status, again.value.codes) == (409, ["signed"])


async def test_the_worker_and_the_service_compute_the_same_decision(story: Story) -> None:
    await story.release()
    await story.submit()
    gate = await story.gate("-++", "+")
    assert story.service is not None
    own = story.service.state.scenarios[story.scenario].gates[gate.opened.gate_id]
    assert decision_of(story.scenario, own, "passed", own.canary) == decision_of(
        story.scenario, gate, "passed", own.canary
    )
    assert [task.question for task in own.tasks] == [task.question for task in gate.tasks]


async def test_what_was_served_equals_what_a_stranger_folds_from_the_events(story: Story) -> None:
    await story.release()
    # Once its document is there, nothing more is due for the next 20 s.
    await document(story, await story.release())
    assert story.service is not None
    bodies: list[bytes] = []
    page = await story.ask("audit", "GET", "/reef/events", params={"limit": 1000})
    for event in wire.msgspec.json.decode(page.content, type=wire.EventsView).events:
        bodies.append(canonical_json(wire.msgspec.json.decode(event)))
    fold = Fold(ReplayChecks(story.site.anchor, story.service.blobs))
    for body in bodies:
        fold.apply(body)
    live = story.service.state
    assert fold.state.violations == []
    assert fold.state.position == live.position
    assert fold.state.tree.root() == live.tree.root()
    assert fold.state.scenarios == live.scenarios
    assert fold.state.current == live.current
