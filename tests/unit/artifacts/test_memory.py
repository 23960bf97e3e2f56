"""A candidate larger than memory is admitted in little of it."""

from __future__ import annotations

import hashlib
import json
import struct
import tracemalloc
from pathlib import Path

from reef_release.artifacts.admission import admit
from reef_release.artifacts.directory_store import DirectoryBlobStore
from reef_release.artifacts.schema import stored_schema
from reef_release.artifacts.spoiling import Files
from reef_release.domain.events import FileEntry

_DATA_BYTES = 600 * 10**6


def test_600_mb_are_admitted_within_64_mib(
    store: DirectoryBlobStore, model: Files, tmp_path: Path
) -> None:
    header = json.dumps(
        {
            "a": {
                "dtype": "BF16",
                "shape": [_DATA_BYTES // 4],
                "data_offsets": [0, _DATA_BYTES // 2],
            },
            "b": {
                "dtype": "F32",
                "shape": [_DATA_BYTES // 8],
                "data_offsets": [_DATA_BYTES // 2, _DATA_BYTES],
            },
        }
    ).encode()
    weights = tmp_path / "weights"
    with weights.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        # Sparse: zeros that take no disk and read as fast as memory.
        file.truncate(8 + len(header) + _DATA_BYTES)
    with weights.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    path = store.root / "blobs" / digest[:2] / digest[2:]
    path.parent.mkdir()
    weights.rename(path)
    small = {name: content for name, content in model.items() if name != "model.safetensors"}
    files = [
        FileEntry(path=name, sha256=store.put_bytes_sync(content), size_bytes=len(content))
        for name, content in small.items()
    ]
    files.append(FileEntry(path="model.safetensors", sha256=digest, size_bytes=path.stat().st_size))

    tracemalloc.start()
    schema = stored_schema(files, store)
    found = admit(files, store, schema, kind="full")
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert found.reasons == ()
    assert found.size_bytes > _DATA_BYTES
    assert peak_bytes < 64 * 1024**2
