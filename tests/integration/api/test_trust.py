"""Rotating keys and the trust root, and revoking keys: over HTTP, as the operator does it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from reef_release.signing.keyring import PRIVATE_NAME
from reef_release.signing.keys import PublicKey, Role, SigningKey, create_key, load_key
from reef_release.signing.root import add_signature, next_root, open_root
from tests.integration.api.story import Problem, Story, open_story, until

pytestmark = pytest.mark.anyio

LATER = datetime(2099, 1, 1, tzinfo=UTC)


def root_keys(story: Story) -> list[SigningKey]:
    """Those of the anchor: three holders, two of whom must sign."""
    places = (story.site.home / "keys" / "root" / str(number) for number in (1, 2, 3))
    return [load_key(place / PRIVATE_NAME, Role.ROOT) for place in places]


def signed_root(
    story: Story, signers: Sequence[SigningKey], before: str | None = None, **changes: Any
) -> str:
    """The next root with *changes*, signed by *signers*."""
    text = next_root(before or story.site.anchor, **({"expires": LATER} | changes))
    for signer in signers:
        text = add_signature(text, signer)
    return text


async def put(
    story: Story, text: str, role: str = "operate", reason: str = "routine"
) -> httpx.Response:
    body = {"metadata": text, "reason": reason}
    return await story.ask(role, "PUT", "/reef/trust/root", json=body)


async def codes_of(story: Story, text: str) -> set[str]:
    """What is said against a root that does not come into force."""
    response = await put(story, text)
    assert response.status_code in (400, 422), response.text
    assert len(await story.events(type="root.rotated")) == 1
    return {reason["code"] for reason in response.json()["reasons"]}


async def key_ids(story: Story) -> dict[str, int | None]:
    """Keys that the log knows, with where they were revoked."""
    keys = (await story.get("audit", "/reef/trust/keys"))["keys"]
    return {key["key_id"]: key["revoked_position"] for key in keys}


async def test_a_new_gate_key_counts_once_a_root_that_two_of_three_signed_lists_it(
    story: Story,
) -> None:
    origin = await story.release()
    fresh = create_key(Role.GATE)
    await story.submit()
    gate = await story.run_trials(await story.claim_soon(), "++")
    with pytest.raises(Problem):
        await story.decide(gate, key=fresh)

    text = signed_root(story, root_keys(story)[1:], add=[fresh.public])
    response = await put(story, text, reason="  the worker moved  ")
    assert response.status_code == 200, response.text
    await until(lambda: key_ids(story), lambda known: fresh.key_id in known)
    assert await story.decide(gate, key=fresh) == "passed"
    await story.sign(gate.opened.candidate_id)
    await story.promoted(gate.opened.candidate_id)
    await story.lever("rollback", release_id=origin)

    event = (await story.events(type="root.rotated"))[-1]
    assert event["actor"] == "the-operate"
    assert event["data"] == {"version": 2, "metadata": text, "reason": "the worker moved"}
    assert (await story.ask(None, "GET", "/reef/trust/root")).text == text
    assert (await story.ask(None, "GET", "/reef/trust/root/1")).text == story.site.anchor


async def test_a_key_that_a_root_drops_is_revoked_and_nothing_that_rests_on_it_comes_back(
    story: Story,
) -> None:
    first = await story.release()
    await story.release()
    old = story.site.key(Role.RELEASE)
    fresh = create_key(Role.RELEASE)
    text = signed_root(story, root_keys(story)[:2], add=[fresh.public], drop=[old.key_id])
    written = (await put(story, text)).json()
    assert (await key_ids(story))[old.key_id] == written["position"]
    with pytest.raises(Problem) as caught:
        await story.lever("rollback", release_id=first)
    assert "key-revoked" in caught.value.codes


async def test_root_keys_are_rotated_by_the_old_and_the_new_ones(story: Story) -> None:
    old, new = root_keys(story), [create_key(Role.ROOT) for _ in range(3)]
    everybody_new: dict[str, Any] = {
        "add": [key.public for key in new],
        "drop": [key.key_id for key in old],
    }
    for signers in (old[:2], new[:2], [old[0], *new], [*old, new[0]]):
        text = signed_root(story, signers, **everybody_new)
        assert await codes_of(story, text) == {"root-threshold"}
    second = signed_root(story, [*old[:2], *new[:2]], **everybody_new)
    assert (await put(story, second)).status_code == 200
    # From here on the old ones are nobody.
    third = next_root(second, expires=LATER)
    unsigned = await put(story, third)
    assert unsigned.json()["reasons"][0]["code"] == "root-threshold"
    for key in new[1:]:
        third = add_signature(third, key)
    assert (await put(story, third)).status_code == 200
    assert open_root(third, second).version == 3


async def test_a_root_that_one_holder_signed_under_two_ids_does_not_come_into_force(
    story: Story,
) -> None:
    """Attack: one stolen root key, listed again under another id, or signing twice."""
    one = root_keys(story)[0]
    text = signed_root(story, [one])
    document = json.loads(text)
    signature = document["signatures"][0]
    twice = {**document, "signatures": [signature, signature]}
    other = {**document, "signatures": [signature, {**signature, "keyid": "f" * 64}]}
    assert await codes_of(story, text) == {"root-threshold"}
    assert await codes_of(story, json.dumps(twice)) == {"malformed"}
    assert await codes_of(story, json.dumps(other)) <= {"malformed", "root-threshold"}
    listed = json.loads(text)
    key = listed["signed"]["keys"][one.key_id]
    listed["signed"]["keys"]["f" * 64] = key
    for role in listed["signed"]["roles"].values():
        role["keyids"].append("f" * 64)
    listed["signatures"].append({**signature, "keyid": "f" * 64})
    assert await codes_of(story, json.dumps(listed))


async def test_versions_go_up_by_one(story: Story) -> None:
    signers = root_keys(story)
    second = signed_root(story, signers)
    third = signed_root(story, signers, before=second)
    assert await codes_of(story, third) == {"root-version"}
    assert await codes_of(story, story.site.anchor) == {"root-version"}
    assert (await put(story, second)).status_code == 200
    again = await put(story, second)
    assert again.json()["reasons"][0]["code"] == "root-version"
    assert (await put(story, third)).status_code == 200


async def test_a_root_that_has_ended_does_not_come_into_force(story: Story) -> None:
    past = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=1)
    assert await codes_of(story, signed_root(story, root_keys(story), expires=past)) == {
        "root-expired"
    }


async def test_a_root_cannot_be_put_by_another_role_nor_by_an_operator_of_one_scenario(
    story: Story,
) -> None:
    text = signed_root(story, root_keys(story))
    for role in ("approve", "audit", "gate", "ingest", "judge", "serve", "sign", "train"):
        assert (await put(story, text, role)).status_code == 403
    token = story.site.token("operate", story.scenario)
    paths = [
        ("PUT", "/reef/trust/root", {"metadata": text, "reason": "r"}),
        ("POST", f"/reef/trust/keys/{story.site.key(Role.GATE).key_id}/revoke", {"reason": "r"}),
    ]
    for method, path, body in paths:
        headers = {"Authorization": f"Bearer {token}"}
        response = await story.ask(None, method, path, json=body, headers=headers)
        assert response.status_code == 403, response.text
    assert len(await story.events(type="root.rotated")) == 1


@pytest.mark.parametrize("role", [Role.GATE, Role.RELEASE, Role.POLICY])
async def test_what_rests_on_a_revoked_key_is_not_served_anew(story: Story, role: Role) -> None:
    first = await story.release()
    second = await story.release()
    key = story.site.key(role)
    path = f"/reef/trust/keys/{key.key_id}/revoke"
    written = await story.post("operate", path, {"reason": "its laptop was stolen"})
    assert (await key_ids(story))[key.key_id] == written["position"]
    event = (await story.events(type="key.revoked"))[0]
    assert event["actor"] == "the-operate"
    assert event["data"]["reason"] == "its laptop was stolen"
    with pytest.raises(Problem) as caught:
        await story.lever("rollback", release_id=first)
    assert "key-revoked" in caught.value.codes
    assert await story.serving() == second
    with pytest.raises(Problem) as again:
        await story.post("operate", path, {"reason": "twice"})
    assert (again.value.status, again.value.codes) == (409, ["revoked"])
    unknown = await story.ask(
        "operate", "POST", f"/reef/trust/keys/{'0' * 64}/revoke", json={"reason": "r"}
    )
    assert unknown.status_code == 404


async def test_the_service_takes_the_log_and_pointer_keys_that_its_settings_name(
    story: Story, tmp_path: Path
) -> None:
    """The way to replace the service's own keys: root first, then a restart with the new ones."""
    from reef_release.signing.keyring import new_key

    fresh = {role: new_key(role, tmp_path / role) for role in (Role.LOG, Role.POINTER)}
    added: list[PublicKey] = [key.public for key in fresh.values()]
    assert (await put(story, signed_root(story, root_keys(story), add=added))).status_code == 200
    await until(lambda: key_ids(story), lambda known: {key.key_id for key in added} <= known.keys())
    settings = {f"{role}_key": tmp_path / role / PRIVATE_NAME for role in fresh}
    async with open_story(story.site, **settings) as other:
        await other.release()
        notes = [event["data"]["note"] for event in await other.events(type="checkpoint.published")]
        assert notes
        document = (await other.current()).json()
        assert document["signatures"][0]["keyid"] == fresh[Role.POINTER].key_id
        assert other.service is not None
        assert other.service.state.violations == []
