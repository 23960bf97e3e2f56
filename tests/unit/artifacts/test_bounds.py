"""A candidate that would cost much to look into is refused before that is paid."""

from __future__ import annotations

import hashlib
from collections.abc import Generator

import pytest

from reef_release.artifacts import inspection
from reef_release.artifacts.admission import Admission, admit
from reef_release.artifacts.blobs import BlobReader
from reef_release.artifacts.directory_store import DirectoryBlobStore
from reef_release.artifacts.schema import Schema
from reef_release.artifacts.spoiling import Files
from reef_release.artifacts.twins import twin
from reef_release.domain.events import FileEntry
from tests.unit.artifacts.conftest import TENSORS, Admit, Put, weights

_MIB = 1024**2


class Counting(BlobReader):
    """A store that counts the bytes it gives out."""

    def __init__(self, store: DirectoryBlobStore) -> None:
        self._store = store
        self.read_bytes = 0

    def size_sync(self, digest: str) -> int:
        return self._store.size_sync(digest)

    def chunks_sync(
        self, digest: str, start: int = 0, stop: int | None = None
    ) -> Generator[bytes, None, None]:
        for piece in self._store.chunks_sync(digest, start, stop):
            self.read_bytes += len(piece)
            yield piece

    def read_sync(self, digest: str, limit_bytes: int) -> bytes:
        return self._store.read_sync(digest, limit_bytes)

    def read_body_sync(self, digest: str, limit_bytes: int) -> bytes:
        return self._store.read_body_sync(digest, limit_bytes)


def codes(found: Admission) -> set[str]:
    return {reason.code for reason in found.reasons}


def test_one_content_under_many_names_is_refused_and_not_read(
    put: Put, store: DirectoryBlobStore, schema: Schema, model: Files
) -> None:
    shard = _big_shard(5 * _MIB)
    store.put_bytes_sync(shard)
    digest = hashlib.sha256(shard).hexdigest()
    many = [
        FileEntry(path=f"model-{number}.safetensors", sha256=digest, size_bytes=len(shard))
        for number in range(900)
    ]
    counting = Counting(store)
    found = admit([*put(model), *many], counting, schema, kind="full")
    assert {"repeated-file", "candidate-too-large", "unknown-tensor"} <= codes(found)
    repeated = [reason for reason in found.reasons if reason.code == "repeated-file"]
    assert repeated[0].where == "model-1.safetensors"
    assert "model-0.safetensors" in repeated[0].message
    assert repeated[-1].message == "and 879 more of this kind"
    assert counting.read_bytes < 16 * _MIB


def _big_shard(size_bytes: int) -> bytes:
    header = b'{"w":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (size_bytes, size_bytes)
    return len(header).to_bytes(8, "little") + header + bytes(size_bytes)


def test_small_files_may_be_equal(admit_files: Admit, model: Files) -> None:
    assert admit_files(model | {"README.md": b"# A\n", "NOTICE": b"# A\n"}).admitted


def test_weights_beyond_the_model_are_refused_and_not_read(
    put: Put, store: DirectoryBlobStore, schema: Schema, model: Files
) -> None:
    many = {f"more-{number}.safetensors": _big_shard(_MIB + number) for number in range(20)}
    counting = Counting(store)
    found = admit(put(model | many), counting, schema, kind="full")
    assert "candidate-too-large" in codes(found)
    assert "repeated-file" not in codes(found)
    assert counting.read_bytes < 12 * _MIB
    few = dict(list(many.items())[:3])
    counting = Counting(store)
    assert "candidate-too-large" not in codes(
        admit(put(model | few), counting, schema, kind="full")
    )
    assert counting.read_bytes > 3 * _MIB


def test_what_costs_nothing_is_told_beyond_a_bound_as_well(
    admit_files: Admit, model: Files
) -> None:
    files = dict(model)
    del files["tokenizer.json"]
    found = admit_files(
        files
        | {
            "one.safetensors": _big_shard(_MIB),
            "two.safetensors": _big_shard(_MIB),
            "evil.py": b"import os",
            "chat_template.jinja": b"Say yes.",
        }
    )
    assert {
        "repeated-file",
        "code-file",
        "missing-file",
        "chat-template-changed",
        "index-missing",
    } <= codes(found)


def test_the_values_of_a_candidate_within_its_bounds_are_read(
    admit_files: Admit, model: Files, foundation: str
) -> None:
    for form in ("single", "sharded", "adapter"):
        kind = "lora" if form == "adapter" else "full"
        assert admit_files(twin(form, model, foundation), kind=kind).admitted


def test_tensors_are_counted_over_all_files(
    admit_files: Admit, model: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "MAX_TENSORS", len(TENSORS) + 3)
    scanned: list[str] = []
    whole = inspection.read_weights

    def read(path: str, *rest: object, **options: object) -> object:
        scanned.append(path)
        return whole(path, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(inspection, "read_weights", read)
    more = {
        f"more-{number}.safetensors": weights({f"w{number}.{each}": ("F32", (2,)) for each in "ab"})
        for number in range(6)
    }
    found = admit_files(model | more)
    [reason] = [reason for reason in found.reasons if reason.code == "too-many-tensors"]
    assert reason.where == "more-1.safetensors"
    assert scanned == ["model.safetensors", "more-0.safetensors", "more-1.safetensors"]
    assert "missing-tensor" not in codes(found)


def test_an_adapter_is_no_larger_than_its_model(
    put: Put, store: DirectoryBlobStore, schema: Schema, model: Files, foundation: str
) -> None:
    files = twin("adapter", model, foundation)
    files["adapter_model.safetensors"] = _big_shard(9 * _MIB)
    counting = Counting(store)
    found = admit(
        put(files),
        counting,
        schema,
        kind="lora",
        foundation=foundation,
        expected_foundation=foundation,
    )
    assert "candidate-too-large" in codes(found)
    assert counting.read_bytes < 2 * _MIB
