"""The weights files of a full model together: the index against what the shards really hold.

Libraries differ in which file they take when several could be meant, so only one reading is
left open: either `model.safetensors` alone, or shards that an index maps completely.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reef_release.artifacts.file_rules import INDEX, SINGLE_WEIGHTS, check_path
from reef_release.artifacts.findings import Findings, show
from reef_release.artifacts.inspection import Inspection
from reef_release.artifacts.weights_files import WeightsFile

__all__ = ["check_shards"]

_SECTIONS = frozenset({"metadata", "weight_map"})


class _Shard:
    """The names in one file, looked up once per entry of the index."""

    def __init__(self, file: WeightsFile) -> None:
        self._names = frozenset(tensor.name for tensor in file.header.tensors)
        self._is_complete = file.header.is_complete

    def lacks(self, name: str) -> bool:
        """Whether the tensor is certainly not in the file."""
        return self._is_complete and name not in self._names


def check_shards(inspection: Inspection, findings: Findings) -> None:
    """Check which weights files there are and that the index, if any, tells the truth.

    Codes: `no-weights`, `index-missing`, `index-mismatch`, `index-path`, `unknown-field`,
    `total-size-mismatch`.
    """
    paths = [file.path for file in inspection.weights]
    if not paths:
        findings.add("no-weights", "there is no safetensors file; add the weights")
    if not inspection.has_index:
        if paths and paths != [SINGLE_WEIGHTS]:
            message = f"weights other than a single {SINGLE_WEIGHTS} need an index; add {INDEX}"
            findings.add("index-missing", message)
        return
    if SINGLE_WEIGHTS in paths and len(paths) > 1:
        message = "libraries load this file alone and ignore the shards beside it; keep one form"
        findings.add("index-mismatch", message, SINGLE_WEIGHTS)
    index = inspection.documents.get(INDEX)
    if index is not None:
        _check_index(index, inspection, findings)


def _check_index(index: Mapping[str, Any], inspection: Inspection, findings: Findings) -> None:
    for section in sorted(index.keys() - _SECTIONS):
        message = f"the field {show(section)!r} is none of an index; remove it"
        findings.add("unknown-field", message, INDEX)
    mapping = index.get("weight_map")
    if not isinstance(mapping, dict):
        findings.add("index-mismatch", "weight_map must map tensors to shards", INDEX)
        return
    shards = {file.path: _Shard(file) for file in inspection.weights}
    for name, shard in mapping.items():
        _check_entry(name, shard, shards, findings)
    for file in inspection.weights:
        for tensor in file.header.tensors:
            if tensor.name not in mapping:
                message = f"the tensor in {file.path} is not in weight_map; add it"
                findings.add("index-mismatch", message, f"{INDEX}: {show(tensor.name)}")
    if inspection.is_complete:
        _check_total(index.get("metadata"), inspection, findings)


def _check_entry(name: str, shard: Any, shards: Mapping[str, _Shard], findings: Findings) -> None:
    place = f"{INDEX}: {show(name)}"
    if not isinstance(shard, str) or not check_path(shard, Findings()):
        message = f"is mapped to {show(shard)!r}, which is no plain file name"
        findings.add("index-path", f"{message}; name one of the shards", place)
    elif shard not in shards:
        message = f"is mapped to {show(shard)!r}, which is none of the weights files"
        findings.add("index-mismatch", f"{message}; add it or correct the index", place)
    elif shards[shard].lacks(name):
        message = f"is mapped to {shard}, which does not hold it; correct the index"
        findings.add("index-mismatch", message, place)


def _check_total(metadata: Any, inspection: Inspection, findings: Findings) -> None:
    claimed = metadata.get("total_size") if isinstance(metadata, dict) else None
    real = sum(
        tensor.stop - tensor.start for file in inspection.weights for tensor in file.header.tensors
    )
    if type(claimed) is not int or claimed != real:
        message = f"metadata.total_size is {show(claimed)}; the tensors have {real} bytes"
        findings.add("total-size-mismatch", f"{message}: write that", INDEX)
