"""Whether the files of a candidate may go to a gate: every reason against it, at once.

Every reason but those that could only be found at a cost that no honest candidate has: beyond a
bound (`check_bounds`) no values are read, and headers of a few weights files alone; behind the
largest number of tensors, no further weights. All else is found all the same.

Nothing is written, the files are streamed, and memory is bounded by the caps of the readers
and not by the size of the weights. An admission blocks for as long as it takes to read and
hash all files once (about a second per gigabyte): run it in a thread.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import msgspec

from reef_release.artifacts.blobs import BlobReader
from reef_release.artifacts.bounds import check_bounds
from reef_release.artifacts.comparison import compare_files, compare_tensors
from reef_release.artifacts.file_rules import ADAPTER_CONFIG, ADAPTER_WEIGHTS, Kind
from reef_release.artifacts.findings import Findings
from reef_release.artifacts.inspection import Inspection, inspect
from reef_release.artifacts.lora import check_adapter
from reef_release.artifacts.schema import Schema
from reef_release.artifacts.shards import check_shards
from reef_release.artifacts.sources import StoredFiles
from reef_release.domain.events import FileEntry
from reef_release.domain.reasons import Reason

__all__ = ["Admission", "admit"]


_HEADERS_BEYOND = 8


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome: admitted exactly when there is no reason against it."""

    reasons: tuple[Reason, ...]
    tensor_count: int
    size_bytes: int
    """Of all files together."""

    @property
    def admitted(self) -> bool:
        """Whether a gate may open for the candidate."""
        return not self.reasons


def admit(
    files: Sequence[FileEntry],
    store: BlobReader,
    schema: Schema,
    *,
    kind: Kind,
    foundation: str | None = None,
    expected_foundation: str | None = None,
    allowed_changes: Set[str] = frozenset(),
) -> Admission:
    """Check the candidate *files* in *store* against the scenario's *schema*.

    *foundation* is the release that the candidate names as the model under it (LoRA only),
    *expected_foundation* the one that the scenario serves it on. *allowed_changes* is a subset
    of {"chat_template", "config", "generation_config", "tokenizer"}.

    Only `BlobCorrupt` and `OSError` escape: they are about the store, not the candidate.
    """
    findings = Findings()
    _check_foundation(kind, foundation, expected_foundation, findings)
    within = check_bounds(files, schema, kind, findings)
    inspection = inspect(
        files,
        StoredFiles(store),
        findings,
        kind=kind,
        scan=within,
        most_weights=None if within else _HEADERS_BEYOND,
    )
    tensors = inspection.tensors(findings)
    if kind == "full":
        check_shards(inspection, findings)
        compare_tensors(tensors, schema["tensors"], findings, is_complete=inspection.is_complete)
    else:
        _check_adapter_files(inspection, files, findings)
        check_adapter(
            inspection.documents.get(ADAPTER_CONFIG),
            tensors,
            schema["tensors"],
            expected_foundation,
            findings,
            is_complete=inspection.is_complete,
        )
    compare_files(inspection, schema, allowed_changes, findings, needed=kind == "full")
    return Admission(
        reasons=findings.reasons(),
        tensor_count=len(tensors),
        size_bytes=sum(file.size_bytes for file in files),
    )


def _check_foundation(
    kind: Kind, foundation: str | None, expected: str | None, findings: Findings
) -> None:
    if kind == "full":
        if foundation is not None:
            message = f"full weights stand on no other release, but name {foundation}"
            findings.add("wrong-foundation", f"{message}; leave it out")
    elif foundation is None or foundation != expected:
        message = f"the adapter names {foundation}; here it would be served on {expected}"
        findings.add("wrong-foundation", f"{message}: train it on that one")


def _check_adapter_files(
    inspection: Inspection, files: Sequence[FileEntry], findings: Findings
) -> None:
    paths = {file.path for file in files}
    for path in (ADAPTER_CONFIG, ADAPTER_WEIGHTS):
        if path not in paths:
            findings.add("missing-file", "an adapter needs this file; add it", path)
