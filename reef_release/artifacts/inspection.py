"""Looks into every file of a candidate once, and keeps what the later checks compare.

Whatever is in a file becomes a finding; only the store's own failures (`BlobCorrupt`,
`OSError`) escape, since they say nothing about the candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import msgspec

from reef_release.artifacts.documents import read_document
from reef_release.artifacts.file_rules import INDEX, FileRule, Kind, check_names, rule_for
from reef_release.artifacts.findings import Findings, show
from reef_release.artifacts.safetensors_header import MAX_TENSORS, Header, Tensor
from reef_release.artifacts.sources import FileSource
from reef_release.artifacts.weights_files import WeightsFile, read_weights
from reef_release.domain.events import FileEntry

__all__ = ["Inspection", "inspect"]


class Inspection(msgspec.Struct, kw_only=True):
    """What the files hold, as far as they could be read."""

    weights: list[WeightsFile] = msgspec.field(default_factory=list)
    documents: dict[str, Any] = msgspec.field(default_factory=dict)
    """Parsed JSON objects by file name, the index among them."""
    digests: dict[str, str] = msgspec.field(default_factory=dict)
    """SHA-256 of every file that is compared with the schema, by name."""
    has_index: bool = False
    """A shard index is among the files, readable or not."""

    @property
    def is_complete(self) -> bool:
        """Every weights file could be read, so a tensor that was not seen is missing."""
        return all(file.header.is_complete for file in self.weights)

    def tensors(self, findings: Findings) -> dict[str, Tensor]:
        """All tensors by name; a name in two files is a finding (`duplicate-tensor`)."""
        result: dict[str, Tensor] = {}
        owners: dict[str, str] = {}
        for file in self.weights:
            for tensor in file.header.tensors:
                if tensor.name in owners:
                    message = f"the tensor is in {owners[tensor.name]} as well; keep one"
                    where = f"{file.path}: {show(tensor.name)}"
                    findings.add("duplicate-tensor", message, where)
                owners.setdefault(tensor.name, file.path)
                result.setdefault(tensor.name, tensor)
        return result


def inspect(
    files: Sequence[FileEntry],
    source: FileSource,
    findings: Findings,
    *,
    kind: Kind,
    scan: bool,
    most_weights: int | None = None,
) -> Inspection:
    """Read all files whose names are in order; with *scan*, every value of every tensor.

    Of the weights at most *most_weights* files are read, and none behind the one with which there
    are too many tensors. Codes of its own: `missing-blob`, `size-mismatch`, `too-many-tensors`,
    `unreadable`.
    """
    result = Inspection()
    left = MAX_TENSORS
    for file in check_names(files, kind, findings):
        rule = rule_for(file.path)
        if rule is None:
            continue
        result.has_index |= file.path == INDEX
        if rule.allowance is not None:
            result.digests[file.path] = file.sha256
        is_weights = rule.form == "weights"
        if is_weights:
            # Stands for the file until it has been read, so that a failure counts as incomplete.
            result.weights.append(WeightsFile(file.path, Header()))
            if left < 0 or (most_weights is not None and len(result.weights) > most_weights):
                continue
        try:
            _read(file, rule, source, findings, result, scan=scan)
        except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
            # A defect of ours, met by a file made to meet it: the file is refused, and the
            # service lives on.
            findings.add("unreadable", f"cannot be read: {show(error)}", file.path)
        if is_weights:
            left -= len(result.weights[-1].header.tensors)
            if left < 0:
                message = f"a model has at most {MAX_TENSORS} tensors; no further weights are read"
                findings.add("too-many-tensors", message, file.path)
    return result


def _read(
    file: FileEntry,
    rule: FileRule,
    source: FileSource,
    findings: Findings,
    result: Inspection,
    *,
    scan: bool,
) -> None:
    size_bytes = source.size(file)
    if size_bytes is None:
        message = "its content was not uploaded; upload it and submit again"
        findings.add("missing-blob", message, file.path)
    elif size_bytes != file.size_bytes:
        message = f"the manifest says {file.size_bytes} bytes; the file has {size_bytes}"
        findings.add("size-mismatch", f"{message}: list the real length", file.path)
    else:
        with closing(source.chunks(file)) as chunks:
            if rule.form == "weights":
                read = read_weights(file.path, size_bytes, chunks, findings, scan=scan)
                result.weights[-1] = read
                return
            document = read_document(file.path, rule, b"".join(chunks), findings)
        if document is not None:
            result.documents[file.path] = document
