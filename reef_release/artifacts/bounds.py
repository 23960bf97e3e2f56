"""What a candidate may cost to look into, asked of its manifest before a byte is read.

The weights of an honest candidate have the bytes of the scenario's model and a header; an adapter
is smaller than the model. Whatever is larger, or lists one content under many names, is refused
for that, and its values are not read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from reef_release.artifacts.file_rules import Kind
from reef_release.artifacts.findings import Findings, show
from reef_release.artifacts.safetensors_header import ITEM_BYTES, MAX_HEADER_BYTES
from reef_release.artifacts.schema import Schema
from reef_release.domain.events import FileEntry

__all__ = ["check_bounds"]

_SMALL_BYTES = 4096
"""Files up to this cost nothing, and honest ones can be equal, such as two empty JSON objects."""
_BYTES_PER_TENSOR = 1024
_BYTES_PER_FILE = 64 * 1024
_F32 = "F32"


def check_bounds(
    files: Sequence[FileEntry], schema: Schema, kind: Kind, findings: Findings
) -> bool:
    """Whether the values may be read. Codes: `repeated-file`, `candidate-too-large`."""
    before = len(findings)
    first: dict[str, str] = {}
    for file in files:
        if file.size_bytes > _SMALL_BYTES and file.sha256 in first:
            message = f"has the content of {show(first[file.sha256])}; list it under one name"
            findings.add("repeated-file", message, file.path)
        first.setdefault(file.sha256, file.path)
    weights = [file.size_bytes for file in files if file.path.endswith(".safetensors")]
    tensor_bytes = _tensor_bytes(schema, kind)
    limit_bytes = tensor_bytes + MAX_HEADER_BYTES + _BYTES_PER_FILE * len(weights)
    limit_bytes += _BYTES_PER_TENSOR * len(schema["tensors"])
    if sum(weights) > limit_bytes:
        message = (
            f"the weights have {sum(weights)} bytes; those of the scenario's model have "
            f"{tensor_bytes} and headers, {limit_bytes} at most: leave out what is not of it"
        )
        findings.add("candidate-too-large", message)
    return len(findings) == before


def _tensor_bytes(schema: Schema, kind: Kind) -> int:
    """Of the model's tensors; in F32 for an adapter, which may be more precise than the model."""
    return sum(
        math.prod(spec["shape"]) * ITEM_BYTES[_F32 if kind == "lora" else spec["dtype"]]
        for spec in schema["tensors"].values()
    )
