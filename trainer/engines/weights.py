"""Read a model directory once, hash what was read, and build the model from those bytes.

What always holds: no file is opened twice and none is mapped into memory, so the digests in
``LoadedModel.files`` are those of the bytes the model really consists of, and overwriting a file
afterwards changes nothing. With expected digests, exactly the files they name are read; others
in the directory have no effect. No code from the directory is run. A LoRA adapter becomes part
of its foundation's weights, in float32; of its own files, those beside the adapter (a tokenizer,
a chat template) stand in place of the foundation's.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import safetensors
import safetensors.torch
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from reef_release.domain.reasons import Reason
from reef_release.errors import BadRequest, Refused, Unavailable
from trainer.engines.adapters import ADAPTER_CONFIG, ADAPTER_WEIGHTS, merge_adapter
from trainer.exhaustion import is_of_memory
from trainer.quiet import quiet_transformers

__all__ = ["LoadedModel", "ModelFiles", "load_model"]

_WEIGHTS = ".safetensors"
_KEEP = "The weights that were loaded before stay in use. Give a complete, unaltered release."

_Contents = dict[str, bytes]


@dataclass(frozen=True, kw_only=True)
class ModelFiles:
    """A release on disk. With ``files`` (path to sha256), exactly those are read."""

    directory: Path
    files: Mapping[str, str] | None = None
    release_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A model with its tokenizer, and the digests of the bytes they were made of."""

    model: Any
    tokenizer: Any
    files: Mapping[str, str]
    """Path inside the directory to the sha256 of what was read."""
    foundation: ModelFiles | None
    """What an adapter stands on, likewise."""
    end_token_ids: frozenset[int]
    context_tokens: int
    release_id: str | None


def load_model(wanted: ModelFiles, foundation: ModelFiles | None = None) -> LoadedModel:
    """Load ``wanted``, a full model or, with a ``foundation``, a LoRA adapter on that.

    Raises ``BadRequest`` when there is no such directory or a path leads out of it, ``Refused``
    with every reason when files are missing, differ from what was expected or make no model,
    ``Unavailable`` when the disk is in the way.
    """
    contents, reasons = _read(wanted)
    below: _Contents = {}
    if foundation is None:
        reasons += _missing(contents, "config.json", "tokenizer.json")
        if not any(path.endswith(_WEIGHTS) for path in contents):
            reasons.append(Reason(code="file-missing", message="no safetensors file", where=""))
    else:
        reasons += _missing(contents, ADAPTER_CONFIG, ADAPTER_WEIGHTS)
        below, others = _read(foundation)
        reasons += others
    if reasons:
        raise Refused(f"{wanted.directory} was not loaded", reasons=reasons, next_step=_KEEP)
    try:
        return _build(wanted, contents, foundation, below)
    except (
        AttributeError,
        ImportError,
        KeyError,
        OSError,
        RuntimeError,
        TypeError,
        ValueError,
        safetensors.SafetensorError,
    ) as error:
        if is_of_memory(error):
            raise
        reason = Reason(code="not-a-model", message=str(error), where=str(wanted.directory))
        raise Refused(
            f"{wanted.directory} was not loaded", reasons=[reason], next_step=_KEEP
        ) from error


def _missing(contents: _Contents, *needed: str) -> list[Reason]:
    return [
        Reason(code="file-missing", message=f"the release needs {name}", where=name)
        for name in needed
        if name not in contents
    ]


def _read(wanted: ModelFiles) -> tuple[_Contents, list[Reason]]:
    directory = wanted.directory
    if not directory.is_dir():
        raise BadRequest(f"{directory} is no directory", next_step="Give a release's directory.")
    if wanted.files is None:
        found = sorted(path for path in directory.rglob("*") if path.is_file())
        return {path.relative_to(directory).as_posix(): path.read_bytes() for path in found}, []
    contents: _Contents = {}
    reasons: list[Reason] = []
    for name, digest in wanted.files.items():
        path = PurePosixPath(name)
        if not name or path.is_absolute() or ".." in path.parts:
            raise BadRequest(
                f"{name!r} is no path inside a release",
                next_step="List files by their path relative to the directory.",
            )
        try:
            data = (directory / path).read_bytes()
        except OSError as error:
            message = f"cannot be read: {error.strerror}"
            reasons.append(Reason(code="file-missing", message=message, where=name))
            continue
        got = hashlib.sha256(data).hexdigest()
        if got != digest:
            message = f"has sha256 {got}, not {digest}"
            reasons.append(Reason(code="digest-mismatch", message=message, where=name))
        contents[name] = data
    return contents, reasons


def _build(
    wanted: ModelFiles, contents: _Contents, foundation: ModelFiles | None, below: _Contents
) -> LoadedModel:
    full = contents if foundation is None else below
    others = {path: data for path, data in (below | contents).items() if not _is_weights(path)}
    with _private_copy(others) as private:
        config = AutoConfig.from_pretrained(private, trust_remote_code=False)
        tokenizer = AutoTokenizer.from_pretrained(private, trust_remote_code=False)
        generation = (
            GenerationConfig.from_pretrained(private)
            if "generation_config.json" in others
            else GenerationConfig.from_model_config(config)
        )
        tensors: dict[str, torch.Tensor] = {}
        for path, data in full.items():
            if _is_weights(path):
                tensors.update(safetensors.torch.load(data))
        model = _from_tensors(config, tensors)
        if foundation is not None:
            adapter = safetensors.torch.load(contents[ADAPTER_WEIGHTS])
            model = merge_adapter(model, private, adapter)
    ends = generation.eos_token_id
    if ends is None:
        ends = tokenizer.eos_token_id
    return LoadedModel(
        model=model.eval().requires_grad_(False),
        tokenizer=tokenizer,
        files=_digests(contents),
        foundation=None
        if foundation is None
        else ModelFiles(
            directory=foundation.directory,
            files=_digests(below),
            release_id=foundation.release_id,
        ),
        end_token_ids=frozenset(ends if isinstance(ends, list) else [ends]),
        context_tokens=int(config.max_position_embeddings),
        release_id=wanted.release_id,
    )


def _is_weights(path: str) -> bool:
    return path.endswith(_WEIGHTS)


def _digests(contents: _Contents) -> dict[str, str]:
    return {path: hashlib.sha256(data).hexdigest() for path, data in sorted(contents.items())}


@contextmanager
def _private_copy(contents: _Contents) -> Iterator[Path]:
    """A directory with these bytes, for libraries that read from a directory only.

    They never see the directory that somebody may be writing to.
    """
    with tempfile.TemporaryDirectory(prefix="reef-engine-") as name:
        private = Path(name)
        for path, data in contents.items():
            try:
                (private / path).parent.mkdir(parents=True, exist_ok=True)
                (private / path).write_bytes(data)
            except OSError as error:  # of this machine, not of the release
                raise Unavailable(
                    f"{private} cannot be written: {error.strerror}", next_step="Free some disk."
                ) from error
        yield private


def _from_tensors(config: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    # Which class serves a configuration is the library's table; instantiating on the meta
    # device costs nothing and reads nothing.
    with torch.device("meta"):
        architecture = type(AutoModelForCausalLM.from_config(config))  # type: ignore[no-untyped-call]
    with quiet_transformers():
        model, info = architecture.from_pretrained(
            None,
            config=config,
            state_dict=dict(tensors),
            dtype=config.dtype,
            output_loading_info=True,
        )
    # The library fills what is missing with random numbers and says so in a log line.
    wrong = {
        kind: sorted(map(str, info[kind]))
        for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")
        if info[kind]
    }
    if wrong:
        raise ValueError(f"tensors do not fit the configuration: {json.dumps(wrong)[:2000]}")
    return model
