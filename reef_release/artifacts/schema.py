"""The model schema of a scenario: which tensors, configuration and files a candidate has.

It is made once from the origin's files and stored as a blob (its documents carry floats, which
events do not). A file that could not be admitted makes no schema.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

from reef_release.artifacts import strict_json
from reef_release.artifacts.blobs import BlobReader
from reef_release.artifacts.collector import collect
from reef_release.artifacts.file_rules import INDEX
from reef_release.artifacts.findings import Findings
from reef_release.artifacts.inspection import inspect
from reef_release.artifacts.safetensors_header import ITEM_BYTES, MAX_TENSORS
from reef_release.artifacts.shards import check_shards
from reef_release.artifacts.sources import FileSource, LocalFiles, StoredFiles
from reef_release.domain.events import FileEntry
from reef_release.errors import BadRequest, Refused

__all__ = [
    "MAX_SCHEMA_BYTES",
    "Schema",
    "TensorSpec",
    "model_schema",
    "parse_schema",
    "schema_bytes",
    "stored_schema",
]

_FORMAT = "reef-release/model-schema@1"
MAX_SCHEMA_BYTES = 32 * 1024**2
_MAX_BRACKETS = 8 * MAX_TENSORS


class TensorSpec(TypedDict):
    """What a tensor must be."""

    dtype: str
    shape: list[int]


class Schema(TypedDict):
    """See the module's docstring; plain JSON values."""

    format: str
    tensors: dict[str, TensorSpec]
    documents: dict[str, dict[str, Any]]
    """Small JSON files by name (config.json always), compared key by key."""
    files: dict[str, str]
    """SHA-256 by name of every file but weights, index and model card."""


def model_schema(directory: Path) -> Schema:
    """The schema of the full model in *directory*.

    Raises `BadRequest` or `Refused` with every reason why the files make no model; values are
    not scanned.
    """
    files = {file.path: file for file in collect(directory)}
    return _schema([file.entry for file in files.values()], LocalFiles(files))


def stored_schema(files: Sequence[FileEntry], store: BlobReader) -> Schema:
    """The same from blobs. Raises `Refused`; `BlobCorrupt` and `OSError` may escape."""
    return _schema(files, StoredFiles(store))


def schema_bytes(schema: Schema) -> bytes:
    """The one form in which a schema is stored and hashed: sorted keys, UTF-8, no spaces.

    Raises `ValueError` on NaN and infinities.
    """
    text = json.dumps(
        schema, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode("utf-8")


def parse_schema(raw: bytes) -> Schema:
    """The schema in a blob that somebody uploaded. Raises `BadRequest` with reasons."""
    findings = Findings()
    value = None
    if len(raw) > MAX_SCHEMA_BYTES:
        findings.add("file-too-large", f"a schema has at most {MAX_SCHEMA_BYTES} bytes")
    else:
        value = strict_json.parse(raw, "schema", findings, max_brackets=_MAX_BRACKETS)
    if not findings and not _is_schema(value):
        findings.add("bad-schema", f"this has not the form of a {_FORMAT}")
    if findings or value is None:
        raise BadRequest(
            "This blob is not a model schema.",
            next_step="Make one from the origin's files with this project's command.",
            reasons=findings.reasons(),
        )
    schema: Schema = value
    return schema


def _schema(files: Sequence[FileEntry], source: FileSource) -> Schema:
    findings = Findings()
    inspection = inspect(files, source, findings, kind="full", scan=False)
    check_shards(inspection, findings)
    tensors = inspection.tensors(findings)
    if "config.json" not in inspection.digests:
        findings.add("missing-file", "a model needs config.json; add it", "config.json")
    if findings:
        raise Refused(
            "These files make no model that could be served.",
            next_step="Mend the files listed.",
            reasons=findings.reasons(),
        )
    return Schema(
        format=_FORMAT,
        tensors={
            name: TensorSpec(dtype=tensor.dtype, shape=list(tensor.shape))
            for name, tensor in sorted(tensors.items())
        },
        documents={
            name: document for name, document in inspection.documents.items() if name != INDEX
        },
        files=inspection.digests,
    )


def _is_schema(value: Any) -> bool:
    if not isinstance(value, dict) or value.keys() != Schema.__annotations__.keys():
        return False
    tensors, documents, files = value["tensors"], value["documents"], value["files"]
    return (
        value["format"] == _FORMAT
        and isinstance(tensors, dict)
        and 0 < len(tensors) <= MAX_TENSORS
        and all(map(_is_tensor, tensors.values()))
        and isinstance(documents, dict)
        and all(isinstance(document, dict) for document in documents.values())
        and isinstance(files, dict)
        and all(isinstance(digest, str) for digest in files.values())
        and documents.keys() <= files.keys()
        and "config.json" in documents
    )


def _is_tensor(spec: Any) -> bool:
    return (
        isinstance(spec, dict)
        and spec.keys() == TensorSpec.__annotations__.keys()
        and isinstance(spec["dtype"], str)
        and spec["dtype"] in ITEM_BYTES
        and isinstance(spec["shape"], list)
        and all(type(dimension) is int and dimension >= 0 for dimension in spec["shape"])
    )
