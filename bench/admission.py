"""How fast, and in how much memory, candidates are admitted.

    python bench/admission.py           5 GB of weights
    python bench/admission.py --short   0.6 GB

The weights are a sparse file of zeros, so the disk is not measured: what remains is hashing,
the finite scan and the reading of pages. The scan alone is measured per dtype on values like
those of a model, and on hostile ones that force its second look everywhere.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import resource
import struct
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from reef_release.artifacts.admission import admit
from reef_release.artifacts.directory_store import DirectoryBlobStore
from reef_release.artifacts.finite import first_bad_value
from reef_release.artifacts.schema import stored_schema
from reef_release.domain.events import FileEntry

_CHUNK_BYTES = 1024**2


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--short", action="store_true", help="0.6 GB instead of 5 GB")
    short = arguments.parse_args().short
    for name, dtype, chunk in _chunks():
        seconds = _timed(partial(first_bad_value, dtype, chunk), 100)
        print(f"scan {name:12} {_CHUNK_BYTES / seconds / 1e6:8.0f} MB/s")
    seconds = _timed(partial(hashlib.sha256, bytes(_CHUNK_BYTES)), 100)
    print(f"sha256            {_CHUNK_BYTES / seconds / 1e6:8.0f} MB/s")
    with tempfile.TemporaryDirectory() as directory:
        _admission(Path(directory), 600 * 10**6 if short else 5 * 10**9)


def _chunks() -> list[tuple[str, str, bytes]]:
    rng = random.Random(1)
    weights = struct.pack(
        f"<{_CHUNK_BYTES // 4}f", *(rng.gauss(0, 0.02) for _ in range(_CHUNK_BYTES // 4))
    )
    upper = bytearray(_CHUNK_BYTES)
    upper[0::4] = upper[2::4] = weights[2::4]
    upper[1::4] = upper[3::4] = weights[3::4]
    half = struct.pack(
        f"<{_CHUNK_BYTES // 2}e", *(rng.gauss(0, 0.02) for _ in range(_CHUNK_BYTES // 2))
    )
    return [
        ("F32", "F32", weights),
        ("BF16", "BF16", bytes(upper)),
        ("F16", "F16", half),
        ("F8_E4M3", "F8_E4M3", bytes(byte % 0x70 for byte in weights)),
        ("F32 hostile", "F32", struct.pack("<f", 3e38) * (_CHUNK_BYTES // 4)),
        ("BF16 hostile", "BF16", b"\x7f\x7f" * (_CHUNK_BYTES // 2)),
    ]


def _timed(run: Callable[[], object], times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        run()
    return (time.perf_counter() - start) / times


def _admission(directory: Path, data_bytes: int) -> None:
    header = json.dumps(
        {"x": {"dtype": "BF16", "shape": [data_bytes // 2], "data_offsets": [0, data_bytes]}}
    ).encode()
    weights = directory / "weights"
    with weights.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + data_bytes)
    with weights.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    store = DirectoryBlobStore(directory / "store", min_free_bytes=0)
    path = store.root / "blobs" / digest[:2] / digest[2:]
    path.parent.mkdir()
    weights.rename(path)
    config = store.put_bytes_sync(b"{}")
    files = [
        FileEntry(path="model.safetensors", sha256=digest, size_bytes=path.stat().st_size),
        FileEntry(path="config.json", sha256=config, size_bytes=2),
    ]
    schema = stored_schema(files, store)
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    found = admit(files, store, schema, kind="full")
    seconds = time.perf_counter() - start
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
    assert found.admitted, found.reasons
    print(
        f"admission of {data_bytes / 1e9:.1f} GB: {seconds:.1f} s, "
        f"{data_bytes / seconds / 1e6:.0f} MB/s, memory grew by {grown_kib // 1024} MiB"
    )


if __name__ == "__main__":
    main()
