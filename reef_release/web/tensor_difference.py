"""Two models tensor by tensor: names, dtypes and shapes always, distances where files are small.

Headers are read under the same limits as at admission. Distances are worked out in plain Python,
which a service can afford up to `LIMIT_BYTES` and `LIMIT_TENSORS`; beyond them the page shows
headers alone and the command that does the rest on the auditor's own machine:

    python -m reef_release.web.tensor_difference BEFORE.safetensors AFTER.safetensors
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from reef_release.artifacts.findings import Findings
from reef_release.artifacts.safetensors_header import LENGTH_BYTES, header_bytes, parse_header
from reef_release.domain.events import FileEntry
from reef_release.web.tensor_norms import Ranges, Stored, distance, is_equal, is_measured

__all__ = [
    "LIMIT_BYTES",
    "LIMIT_TENSORS",
    "TensorDifference",
    "TensorLine",
    "tensor_difference",
    "tensors_of",
]

LIMIT_BYTES = 64 * 1024**2
"""Of both models' weights together: about two seconds of one core."""
LIMIT_TENSORS = 4096
"""Each is opened by itself, however small: about two seconds as well."""
_SUFFIX = ".safetensors"
_ORDER = ("removed", "added", "reshaped", "changed", "same", "not read")


@dataclass(frozen=True, kw_only=True)
class _Tensor:
    shape: tuple[int, ...]
    stored: Stored


@dataclass(frozen=True, kw_only=True)
class TensorLine:
    """One tensor: its form before and after ("F32 [2, 3]"), and how far its values moved.

    `change` is removed, added, reshaped, changed, same, or "not read" beyond the limit. Distances
    are decimals, "" where there are none to tell.
    """

    name: str
    before: str
    after: str
    change: str
    norm: str = ""
    relative: str = ""


@dataclass(frozen=True, kw_only=True)
class TensorDifference:
    """All tensors, those that moved most first. `faults` name files whose header is not read."""

    lines: tuple[TensorLine, ...]
    size_bytes: int
    is_measured: bool
    faults: tuple[str, ...]


def tensor_difference(
    source: Ranges,
    before: Sequence[FileEntry],
    after: Sequence[FileEntry],
    limit_bytes: int | None = LIMIT_BYTES,
) -> TensorDifference:
    """The difference of two models' files in *source*; None as the limit means none."""
    faults: list[str] = []
    old, new = (tensors_of(source, files, faults) for files in (before, after))
    size_bytes = sum(entry.size_bytes for entry in (*_weights(before), *_weights(after)))
    names = sorted(old.keys() | new.keys())
    measured = limit_bytes is None or (size_bytes <= limit_bytes and len(names) <= LIMIT_TENSORS)
    found = [_line(source, name, old.get(name), new.get(name), measured) for name in names]
    return TensorDifference(
        lines=tuple(line for _, line in sorted(found, key=_rank)),
        size_bytes=size_bytes,
        is_measured=measured,
        faults=tuple(faults),
    )


def tensors_of(
    source: Ranges, files: Sequence[FileEntry], faults: list[str]
) -> Mapping[str, _Tensor]:
    """The tensors of a model by name; a file that cannot be read is named in *faults*."""
    found: dict[str, _Tensor] = {}
    for entry in _weights(files):
        findings = Findings()
        prefix = b"".join(source.chunks_sync(entry.sha256, 0, min(LENGTH_BYTES, entry.size_bytes)))
        length = header_bytes(prefix, entry.size_bytes, entry.path, findings)
        if length is None:
            faults.append(f"{entry.path}: {findings.reasons()[0].message}")
            continue
        start = LENGTH_BYTES + length
        text = b"".join(source.chunks_sync(entry.sha256, LENGTH_BYTES, start))
        header = parse_header(text, entry.size_bytes - start, entry.path, findings)
        if len(findings):
            faults.append(f"{entry.path}: {findings.reasons()[0].message}")
            continue
        for tensor in header.tensors:
            stored = Stored(
                digest=entry.sha256,
                start=start + tensor.start,
                stop=start + tensor.stop,
                dtype=tensor.dtype,
            )
            found[tensor.name] = _Tensor(shape=tensor.shape, stored=stored)
    return found


def _weights(files: Sequence[FileEntry]) -> Iterator[FileEntry]:
    return (entry for entry in files if entry.path.endswith(_SUFFIX))


def _rank(found: tuple[float, TensorLine]) -> tuple[int, float, str]:
    moved, line = found
    return _ORDER.index(line.change), -moved, line.name


def _line(
    source: Ranges, name: str, before: _Tensor | None, after: _Tensor | None, measured: bool
) -> tuple[float, TensorLine]:
    line = TensorLine(name=name, before=_form(before), after=_form(after), change="same")
    if before is None or after is None:
        return 0.0, _as(line, "added" if before is None else "removed")
    if before.shape != after.shape:
        return 0.0, _as(line, "reshaped")
    if before.stored == after.stored:
        return 0.0, line
    if not measured:
        return 0.0, _as(line, "not read")
    if is_equal(source, before.stored, after.stored):
        return 0.0, line
    if not (is_measured(before.stored.dtype) and is_measured(after.stored.dtype)):
        return 0.0, _as(line, "changed")
    moved = distance(source, before.stored, after.stored)
    rank = moved.relative if not math.isnan(moved.relative) else math.inf
    return rank, _as(line, "changed", _decimal(moved.norm), _decimal(moved.relative))


def _as(line: TensorLine, change: str, norm: str = "", relative: str = "") -> TensorLine:
    return TensorLine(
        name=line.name,
        before=line.before,
        after=line.after,
        change=change,
        norm=norm,
        relative=relative,
    )


def _form(tensor: _Tensor | None) -> str:
    return "" if tensor is None else f"{tensor.stored.dtype} {list(tensor.shape)}"


def _decimal(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "from zero" if value > 0 else "not finite"


class _Files:
    """Files by their paths, as a source."""

    def chunks_sync(self, digest: str, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        with Path(digest).open("rb") as file:
            file.seek(start)
            yield file.read(-1 if stop is None else stop - start)


def _main(arguments: Sequence[str]) -> int:
    if len(arguments) != 2:
        sys.stderr.write(f"{(__doc__ or '').strip()}\n")
        return 2
    before, after = (
        [FileEntry(path=name, sha256=name, size_bytes=Path(name).stat().st_size)]
        for name in arguments
    )
    found = tensor_difference(_Files(), before, after, limit_bytes=None)
    for fault in found.faults:
        sys.stderr.write(f"{fault}\n")
    for line in found.lines:
        cells = (line.change, line.name, line.before, line.after, line.norm, line.relative)
        sys.stdout.write("\t".join(cells) + "\n")
    return 1 if found.faults else 0


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        raise SystemExit(_main(sys.argv[1:]))
