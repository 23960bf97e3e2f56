"""What a running vLLM has fixed at its start: shapes, configuration, tokenizer, chat template.

What always holds: only weights are ever exchanged. A release that differs in anything else from
the directory that vLLM was started from needs a vLLM that is started from it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from reef_release.artifacts.file_rules import rule_for
from reef_release.domain.reasons import Reason
from trainer.engines.vllm.serving_copy import located

__all__ = ["Form", "differences", "file_differences", "form_of"]

_UNREAD = ("_from_model_config", "_name_or_path", "transformers_version")
"""Who wrote a document, with what: changes with every tool and changes no reply."""


class Form(NamedTuple):
    """A model but for its values."""

    tensors: dict[str, tuple[str, tuple[int, ...]]]
    """Name to dtype and shape."""
    files: dict[str, Any]
    """Every other file that is read: the value of a configuration, the digest of the rest."""


def form_of(directory: Path) -> Form:
    """The form of what is in ``directory``. Raises ``Refused`` and ``OSError``."""
    files: dict[str, Any] = {}
    for path in sorted(directory.iterdir()):
        rule = rule_for(path.name)
        if rule is None or rule.form in ("weights", "index", "card"):
            continue
        data = path.read_bytes()
        files[path.name] = hashlib.sha256(data).hexdigest()
        if rule.form == "document":
            document = json.loads(data)
            files[path.name] = {key: document[key] for key in document if key not in _UNREAD}
    tensors = {
        name: (each.tensor.dtype, each.tensor.shape) for name, each in located(directory).items()
    }
    return Form(tensors=tensors, files=files)


def differences(started: Form, wanted: Form) -> list[Reason]:
    """Why a vLLM that was started from one cannot serve the other by exchanging weights."""
    names = started.tensors.keys() | wanted.tensors.keys()
    differing = sorted(
        name for name in names if started.tensors.get(name) != wanted.tensors.get(name)
    )
    reasons = file_differences(started, wanted.files, complete=True)
    if differing:
        message = f"{len(differing)} tensors are missing, or of another type or shape"
        reasons.append(Reason(code="other-form", message=message, where=differing[0]))
    return reasons


def file_differences(started: Form, files: dict[str, Any], *, complete: bool) -> list[Reason]:
    """The files that differ; unless ``complete``, those that are not among ``files`` do not."""
    names = started.files.keys() | files.keys() if complete else files.keys()
    return [
        Reason(code="other-form", message="differs from what vLLM was started from", where=name)
        for name in sorted(names)
        if started.files.get(name) != files.get(name)
    ]
