"""A private copy of a release, in the form that vLLM reloads exactly.

What always holds: each file is opened once, and the bytes that are hashed are those that are
written, so the digests are of what vLLM reads; a full model in a copy has an output head of its
own. (With tied embeddings vLLM's ``reload_weights`` answers 200 and keeps the old head.)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from reef_release.artifacts.collector import collect
from reef_release.artifacts.file_rules import INDEX, check_path
from reef_release.artifacts.findings import Findings
from reef_release.artifacts.safetensors_header import LENGTH_BYTES, Tensor
from reef_release.artifacts.weights_files import read_weights
from reef_release.domain.reasons import Reason
from reef_release.errors import BadRequest, Refused, Unavailable

__all__ = ["KEPT", "Located", "Wanted", "copy_release", "located", "untie"]

KEPT = "What was served before stays in use. Give a complete, unaltered release."

_CONFIG = "config.json"
_TIED = "tie_word_embeddings"
_HEAD, _EMBEDDINGS = "lm_head.weight", "model.embed_tokens.weight"
_HEAD_FILE = "untied-lm-head.safetensors"
_PIECE_BYTES = 4 * 1024 * 1024


class Wanted(Protocol):
    """A release on disk; with ``files`` (path to sha256), exactly those are read."""

    @property
    def directory(self) -> str: ...
    @property
    def files(self) -> Mapping[str, str] | None: ...


class Located(NamedTuple):
    """A tensor in a file."""

    path: Path
    tensor: Tensor
    data_start: int
    """Where the tensors' bytes begin in the file."""

    def pieces(self) -> Iterator[bytes]:
        """Its bytes."""
        left = self.tensor.stop - self.tensor.start
        with self.path.open("rb") as file:
            file.seek(self.data_start + self.tensor.start)
            while left and (piece := file.read(min(left, _PIECE_BYTES))):
                left -= len(piece)
                yield piece


def copy_release(wanted: Wanted, target: Path) -> dict[str, str]:
    """Copy the files of ``wanted`` into the empty ``target``; path to sha256 of what was read.

    Raises ``BadRequest`` when there is no such directory or a path is none of a release,
    ``Refused`` with every reason when files are missing or differ, ``Unavailable`` when the disk
    is in the way.
    """
    source = Path(wanted.directory)
    if not source.is_dir():
        raise BadRequest(f"{source} is no directory", next_step="Give a release's directory.")
    names = wanted.files
    if names is None:
        names = {each.path: "" for each in collect(source)}
    findings = Findings()
    if [name for name in names if not check_path(name, findings)]:
        raise BadRequest(
            "a path is none of a release's", reasons=findings.reasons(), next_step=KEPT
        )
    read: dict[str, str] = {}
    reasons: list[Reason] = []
    for name, expected in sorted(names.items()):
        try:
            opened = (source / name).open("rb")
        except OSError as error:
            message = f"cannot be read: {error.strerror}"
            reasons.append(Reason(code="file-missing", message=message, where=name))
            continue
        with opened:
            read[name] = _copied(opened, target / name)
        if expected and read[name] != expected:
            message = f"has sha256 {read[name]}, not {expected}"
            reasons.append(Reason(code="digest-mismatch", message=message, where=name))
    if reasons:
        raise Refused(f"{source} was not loaded", reasons=reasons, next_step=KEPT)
    return read


def _copied(source: Any, target: Path) -> str:
    digest = hashlib.sha256()
    try:
        with target.open("xb") as written:
            while piece := source.read(_PIECE_BYTES):
                digest.update(piece)
                written.write(piece)
    except OSError as error:
        raise Unavailable(
            f"{target} cannot be written: {error.strerror}",
            next_step="Free some disk, or give --work another place.",
        ) from error
    return digest.hexdigest()


def untie(directory: Path) -> None:
    """Give the full model in ``directory`` an output head of its own, with the same values.

    A model that has one is left as it is. Raises ``Refused`` when it cannot be told what the
    head is: neither vLLM nor transformers then does what the other does.
    """
    config = _document(directory / _CONFIG)
    tensors = located(directory)
    tied, head, embeddings = config.get(_TIED), tensors.get(_HEAD), tensors.get(_EMBEDDINGS)
    if tied is False and head is not None:
        return
    if not isinstance(tied, bool):
        raise _unknown(f"{_CONFIG} does not say whether {_TIED}")
    if embeddings is None or (not tied and head is None):
        raise _unknown(f"there is no {_HEAD if embeddings else _EMBEDDINGS}")
    if head is None:
        _write_head(directory, embeddings)
    elif not _equal(head, embeddings):
        raise _unknown(f"{_TIED} is true, and {_HEAD} differs from {_EMBEDDINGS}")
    _write_document(directory / _CONFIG, config | {_TIED: False})


def _unknown(what: str) -> Refused:
    reason = Reason(code="output-head", message=what, where=_CONFIG)
    return Refused("it cannot be told what the output head is", reasons=[reason], next_step=KEPT)


def _document(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        reason = Reason(code="not-a-model", message=str(error), where=path.name)
        raise Refused(f"{path.name} cannot be read", reasons=[reason], next_step=KEPT) from error
    if not isinstance(found, dict):
        raise Refused(f"{path.name} is no JSON object", next_step=KEPT)
    return found


def _write_document(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2), "utf-8")


def located(directory: Path) -> dict[str, Located]:
    """The tensors in the weights files of ``directory``. Raises ``Refused``."""
    findings = Findings()
    tensors: dict[str, Located] = {}
    for path in sorted(directory.glob("*.safetensors")):
        with path.open("rb") as file:
            pieces = iter(lambda opened=file: opened.read(_PIECE_BYTES), b"")  # type: ignore[misc]
            header = read_weights(
                path.name, path.stat().st_size, pieces, findings, scan=False
            ).header
            file.seek(0)
            start = LENGTH_BYTES + int.from_bytes(file.read(LENGTH_BYTES), "little")
        tensors |= {each.name: Located(path, each, start) for each in header.tensors}
    if findings.reasons():
        raise Refused("the weights cannot be read", reasons=findings.reasons(), next_step=KEPT)
    return tensors


def _equal(one: Located, other: Located) -> bool:
    same = (one.tensor.dtype, one.tensor.shape) == (other.tensor.dtype, other.tensor.shape)
    return same and all(a == b for a, b in zip(one.pieces(), other.pieces(), strict=True))


def _write_head(directory: Path, embeddings: Located) -> None:
    tensor = embeddings.tensor
    size_bytes = tensor.stop - tensor.start
    entry = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [0, size_bytes]}
    header = json.dumps({"__metadata__": {"format": "pt"}, _HEAD: entry}).encode()
    with (directory / _HEAD_FILE).open("xb") as file:
        file.write(len(header).to_bytes(LENGTH_BYTES, "little"))
        file.write(header)
        for piece in embeddings.pieces():
            file.write(piece)
    index = directory / INDEX
    if index.exists():
        # With an index, a file that it does not name is not read.
        document = _document(index)
        places = document.get("weight_map", {}) | {_HEAD: _HEAD_FILE}
        _write_document(index, document | {"weight_map": places})
