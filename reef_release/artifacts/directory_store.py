"""The directory as a `BlobStore`: its blocking operations, run in threads.

Nothing here touches the disk itself, so there is one implementation of every operation.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, closing

from anyio import CancelScope
from anyio.to_thread import run_sync

from reef_release.artifacts.blob_directory import BlobDirectory
from reef_release.artifacts.blob_partials import PartialUpload, partial_path
from reef_release.artifacts.blobs import CHUNK_BYTES, BlobStore, Upload
from reef_release.artifacts.errors import OffsetConflict

__all__ = ["DirectoryBlobStore"]


class DirectoryBlobStore(BlobDirectory, BlobStore):
    """A `BlobStore` on a local or shared directory; see `BlobDirectory` for its settings."""

    async def put(self, digest: str, chunks: AsyncIterator[bytes]) -> int:
        """Store a streamed blob; see `BlobStore.put`."""
        writer = await run_sync(self.writer, digest)
        try:
            async with aclosing(_blocks(chunks)) as blocks:
                async for block in blocks:
                    await run_sync(writer.write, block)
            return await run_sync(writer.commit)
        finally:
            with CancelScope(shield=True):
                await run_sync(writer.discard)

    async def partial_size(self, digest: str, uploader: str = "") -> int:
        """How many bytes of an unfinished upload are kept."""
        path = partial_path(self, digest, uploader)
        try:
            return (await run_sync(path.stat)).st_size
        except FileNotFoundError:
            return 0

    async def append(
        self,
        digest: str,
        chunks: AsyncIterator[bytes],
        *,
        offset: int,
        total_bytes: int,
        uploader: str = "",
    ) -> Upload:
        """Continue an upload; see `BlobStore.append`."""
        if await self.exists(digest):
            return Upload(offset=await self.size(digest), complete=True)
        partial = PartialUpload(self, digest, uploader, total_bytes)
        await run_sync(partial.begin, offset)
        try:
            async with aclosing(_blocks(chunks)) as blocks:
                async for block in blocks:
                    offset = await run_sync(partial.write, offset, block)
            if offset < total_bytes:
                return Upload(offset=offset, complete=False)
            await run_sync(partial.finish)
        except OffsetConflict:
            # Another upload of the same digest may have finished it under our hands.
            if not await self.exists(digest):
                raise
        return Upload(offset=total_bytes, complete=True)

    async def put_bytes(self, data: bytes) -> str:
        """Store small bytes as they are; returns their digest."""
        return await run_sync(self.put_bytes_sync, data)

    async def put_body(self, body: bytes, salt: bytes | None = None) -> str:
        """Store a salted body; see `BlobStore.put_body`."""
        return await run_sync(self.put_body_sync, body, salt)

    async def exists(self, digest: str) -> bool:
        """Whether the blob is there."""
        return await run_sync(self.exists_sync, digest)

    async def size(self, digest: str) -> int:
        """Length in bytes. Raises `BlobMissing`."""
        return await run_sync(self.size_sync, digest)

    async def stream(
        self, digest: str, start: int = 0, stop: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Like `chunks_sync`, off the event loop."""
        with closing(self.chunks_sync(digest, start, stop)) as pieces:
            while piece := await run_sync(next, pieces, b""):
                yield piece

    async def read(self, digest: str, limit_bytes: int) -> bytes:
        """Like `read_sync`, off the event loop."""
        return await run_sync(self.read_sync, digest, limit_bytes)

    async def read_body(self, digest: str, limit_bytes: int) -> bytes:
        """Like `read_body_sync`, off the event loop."""
        return await run_sync(self.read_body_sync, digest, limit_bytes)

    async def erase(self, digest: str) -> bool:
        """Remove a blob for good; False when there was none."""
        return await run_sync(self.erase_sync, digest)

    async def sweep(self, *, now_s: float, max_age_s: float) -> int:
        """Remove unfinished uploads untouched for *max_age_s*; returns how many there were."""
        return await run_sync(lambda: self.sweep_sync(now_s=now_s, max_age_s=max_age_s))


async def _blocks(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The same bytes in blocks of 1 MiB: a thread per network packet would cost more than it
    writes. When the stream breaks off, what had arrived comes before the error."""
    pending = bytearray()
    try:
        async for chunk in chunks:
            pending += chunk
            while len(pending) >= CHUNK_BYTES:
                yield bytes(pending[:CHUNK_BYTES])
                del pending[:CHUNK_BYTES]
    except Exception:
        if pending:
            yield bytes(pending)
        raise
    if pending:
        yield bytes(pending)
