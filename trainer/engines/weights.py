"""Read a model directory once, hash what was read, and build the model from those bytes.

What always holds: no file is opened twice and none is mapped into memory, so the digests in
``LoadedModel.files`` are those of the bytes the model really consists of, and overwriting a file
afterwards changes nothing. With expected digests, exactly the files they name are read; others
in the directory have no effect. No code from the directory is run.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import safetensors
import safetensors.torch
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.utils import logging as transformers_logging

from reef_release.domain.reasons import Reason
from reef_release.errors import BadRequest, Refused

__all__ = ["LoadedModel", "load_model"]

_WEIGHTS = ".safetensors"
_NEEDED = ("config.json", "tokenizer.json")
_KEEP = "The weights that were loaded before stay in use. Give a complete, unaltered release."


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A model with its tokenizer, and the digests of the bytes they were made of."""

    model: Any
    tokenizer: Any
    files: Mapping[str, str]
    """Path inside the directory to the sha256 of what was read."""
    end_token_ids: frozenset[int]
    context_tokens: int
    release_id: str | None


def load_model(
    directory: Path,
    expected: Mapping[str, str] | None = None,
    release_id: str | None = None,
) -> LoadedModel:
    """Load ``directory``; with ``expected`` (path to sha256), only exactly those bytes.

    Raises ``BadRequest`` when there is no such directory or a path leads out of it, ``Refused``
    with every reason when files are missing, differ from ``expected`` or make no model.
    """
    if not directory.is_dir():
        raise BadRequest(f"{directory} is no directory", next_step="Give a release's directory.")
    contents, reasons = _read(directory, expected)
    reasons += [
        Reason(code="file-missing", message=f"a model needs {name}", where=name)
        for name in _NEEDED
        if name not in contents
    ]
    if not any(path.endswith(_WEIGHTS) for path in contents):
        reasons.append(Reason(code="file-missing", message="no safetensors file", where=""))
    if reasons:
        raise Refused(f"{directory} was not loaded", reasons=reasons, next_step=_KEEP)
    files = {path: hashlib.sha256(data).hexdigest() for path, data in sorted(contents.items())}
    try:
        return _build(contents, files, release_id)
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
        reason = Reason(code="not-a-model", message=str(error), where=str(directory))
        raise Refused(f"{directory} was not loaded", reasons=[reason], next_step=_KEEP) from error


def _read(
    directory: Path, expected: Mapping[str, str] | None
) -> tuple[dict[str, bytes], list[Reason]]:
    if expected is None:
        found = sorted(path for path in directory.rglob("*") if path.is_file())
        return {path.relative_to(directory).as_posix(): path.read_bytes() for path in found}, []
    contents: dict[str, bytes] = {}
    reasons: list[Reason] = []
    for name, digest in expected.items():
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
    contents: Mapping[str, bytes], files: Mapping[str, str], release_id: str | None
) -> LoadedModel:
    tensors: dict[str, torch.Tensor] = {}
    # The libraries read configuration and tokenizer from a directory only: they get a private
    # copy of the bytes that were hashed, never the directory that somebody may be writing to.
    with tempfile.TemporaryDirectory(prefix="reef-engine-") as name:
        private = Path(name)
        for path, data in contents.items():
            if path.endswith(_WEIGHTS):
                tensors.update(safetensors.torch.load(data))
            else:
                (private / path).parent.mkdir(parents=True, exist_ok=True)
                (private / path).write_bytes(data)
        config = AutoConfig.from_pretrained(private, trust_remote_code=False)
        tokenizer = AutoTokenizer.from_pretrained(private, trust_remote_code=False)
        generation = (
            GenerationConfig.from_pretrained(private)
            if "generation_config.json" in contents
            else GenerationConfig.from_model_config(config)
        )
    model = _from_tensors(config, tensors)
    ends = generation.eos_token_id
    if ends is None:
        ends = tokenizer.eos_token_id
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        files=files,
        end_token_ids=frozenset(ends if isinstance(ends, list) else [ends]),
        context_tokens=int(config.max_position_embeddings),
        release_id=release_id,
    )


def _from_tensors(config: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    # Which class serves a configuration is the library's table; instantiating on the meta
    # device costs nothing and reads nothing.
    with torch.device("meta"):
        architecture = type(AutoModelForCausalLM.from_config(config))  # type: ignore[no-untyped-call]
    # A server's log is no place for a progress bar per swap, nor for a report that is raised here.
    verbosity = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        model, info = architecture.from_pretrained(
            None,
            config=config,
            state_dict=dict(tensors),
            dtype=config.dtype,
            output_loading_info=True,
        )
    finally:
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]
    # The library fills what is missing with random numbers and says so in a log line.
    wrong = {
        kind: sorted(map(str, info[kind]))
        for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")
        if info[kind]
    }
    if wrong:
        raise ValueError(f"tensors do not fit the configuration: {json.dumps(wrong)[:2000]}")
    return model.eval().requires_grad_(False)
