from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from reef_release.artifacts import blob_directory
from reef_release.artifacts.blobs import CHUNK_BYTES, SALT_BYTES, BlobStore
from reef_release.artifacts.directory_store import DirectoryBlobStore
from reef_release.artifacts.errors import (
    BlobCorrupt,
    BlobMissing,
    BlobTooLarge,
    DigestMismatch,
    DiskFull,
)
from reef_release.errors import BadRequest

pytestmark = pytest.mark.anyio

CONTENT = bytes(range(256)) * 9000  # more than two chunks


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


async def streamed(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        await anyio.lowlevel.checkpoint()
        yield piece


def in_pieces(content: bytes, size_bytes: int = 70_001) -> AsyncIterator[bytes]:
    return streamed(content[at : at + size_bytes] for at in range(0, len(content), size_bytes))


def files_in(store: DirectoryBlobStore) -> list[Path]:
    return [path for path in store.root.rglob("*") if path.is_file()]


async def test_a_streamed_blob_reads_back_whole_and_in_parts(store: BlobStore) -> None:
    digest = digest_of(CONTENT)
    assert await store.put(digest, in_pieces(CONTENT)) == len(CONTENT)
    assert await store.exists(digest)
    assert await store.size(digest) == store.size_sync(digest) == len(CONTENT)
    assert await store.read(digest, len(CONTENT)) == CONTENT
    assert b"".join([piece async for piece in store.stream(digest)]) == CONTENT
    assert b"".join([piece async for piece in store.stream(digest, 5, 9)]) == CONTENT[5:9]
    assert b"".join(store.chunks_sync(digest, 7)) == CONTENT[7:]
    assert max([len(piece) for piece in store.chunks_sync(digest)]) == CHUNK_BYTES


async def test_the_empty_blob_is_a_blob(store: BlobStore) -> None:
    digest = digest_of(b"")
    await store.put(digest, streamed([]))
    assert [piece async for piece in store.stream(digest)] == []
    assert await store.read(digest, 0) == b""


async def test_bytes_under_a_wrong_digest_are_refused_and_leave_nothing(
    store: DirectoryBlobStore,
) -> None:
    digest = digest_of(b"something else")
    with pytest.raises(DigestMismatch, match=digest_of(CONTENT)):
        await store.put(digest, in_pieces(CONTENT))
    assert not await store.exists(digest)
    assert files_in(store) == []


async def test_nothing_is_visible_before_the_last_byte(store: DirectoryBlobStore) -> None:
    digest, seen = digest_of(CONTENT), []

    async def watched() -> AsyncIterator[bytes]:
        async for piece in in_pieces(CONTENT):
            yield piece
            seen.append(await store.exists(digest))

    await store.put(digest, watched())
    assert not any(seen)
    assert await store.exists(digest)


async def test_a_stream_that_breaks_off_leaves_nothing(store: DirectoryBlobStore) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield CONTENT
        raise ConnectionError("the client went away")

    with pytest.raises(ConnectionError):
        await store.put(digest_of(CONTENT), broken())
    assert files_in(store) == []


async def test_a_cancelled_upload_leaves_nothing(store: DirectoryBlobStore) -> None:
    started = anyio.Event()

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield bytes(CHUNK_BYTES)
            started.set()
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(store.put, digest_of(CONTENT), endless())
        await started.wait()
        tasks.cancel_scope.cancel()
    assert files_in(store) == []


async def test_many_may_upload_the_same_blob_at_once(store: DirectoryBlobStore) -> None:
    digest = digest_of(CONTENT)
    async with anyio.create_task_group() as tasks:
        for number in range(6):
            tasks.start_soon(store.put, digest, in_pieces(CONTENT, 50_000 + number))
    assert await store.read(digest, len(CONTENT)) == CONTENT
    assert len(files_in(store)) == 1


async def test_a_blob_over_the_quota_is_refused_before_it_fills_the_disk(tmp_path: Path) -> None:
    store = DirectoryBlobStore(tmp_path, max_blob_bytes=2 * CHUNK_BYTES, min_free_bytes=0)
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        while True:
            taken += CHUNK_BYTES
            yield bytes(CHUNK_BYTES)

    with pytest.raises(BlobTooLarge, match=str(2 * CHUNK_BYTES)):
        await store.put(digest_of(CONTENT), endless())
    assert taken <= 3 * CHUNK_BYTES
    assert files_in(store) == []


async def test_an_upload_that_would_take_the_last_free_disk_is_refused(tmp_path: Path) -> None:
    free = [10 * CHUNK_BYTES]
    store = DirectoryBlobStore(
        tmp_path, min_free_bytes=8 * CHUNK_BYTES, free_bytes=lambda _path: free[0]
    )
    digest = digest_of(CONTENT)
    await store.put(digest, in_pieces(CONTENT))
    free[0] = 8 * CHUNK_BYTES
    with pytest.raises(DiskFull, match="kept back"):
        await store.put(digest, in_pieces(CONTENT))
    assert await store.read(digest, len(CONTENT)) == CONTENT


async def test_a_blob_is_synced_before_it_is_visible_and_its_directory_after(
    store: DirectoryBlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest, calls = digest_of(CONTENT), []
    sync = os.fsync

    def fsync(descriptor: int) -> None:
        name = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        calls.append((name.is_dir(), store.exists_sync(digest)))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    await store.put(digest, in_pieces(CONTENT))
    assert (False, False) in calls
    assert calls[-1] == (True, True)


async def test_a_crash_after_the_sync_and_before_the_rename_leaves_no_blob(
    store: DirectoryBlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = digest_of(CONTENT)

    def crash(_self: Path, _target: Path) -> None:
        raise OSError("the power went")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", crash)
        with pytest.raises(OSError, match="power"):
            await store.put(digest, in_pieces(CONTENT))
    assert not await store.exists(digest)
    await store.put(digest, in_pieces(CONTENT))
    assert await store.exists(digest)


def damage(store: DirectoryBlobStore, digest: str, content: bytes) -> None:
    [path] = [path for path in files_in(store) if path.name == digest[2:]]
    path.unlink()
    path.write_bytes(content)


async def test_a_blob_that_changed_on_disk_is_never_given_out_whole(
    store: DirectoryBlobStore,
) -> None:
    digest = digest_of(CONTENT)
    await store.put(digest, in_pieces(CONTENT))
    damage(store, digest, CONTENT[:-1] + b"!")
    with pytest.raises(BlobCorrupt, match="on disk"):
        await store.read(digest, len(CONTENT))
    received = []

    async def receive() -> None:
        async for piece in store.stream(digest):
            received.append(piece)

    with pytest.raises(BlobCorrupt):
        await receive()
    assert len(b"".join(received)) < len(CONTENT)


async def test_a_blob_cut_to_nothing_is_corrupt_and_not_empty(store: DirectoryBlobStore) -> None:
    digest = digest_of(CONTENT)
    await store.put(digest, in_pieces(CONTENT))
    damage(store, digest, b"")
    with pytest.raises(BlobCorrupt):
        await store.read(digest, len(CONTENT))


async def test_uploading_a_damaged_blob_again_mends_it(store: DirectoryBlobStore) -> None:
    digest = digest_of(CONTENT)
    await store.put(digest, in_pieces(CONTENT))
    damage(store, digest, b"rust")
    await store.put(digest, in_pieces(CONTENT))
    assert await store.read(digest, len(CONTENT)) == CONTENT


async def test_a_whole_read_has_a_limit(store: BlobStore) -> None:
    digest = await store.put_bytes(b"four")
    with pytest.raises(BlobTooLarge, match="at most 3"):
        await store.read(digest, 3)


async def test_a_blob_that_was_never_uploaded_is_missing(store: BlobStore) -> None:
    for read in (store.size(digest_of(b"x")), store.read(digest_of(b"x"), 9)):
        with pytest.raises(BlobMissing, match="Upload it"):
            await read
    with pytest.raises(BlobMissing):
        _ = [piece async for piece in store.stream(digest_of(b"x"))]


@pytest.mark.parametrize("bad", ["", "abc", "../" * 21 + "x", "A" * 64, "0" * 63 + "/", "0" * 65])
async def test_only_a_digest_names_a_blob(store: BlobStore, bad: str) -> None:
    with pytest.raises(BadRequest, match="64 lowercase hex"):
        await store.read(bad, 1)
    with pytest.raises(BadRequest):
        await store.put(bad, streamed([b""]))
    with pytest.raises(BadRequest):
        await store.append(bad, streamed([b""]), offset=0, total_bytes=0)
    with pytest.raises(BadRequest):
        await store.erase(bad)


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (3, 2), (0, 5), (5, 5)])
async def test_a_range_outside_the_blob_is_refused(store: BlobStore, start: int, stop: int) -> None:
    digest = await store.put_bytes(b"four")
    with pytest.raises(BadRequest, match="outside"):
        _ = [piece async for piece in store.stream(digest, start, stop)]


async def test_the_digest_of_a_salted_body_cannot_be_guessed_from_its_text(
    store: DirectoryBlobStore,
) -> None:
    text = b"yes"
    first, second = await store.put_body(text), await store.put_body(text)
    assert first != second
    assert digest_of(text) not in {first, second}
    assert await store.read_body(first, 3) == store.read_body_sync(second, 3) == text
    stored = await store.read(first, 1000)
    assert len(stored) == SALT_BYTES + len(text)
    assert digest_of(stored) == first


async def test_the_limit_of_a_salted_read_is_that_of_the_body(store: BlobStore) -> None:
    digest = await store.put_body(b"four")
    assert await store.read_body(digest, 4) == b"four"
    with pytest.raises(BlobTooLarge):
        await store.read_body(digest, 3)


async def test_a_blob_without_room_for_a_salt_is_no_body(store: BlobStore) -> None:
    digest = await store.put_bytes(b"short")
    with pytest.raises(BlobCorrupt, match="shorter than a salt"):
        await store.read_body(digest, 100)


async def test_the_salt_comes_from_the_source_that_was_given(tmp_path: Path) -> None:
    store = DirectoryBlobStore(tmp_path, min_free_bytes=0, random_bytes=lambda size: b"s" * size)
    digest = await store.put_body(b"body")
    assert digest == digest_of(b"s" * SALT_BYTES + b"body")


async def test_an_erased_body_is_gone_and_erasing_again_says_so(
    store: DirectoryBlobStore,
) -> None:
    digest = await store.put_body(b"a secret")
    assert await store.erase(digest)
    assert not await store.erase(digest)
    with pytest.raises(BlobMissing, match="erased"):
        await store.read_body(digest, 100)
    assert files_in(store) == []


async def test_the_sweep_removes_old_unfinished_writes_and_no_blob(
    store: DirectoryBlobStore,
) -> None:
    digest = await store.put_bytes(b"kept")
    await store.append(digest_of(CONTENT), streamed([b"half"]), offset=0, total_bytes=100)
    [partial] = [path for path in files_in(store) if path.parent.name == "partial"]
    os.utime(partial, (1000, 1000))
    assert await store.sweep(now_s=1059, max_age_s=60) == 0
    assert await store.sweep(now_s=1060, max_age_s=60) == 1
    assert await store.read(digest, 9) == b"kept"
    assert len(files_in(store)) == 1


async def test_a_symbolic_link_in_the_store_is_not_followed(
    store: DirectoryBlobStore, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"secret")
    digest = await store.put_bytes(b"x")
    [path] = files_in(store)
    path.unlink()
    path.symlink_to(outside)
    with pytest.raises(OSError, match="symbolic"):
        await store.read(digest, 100)


def test_free_disk_is_that_of_the_file_system(tmp_path: Path) -> None:
    assert blob_directory.free_bytes(tmp_path) > 0
