"""Attacks on the weights files of a full model: the format, the tensors, the index."""

from __future__ import annotations

import gzip
import json

from reef_release.artifacts import spoilt_weights as spoilt
from reef_release.artifacts.file_rules import INDEX
from reef_release.artifacts.spoiling import (
    BadCandidate,
    Change,
    Form,
    Spoil,
    bytes_of,
    weights_of,
)
from reef_release.artifacts.twins import FIRST_SHARD, LAST_SHARD

__all__ = ["BAD_WEIGHTS"]


def _bad(name: str, code: str, spoil: Spoil, form: Form = "single") -> BadCandidate:
    return BadCandidate(name=name, code=code, spoil=spoil, form=form)


def _format(name: str, code: str, change: Change) -> BadCandidate:
    return _bad(name, code, weights_of(change))


def _mapped(shard: str | None = None, **metadata: int) -> Spoil:
    """The index with its first tensor mapped elsewhere, or with other metadata."""

    def change(raw: bytes) -> bytes:
        index = json.loads(raw)
        index["metadata"] |= metadata
        if shard is not None:
            in_first = min(
                name for name, path in index["weight_map"].items() if path == FIRST_SHARD
            )
            index["weight_map"][in_first] = shard
        return json.dumps(index).encode()

    return bytes_of(change, INDEX)


BAD_WEIGHTS: tuple[BadCandidate, ...] = (
    _bad("trailing-byte", "trailing-bytes", bytes_of(lambda raw: raw + b"\0")),
    _bad("file-cut-short", "truncated", bytes_of(lambda raw: raw[:-1])),
    _bad("file-of-seven-bytes", "truncated", bytes_of(lambda raw: raw[:7])),
    _bad(
        "length-prefix-of-2-to-the-64-less-1",
        "header-too-long",
        bytes_of(lambda raw: b"\xff" * 8 + raw[8:]),
    ),
    _bad(
        "header-longer-than-the-file",
        "header-too-long",
        bytes_of(lambda raw: len(raw).to_bytes(8, "little") + raw[8:]),
    ),
    _bad(
        "bomb-in-place-of-weights", "archive", bytes_of(lambda _raw: gzip.compress(bytes(1 << 20)))
    ),
    _format("two-tensors-at-the-same-offsets", "overlapping-tensors", spoilt.same_offsets),
    _format("hole-between-tensors", "hole-between-tensors", spoilt.hole),
    _format("a-million-empty-tensors", "header-too-long", spoilt.empty_tensors(1_000_000)),
    _format("130-000-empty-tensors", "too-many-tensors", spoilt.empty_tensors(130_000)),
    _format("key-twice-inside-metadata", "duplicate-key", spoilt.repeated_metadata_key),
    _format("tensor-listed-twice", "duplicate-key", spoilt.listed_twice),
    _format(
        "shape-of-2-to-the-40-squared",
        "shape-overflow",
        spoilt.first_entry(shape=[2**40, 2**40]),
    ),
    _format("extra-field-in-an-entry", "unknown-field", spoilt.first_entry(note="hello")),
    _format("tensor-name-with-a-path", "bad-tensor-name", spoilt.with_name("../../x")),
    _format("tensor-name-with-nul", "bad-tensor-name", spoilt.with_name("a\0b")),
    _format("no-tensor-at-all", "no-tensors", spoilt.no_tensors),
    _format("dtype-below-a-byte", "unknown-dtype", spoilt.first_entry(dtype="F4")),
    _format("header-after-a-space", "header-start", spoilt.leading_space),
    _format("deeply-nested-header", "json-too-deep", spoilt.deeply_nested),
    _format("weights-of-another-framework", "bad-metadata", spoilt.of_another_framework),
    _format("tensor-renamed", "unknown-tensor", spoilt.renamed),
    _format("tensor-dropped", "missing-tensor", spoilt.dropped),
    _format("shape-transposed", "shape-mismatch", spoilt.transposed),
    _format("floats-declared-integers", "dtype-mismatch", spoilt.as_integers),
    _bad(
        "one-nan-in-the-last-shard",
        "non-finite",
        weights_of(spoilt.last_value_nan, LAST_SHARD),
        "sharded",
    ),
    _bad("weight-map-leads-outside", "index-path", _mapped("../x"), "sharded"),
    _bad("weight-map-is-absolute", "index-path", _mapped("/etc/passwd"), "sharded"),
    _bad("tensor-mapped-to-the-wrong-shard", "index-mismatch", _mapped(LAST_SHARD), "sharded"),
    _bad("tensor-mapped-to-no-shard", "index-mismatch", _mapped("x.safetensors"), "sharded"),
    _bad("wrong-total-size", "total-size-mismatch", _mapped(total_size=1), "sharded"),
)
