"""Many at once: whoever waits for others is not told that something stands against them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from reef_release.domain.canonical import sha256_hex
from reef_release.tokens import Principal, TokenRole
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import Site, Story, until

pytestmark = pytest.mark.anyio

SUBMISSIONS = 64
MIB = 1024**2


def trainer(site: Site, number: int) -> dict[str, str]:
    """The headers of one of many trainers."""
    who = Principal(name=f"trainer-{number}", role=TokenRole.TRAIN, scenario=None)
    return {"Authorization": f"Bearer {site.tokens.issue(who)}"}


async def test_submissions_and_levers_at_two_services_at_once_all_get_through(
    pair: tuple[Story, Story],
) -> None:
    one, two = pair
    manifests = [await one.manifest() for _ in range(SUBMISSIONS)]
    doomed = [(await one.submit())["candidate_id"] for _ in range(4)]
    found: dict[str, list[int]] = {"submit": [], "lever": [], "revoke": []}
    told: list[str] = []

    async def post(what: str, story: Story, path: str, body: Any, **options: Any) -> None:
        answer = await story.ask(
            None if options else "operate",
            "POST",
            path,
            content=msgspec.json.encode(body),
            **options,
        )
        found[what].append(answer.status_code)
        if answer.status_code >= 400:
            told.append(answer.text)

    async def submit(number: int) -> None:
        story = pair[number % 2]
        await post(
            "submit",
            story,
            story.path("candidates") + "?wait=0",
            manifests[number],
            headers=trainer(one.site, number),
        )

    async def levers() -> None:
        for number in range(6):
            story, name = pair[number // 2 % 2], ("hold", "resume")[number % 2]
            await post("lever", story, story.path(name), {"reason": "a look"})

    async def revoke(number: int) -> None:
        story = pair[number % 2]
        path = story.path("candidates", doomed[number], "revoke")
        await post("revoke", story, path, {"reason": "leaked"})

    async with anyio.create_task_group() as group:
        for number in range(SUBMISSIONS):
            group.start_soon(submit, number)
        group.start_soon(levers)
        for number in range(len(doomed)):
            group.start_soon(revoke, number)
    assert told == []
    assert {what: len(each) for what, each in found.items()} == {
        "submit": SUBMISSIONS,
        "lever": 6,
        "revoke": 4,
    }
    submitted = Counter(
        event["data"]["candidate_id"] for event in await one.events(type="candidate.submitted")
    )
    assert len(submitted) == SUBMISSIONS + len(doomed) + 1
    assert set(submitted.values()) == {1}
    revoked = [
        event["data"]["candidate_id"] for event in await two.events(type="candidate.revoked")
    ]
    assert sorted(revoked) == sorted(doomed)
    assert len(await two.events(type="scenario.held")) == 3
    assert len(await two.events(type="scenario.resumed")) == 3
    for story in pair:
        assert (await story.ask(None, "GET", "/readyz")).json()["violations"] == 0


# Floods


async def hang_up(story: Story, digest: str, data: bytes, headers: dict[str, str]) -> None:
    """Send half of an upload, then drop the connection."""
    url = story.http.base_url
    async with await anyio.connect_tcp(url.host, url.port or 80) as connection:
        lines = [f"PUT /reef/blobs/{digest} HTTP/1.1", "Host: reef", f"Content-Length: {len(data)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        await connection.send("\r\n".join([*lines, "", ""]).encode() + data[: len(data) // 2])


async def test_a_flood_of_uploads_leaves_whole_blobs_and_nothing_else(site: Site) -> None:
    with ServerProcess(site, blob_limit_bytes=str(2 * MIB)) as server:
        story = server.story()
        answers: Counter[tuple[str, int]] = Counter()

        async def upload(number: int) -> None:
            kind = ("whole", "cut", "wrong", "large")[number % 4]
            data = number.to_bytes(4, "big") * (MIB // 2 if kind != "large" else MIB)
            digest = sha256_hex(data if kind != "wrong" else b"%d" % number)
            headers = trainer(site, number)
            if kind == "cut":
                await hang_up(story, digest, data, headers)
                return
            path = f"/reef/blobs/{digest}"
            answer = await story.ask(None, "PUT", path, content=data, headers=headers)
            answers[kind, answer.status_code] += 1

        async with story.http:
            async with anyio.create_task_group() as group:
                for number in range(80):
                    group.start_soon(upload, number)
            assert answers == {("whole", 201): 20, ("wrong", 400): 20, ("large", 413): 20}
            blobs = site.home / "blobs"

            async def unfinished() -> list[Path]:
                return [*(blobs / "incoming").iterdir(), *(blobs / "partial").iterdir()]

            await until(unfinished, lambda left: not left)
        stored = [path for path in (blobs / "blobs").rglob("*") if path.is_file()]
        assert len(stored) == 20
        for path in stored:
            assert sha256_hex(path.read_bytes()) == path.parent.name + path.name


async def test_of_a_flood_of_submissions_what_is_taken_stands_in_the_log_once(site: Site) -> None:
    with ServerProcess(site, submissions_per_day="3") as server:
        story = server.story()
        async with story.http:
            await story.create_scenario()
            await story.release()
            manifests = [await story.manifest() for _ in range(40)]
            taken: list[str] = []
            refused: list[int] = []

            async def submit(number: int) -> None:
                answer = await story.ask(
                    None,
                    "POST",
                    story.path("candidates"),
                    json=manifests[number],
                    params={"wait": 0},
                    headers=trainer(site, number % 8),
                )
                if answer.status_code == 429:
                    refused.append(int(answer.headers["Retry-After"]))
                else:
                    taken.append(answer.json()["candidate_id"])

            async with anyio.create_task_group() as group:
                for number in range(len(manifests)):
                    group.start_soon(submit, number)
            assert (len(taken), len(refused)) == (8 * 3, 8 * 2)
            events = await story.events(type="candidate.submitted")
            assert Counter(event["data"]["candidate_id"] for event in events[1:]) == Counter(taken)

            async def waiting() -> list[Any]:
                path, params = story.path("candidates"), {"status": "submitted"}
                found = await story.get("audit", path, params=params)
                return list(found["candidates"])

            await until(waiting, lambda left: not left)
            assert len(await story.events(type="candidate.admitted")) == 1 + len(taken)
