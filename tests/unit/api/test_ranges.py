"""Which bytes a Range header means."""

from __future__ import annotations

from pathlib import Path

import pytest
from litestar.exceptions import HTTPException

from reef_release.api.ranges import stream_blob
from reef_release.artifacts.directory_store import DirectoryBlobStore
from reef_release.artifacts.errors import BlobMissing

pytestmark = pytest.mark.anyio


@pytest.fixture
def blobs(tmp_path: Path) -> DirectoryBlobStore:
    return DirectoryBlobStore(tmp_path, min_free_bytes=0)


async def answer(blobs: DirectoryBlobStore, data: bytes, **headers: str) -> tuple[int, bytes]:
    digest = await blobs.put_bytes(data)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        stream = await stream_blob(blobs, digest, named)
    except HTTPException as error:
        return error.status_code, (error.headers or {})["Content-Range"].encode()
    assert stream.headers["ETag"] == f'"{digest}"'
    content = b"".join([piece async for piece in stream.iterator])  # type: ignore[union-attr]
    assert stream.headers["Content-Length"] == str(len(content))
    return stream.status_code or 200, content


@pytest.mark.parametrize("first", range(4))
@pytest.mark.parametrize("last", range(4))
async def test_every_range_of_a_small_blob_is_cut_right(
    blobs: DirectoryBlobStore, first: int, last: int
) -> None:
    status, content = await answer(blobs, b"abcd", range=f"bytes={first}-{last}")
    if first > last:
        assert (status, content) == (200, b"abcd")
    else:
        assert (status, content) == (206, b"abcd"[first : last + 1])


async def test_no_range_of_an_empty_blob_can_be_satisfied(blobs: DirectoryBlobStore) -> None:
    assert await answer(blobs, b"") == (200, b"")
    for wanted in ("bytes=0-", "bytes=0-0", "bytes=-1", "bytes=-0"):
        assert await answer(blobs, b"", range=wanted) == (416, b"bytes */0")


@pytest.mark.parametrize("wanted", ["bytes=٣-٤", "bytes=0-3 ", "bytes= 0-3", "bytes=0", "0-3"])
async def test_odd_spellings_are_no_range(blobs: DirectoryBlobStore, wanted: str) -> None:
    status, content = await answer(blobs, b"abcd", range=wanted)
    assert content == b"abcd"
    assert status == (206 if wanted == "bytes=0-3 " else 200)


async def test_a_range_counts_only_for_the_blob_that_if_range_names(
    blobs: DirectoryBlobStore,
) -> None:
    assert await answer(blobs, b"abcd", range="bytes=1-2", if_range='"x"') == (200, b"abcd")
    digest = await blobs.put_bytes(b"abcd")
    status, content = await answer(blobs, b"abcd", range="bytes=1-2", if_range=f'"{digest}"')
    assert (status, content) == (206, b"bc")


async def test_a_missing_blob_is_missing_before_anything_is_sent(
    blobs: DirectoryBlobStore,
) -> None:
    with pytest.raises(BlobMissing):
        await stream_blob(blobs, "0" * 64, {})
