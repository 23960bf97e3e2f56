from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from reef_release.artifacts.blobs import CHUNK_BYTES, Upload
from reef_release.artifacts.directory_store import DirectoryBlobStore
from reef_release.artifacts.errors import (
    BlobTooLarge,
    DigestMismatch,
    DiskFull,
    OffsetConflict,
)

pytestmark = pytest.mark.anyio

CONTENT = bytes(range(256)) * 20_000  # almost five chunks
DIGEST = hashlib.sha256(CONTENT).hexdigest()


async def pieces(content: bytes, size_bytes: int = 65_536) -> AsyncIterator[bytes]:
    for at in range(0, len(content), size_bytes):
        await anyio.lowlevel.checkpoint()
        yield content[at : at + size_bytes]


async def broken(content: bytes) -> AsyncIterator[bytes]:
    async for piece in pieces(content):
        yield piece
    raise ConnectionError("the client went away")


def partials(store: DirectoryBlobStore) -> list[Path]:
    return list((store.root / "partial").iterdir())


async def test_an_upload_goes_on_where_it_stopped(store: DirectoryBlobStore) -> None:
    half = len(CONTENT) // 2
    first = await store.append(DIGEST, pieces(CONTENT[:half]), offset=0, total_bytes=len(CONTENT))
    assert first == Upload(offset=half, complete=False)
    assert await store.partial_size(DIGEST) == half
    assert not await store.exists(DIGEST)

    second = await store.append(
        DIGEST, pieces(CONTENT[half:]), offset=half, total_bytes=len(CONTENT)
    )

    assert second == Upload(offset=len(CONTENT), complete=True)
    assert await store.read(DIGEST, len(CONTENT)) == CONTENT
    assert await store.partial_size(DIGEST) == 0
    assert partials(store) == []


async def test_what_arrived_before_the_connection_broke_is_kept(
    store: DirectoryBlobStore,
) -> None:
    sent = CHUNK_BYTES + 100_000
    with pytest.raises(ConnectionError):
        await store.append(DIGEST, broken(CONTENT[:sent]), offset=0, total_bytes=len(CONTENT))
    assert await store.partial_size(DIGEST) == sent


async def test_an_upload_that_broke_after_its_last_byte_is_finished_by_an_empty_one(
    store: DirectoryBlobStore,
) -> None:
    with pytest.raises(ConnectionError):
        await store.append(DIGEST, broken(CONTENT), offset=0, total_bytes=len(CONTENT))
    assert not await store.exists(DIGEST)
    done = await store.append(DIGEST, pieces(b""), offset=len(CONTENT), total_bytes=len(CONTENT))
    assert done.complete


async def test_an_empty_blob_can_be_uploaded_this_way_too(store: DirectoryBlobStore) -> None:
    digest = hashlib.sha256(b"").hexdigest()
    assert (await store.append(digest, pieces(b""), offset=0, total_bytes=0)).complete
    assert await store.exists(digest)


async def test_an_append_elsewhere_is_a_conflict_that_tells_the_right_offset(
    store: DirectoryBlobStore,
) -> None:
    total = len(CONTENT)
    await store.append(DIGEST, pieces(CONTENT[:1000]), offset=0, total_bytes=total)
    for wrong in (0, 999, 1001, total):
        with pytest.raises(OffsetConflict, match="Continue at byte 1000") as caught:
            await store.append(DIGEST, pieces(CONTENT[wrong:]), offset=wrong, total_bytes=total)
        assert caught.value.offset == 1000
    with pytest.raises(OffsetConflict) as caught:
        await store.append(
            "0" * 64, pieces(CONTENT[:10]), offset=10, total_bytes=total, uploader="other"
        )
    assert caught.value.offset == 0
    assert len(partials(store)) == 1


async def test_a_resumed_range_of_another_file_never_becomes_a_blob(
    store: DirectoryBlobStore,
) -> None:
    total = len(CONTENT)
    await store.append(DIGEST, pieces(b"?" * 1000), offset=0, total_bytes=total)
    with pytest.raises(DigestMismatch, match="nothing was stored"):
        await store.append(DIGEST, pieces(CONTENT[1000:]), offset=1000, total_bytes=total)
    assert not await store.exists(DIGEST)
    assert partials(store) == []
    done = await store.append(DIGEST, pieces(CONTENT), offset=0, total_bytes=total)
    assert done.complete


async def test_two_clients_that_resume_one_upload_both_finish(
    store: DirectoryBlobStore,
) -> None:
    total, results, both = len(CONTENT), [], anyio.Event()
    await store.append(DIGEST, pieces(CONTENT[:500]), offset=0, total_bytes=total)
    begun = []

    async def together() -> AsyncIterator[bytes]:
        begun.append(True)
        if len(begun) == 2:
            both.set()
        await both.wait()
        async for piece in pieces(CONTENT[500:]):
            yield piece

    async def resume() -> None:
        results.append(await store.append(DIGEST, together(), offset=500, total_bytes=total))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(resume)
        tasks.start_soon(resume)
    assert [each.complete for each in results] == [True, True]
    assert await store.read(DIGEST, total) == CONTENT
    assert partials(store) == []


async def test_a_client_that_stalls_blocks_nobody(store: DirectoryBlobStore) -> None:
    total, stalled, go_on = len(CONTENT), anyio.Event(), anyio.Event()
    outcomes = []

    async def stalling() -> AsyncIterator[bytes]:
        yield CONTENT[:CHUNK_BYTES]
        stalled.set()
        await go_on.wait()
        yield CONTENT[CHUNK_BYTES:]

    async def stall() -> None:
        outcomes.append(await store.append(DIGEST, stalling(), offset=0, total_bytes=total))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stall)
        await stalled.wait()
        done = await store.append(
            DIGEST, pieces(CONTENT[CHUNK_BYTES:]), offset=CHUNK_BYTES, total_bytes=total
        )
        assert done.complete
        go_on.set()
    assert outcomes == [Upload(offset=total, complete=True)]


async def test_a_client_that_sends_other_bytes_under_the_same_name_spoils_no_blob(
    store: DirectoryBlobStore,
) -> None:
    total, errors = len(CONTENT), []

    async def send(content: bytes) -> None:
        try:
            await store.append(DIGEST, pieces(content), offset=0, total_bytes=total)
        except (DigestMismatch, OffsetConflict) as error:
            errors.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send, CONTENT)
        tasks.start_soon(send, b"!" * total)
    if await store.exists(DIGEST):
        assert await store.read(DIGEST, total) == CONTENT
    else:
        assert len(errors) == 2


async def test_a_strangers_partial_is_not_in_the_way(store: DirectoryBlobStore) -> None:
    total = len(CONTENT)
    await store.append(
        DIGEST, pieces(b"?" * 1000), offset=0, total_bytes=total, uploader="stranger"
    )
    assert await store.partial_size(DIGEST, "owner") == 0
    done = await store.append(
        DIGEST, pieces(CONTENT), offset=0, total_bytes=total, uploader="owner"
    )
    assert done.complete


async def test_an_upload_of_what_is_there_already_is_complete_at_once(
    store: DirectoryBlobStore,
) -> None:
    await store.put_bytes(CONTENT)
    state = await store.append(DIGEST, pieces(b""), offset=7, total_bytes=len(CONTENT))
    assert state == Upload(offset=len(CONTENT), complete=True)


async def test_more_bytes_than_announced_are_refused(store: DirectoryBlobStore) -> None:
    with pytest.raises(BlobTooLarge, match="announced 10 bytes"):
        await store.append(DIGEST, pieces(CONTENT[:11]), offset=0, total_bytes=10)


async def test_an_upload_announced_over_the_quota_takes_no_byte(tmp_path: Path) -> None:
    store = DirectoryBlobStore(tmp_path, max_blob_bytes=100, min_free_bytes=0)
    with pytest.raises(BlobTooLarge):
        await store.append(DIGEST, pieces(CONTENT), offset=0, total_bytes=101)
    assert partials(store) == []


async def test_an_upload_announced_over_the_free_disk_takes_no_byte(tmp_path: Path) -> None:
    store = DirectoryBlobStore(tmp_path, min_free_bytes=50, free_bytes=lambda _path: 100)
    with pytest.raises(DiskFull, match="Free disk space"):
        await store.append(DIGEST, pieces(CONTENT), offset=0, total_bytes=51)
    assert partials(store) == []


async def test_a_partial_longer_than_announced_is_begun_again(store: DirectoryBlobStore) -> None:
    await store.append(DIGEST, pieces(b"?" * 50), offset=0, total_bytes=100)
    with pytest.raises(OffsetConflict) as caught:
        await store.append(DIGEST, pieces(b""), offset=50, total_bytes=40)
    assert caught.value.offset == 0
    assert partials(store) == []
