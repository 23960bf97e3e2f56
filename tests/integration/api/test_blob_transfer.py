"""Blobs over HTTP: whole, in parts, interrupted, in ranges; and wrong ones leave nothing."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.integration.api.server import ServerProcess
from tests.integration.api.story import Story, until

pytestmark = pytest.mark.anyio

MIB = 1024**2


def route(data: bytes) -> str:
    return f"/reef/blobs/{hashlib.sha256(data).hexdigest()}"


def files_under(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "blobs").rglob("*") if path.is_file())


def part(data: bytes, first: int, stop: int, total: int | None = None) -> dict[str, str]:
    return {"Content-Range": f"bytes {first}-{stop - 1}/{total or len(data)}"}


async def test_a_blob_is_stored_once_and_read_back(story: Story) -> None:
    data = b"some weights"
    first = await story.ask("train", "PUT", route(data), content=data)
    again = await story.ask("train", "PUT", route(data), content=data)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.headers["etag"] == again.headers["etag"] == f'"{route(data)[-64:]}"'
    read = await story.ask("audit", "GET", route(data))
    assert read.content == data
    assert read.headers["content-length"] == str(len(data))
    head = await story.ask("train", "HEAD", route(data))
    assert (head.status_code, head.headers["content-length"]) == (200, str(len(data)))
    assert head.content == b""


async def test_an_empty_blob_is_a_blob(story: Story) -> None:
    assert (await story.ask("train", "PUT", route(b""), content=b"")).status_code == 201
    read = await story.ask("audit", "GET", route(b""))
    assert (read.status_code, read.content) == (200, b"")


async def test_bytes_of_another_digest_leave_nothing_behind(story: Story) -> None:
    before = files_under(story.site.home)
    response = await story.ask("train", "PUT", route(b"these"), content=b"others")
    assert response.status_code == 400
    assert response.json()["type"].endswith(":digest-mismatch")
    assert files_under(story.site.home) == before
    assert (await story.ask("train", "HEAD", route(b"these"))).status_code == 404

    # In parts too, where the digest can only be wrong at the end.
    for first, stop, status in ((0, 3, 202), (3, 6, 400)):
        headers = part(b"others", first, stop)
        chunk = b"others"[first:stop]
        response = await story.ask("train", "PUT", route(b"these"), content=chunk, headers=headers)
        assert response.status_code == status
    assert files_under(story.site.home) == before


async def test_an_upload_in_parts_continues_where_it_stopped(story: Story) -> None:
    data = bytes(range(256)) * 40
    head = await story.ask("train", "HEAD", route(data))
    assert (head.status_code, head.headers["upload-offset"]) == (404, "0")

    first = await story.ask(
        "train", "PUT", route(data), content=data[:4000], headers=part(data, 0, 4000)
    )
    assert (first.status_code, first.headers["upload-offset"]) == (202, "4000")
    head = await story.ask("train", "HEAD", route(data))
    assert (head.status_code, head.headers["upload-offset"]) == (404, "4000")
    assert (await story.ask("audit", "GET", route(data))).status_code == 404

    rest = await story.ask(
        "train", "PUT", route(data), content=data[4000:], headers=part(data, 4000, len(data))
    )
    assert (rest.status_code, rest.headers["upload-offset"]) == (201, str(len(data)))
    assert (await story.ask("audit", "GET", route(data))).content == data


async def test_a_wrong_offset_is_409_and_names_the_right_one(story: Story) -> None:
    data = b"0123456789"
    await story.ask("train", "PUT", route(data), content=data[:4], headers=part(data, 0, 4))
    for first in (5, 3):
        response = await story.ask(
            "train", "PUT", route(data), content=data[first:8], headers=part(data, first, 8)
        )
        assert response.status_code == 409
        problem = response.json()
        assert problem["type"].endswith(":offset-conflict")
        assert problem["offset"] == 4
    response = await story.ask(
        "train", "PUT", route(data), content=data[4:], headers=part(data, 4, 10)
    )
    assert response.status_code == 201


async def test_the_parts_of_one_uploader_are_not_in_the_way_of_another(story: Story) -> None:
    data = b"0123456789"
    await story.ask("train", "PUT", route(data), content=b"zzzz", headers=part(data, 0, 4))
    head = await story.ask("operate", "HEAD", route(data))
    assert head.headers["upload-offset"] == "0"
    response = await story.ask(
        "operate", "PUT", route(data), content=data, headers=part(data, 0, 10)
    )
    assert response.status_code == 201


@pytest.mark.parametrize(
    "value",
    [
        "bytes 0-3",
        "bytes 0-3/*",
        "bytes */10",
        "bytes 3-0/10",
        "bytes 0-9/10",
        "bytes 0-2/10",
        "bytes 0-3/3",
        "bytes -3-0/10",
        "octets 0-3/10",
        "bytes 0-3/99999999999999999999999",
        "",
    ],
)
async def test_a_content_range_that_does_not_fit_is_400(standing: Story, value: str) -> None:
    whole = hashlib.sha256(value.encode()).digest()[:10]
    for given, status in ((value, 400), ("bytes 0-3/10", 202)):
        headers = {"Content-Range": given}
        response = await standing.ask(
            "train", "PUT", route(whole), content=whole[:4], headers=headers
        )
        assert response.status_code == status, response.text


async def test_a_blob_over_the_quota_is_413_before_it_is_sent(story: Story) -> None:
    headers = {"Content-Range": f"bytes 0-3/{10**18}"}
    response = await story.ask("train", "PUT", route(b"huge"), content=b"0123", headers=headers)
    assert response.status_code == 413


@pytest.mark.parametrize(
    ("wanted", "status", "span"),
    [
        ("bytes=0-0", 206, (0, 1)),
        ("bytes=2-5", 206, (2, 6)),
        ("bytes=7-", 206, (7, 10)),
        ("bytes=-3", 206, (7, 10)),
        ("bytes=-300", 206, (0, 10)),
        ("bytes=5-500", 206, (5, 10)),
        (" bytes=2-5 ", 206, (2, 6)),
        ("bytes=10-", 416, None),
        ("bytes=10-12", 416, None),
        ("bytes=-0", 416, None),
        ("bytes=999999999999-", 416, None),
        # What is no single byte range is ignored (RFC 9110 §14.2).
        ("bytes=5-3", 200, (0, 10)),
        ("bytes=0-1,4-5", 200, (0, 10)),
        ("bytes=-", 200, (0, 10)),
        ("bytes=x-y", 200, (0, 10)),
        ("lines=0-1", 200, (0, 10)),
        ("", 200, (0, 10)),
    ],
)
async def test_a_range_gives_those_bytes(
    standing: Story, wanted: str, status: int, span: tuple[int, int] | None
) -> None:
    data = b"0123456789"
    await standing.put_blob(data)
    response = await standing.ask("audit", "GET", route(data), headers={"Range": wanted})
    assert response.status_code == status
    assert response.headers["accept-ranges"] == "bytes"
    if span is None:
        assert response.headers["content-range"] == "bytes */10"
        assert response.headers["content-type"] == "application/problem+json"
        return
    assert response.content == data[slice(*span)]
    assert response.headers["content-length"] == str(span[1] - span[0])
    if status == 206:
        assert response.headers["content-range"] == f"bytes {span[0]}-{span[1] - 1}/10"


async def test_if_range_gives_the_whole_blob_unless_the_tag_is_its_own(story: Story) -> None:
    data = b"0123456789"
    await story.put_blob(data)
    etag = (await story.ask("audit", "GET", route(data))).headers["etag"]
    for tag, status in ((etag, 206), ('"other"', 200), ("Sun, 29 Nov 2026 21:00:00 GMT", 200)):
        headers = {"Range": "bytes=0-3", "If-Range": tag}
        response = await story.ask("audit", "GET", route(data), headers=headers)
        assert response.status_code == status


async def test_40_megabytes_stream_in_and_out_of_a_server_of_bounded_memory(
    running: ServerProcess,
) -> None:
    block = bytes(range(256)) * 4096
    count = 40
    digest = hashlib.sha256(block * count).hexdigest()

    async def blocks() -> AsyncIterator[bytes]:
        for _ in range(count):
            yield block

    story = running.story()
    async with story.http:
        await story.put_blob(b"the first upload loads what is needed")
        before = peak_bytes(running.pid)
        response = await story.ask("train", "PUT", f"/reef/blobs/{digest}", content=blocks())
        assert response.status_code == 201, response.text
        found = hashlib.sha256()
        headers = {"Authorization": f"Bearer {story.site.token('audit')}"}
        async with story.http.stream("GET", f"/reef/blobs/{digest}", headers=headers) as read:
            async for piece in read.aiter_bytes():
                found.update(piece)
        assert found.hexdigest() == digest
        assert peak_bytes(running.pid) - before < 20 * MIB


async def test_an_upload_survives_a_lost_connection_and_a_killed_server(
    running: ServerProcess,
) -> None:
    data = bytes(range(256)) * 4096 * 8

    async def breaks_off() -> AsyncIterator[bytes]:
        yield data[: 3 * MIB]
        raise ConnectionError("the trainer's network is gone")

    async def stored() -> int:
        head = await story.ask("train", "HEAD", route(data))
        return int(head.headers["upload-offset"])

    story = running.story()
    async with story.http:
        headers = {"Content-Range": f"bytes 0-{len(data) - 1}/{len(data)}"}
        with pytest.raises(ConnectionError):
            await story.ask("train", "PUT", route(data), content=breaks_off(), headers=headers)
        await until(stored)
        running.kill()
        running.restart()
        offset = await stored()
        assert 0 < offset <= 3 * MIB
        response = await story.ask(
            "train",
            "PUT",
            route(data),
            content=data[offset:],
            headers=part(data, offset, len(data)),
        )
        assert response.status_code == 201, response.text
        assert (await story.ask("audit", "GET", route(data))).content == data


async def test_a_refused_upload_leaves_the_connection_usable(running: ServerProcess) -> None:
    data = b"x" * (4 * MIB)
    story = running.story()
    async with story.http:
        await story.put_blob(data)
        for _ in range(3):
            again = await story.ask("train", "PUT", route(data), content=data)
            assert again.status_code == 200
            wrong = await story.ask("train", "PUT", route(b"other"), content=data)
            assert wrong.status_code == 400
            forbidden = await story.ask("serve", "PUT", route(data), content=data)
            assert forbidden.status_code == 403


def peak_bytes(pid: int) -> int:
    """The largest resident size that a process has had."""
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


async def test_a_damaged_blob_breaks_off_instead_of_ending_well(running: ServerProcess) -> None:
    data = b"y" * (2 * MIB)
    story = running.story()
    async with story.http:
        digest = await story.put_blob(data)
        assert (await story.ask("audit", "GET", route(data))).content == data
        path = story.site.home / "blobs" / "blobs" / digest[:2] / digest[2:]
        path.chmod(0o600)
        with path.open("r+b") as file:
            file.seek(MIB + 7)
            file.write(b"n")
        with pytest.raises(httpx.RemoteProtocolError):
            await story.ask("audit", "GET", route(data))
