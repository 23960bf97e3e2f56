"""A load, as far as it can be brought without touching vLLM.

What always holds: everything that can be wrong with a release is found here, since a reload that
fails may end vLLM.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from reef_release.artifacts.file_rules import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from reef_release.domain.reasons import Reason
from reef_release.errors import Refused, Unavailable
from trainer.engines.vllm.form import Form, differences, file_differences, form_of
from trainer.engines.vllm.serving_copy import KEPT, copy_release, untie
from trainer.engines.vllm.upstream import Started
from trainer.engines.wire import LoadedAnswer, LoadedFoundation, LoadRequest

__all__ = ["Prepared", "prepare"]


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A load that needs nothing but vLLM."""

    loaded: LoadedAnswer
    full: Path
    """The copy of the full model."""
    adapter: Path | None
    """The copy of an adapter on it."""
    full_files: Mapping[str, str]


def prepare(asked: LoadRequest, place: Path, started: Started) -> Prepared:
    """Copy the files of a load into ``place``, and find out whether vLLM can serve them.

    Raises ``BadRequest``, ``Refused`` and ``Unavailable`` as ``VllmEngine.load`` does.
    """
    below = asked.foundation
    full, adapter = place / "full", None if below is None else place / "adapter"
    try:
        form = form_of(Path(started.directory))
    except OSError as error:
        raise Unavailable(
            f"the directory that vLLM was started from cannot be read: {error}",
            next_step="Start vLLM from a local directory that this process can read.",
        ) from error
    try:
        for directory in (place, full) if adapter is None else (place, full, adapter):
            directory.mkdir(mode=0o700)
        full_files = copy_release(asked if below is None else below, full)
        files = full_files if adapter is None else copy_release(asked, adapter)
        untie(full)
        reasons = differences(form, form_of(full))
        if adapter is not None:
            reasons += _adapter_reasons(form, adapter, started)
    except OSError as error:
        raise Unavailable(
            f"{place} cannot be used: {error}", next_step="Free some disk."
        ) from error
    if reasons:
        raise Refused(
            "vLLM was started from another form of model than this",
            reasons=reasons,
            next_step=f"{KEPT} For another tokenizer, template or shape, restart vLLM from "
            "an export of it (python -m trainer.engines.vllm export).",
        )
    return Prepared(
        loaded=LoadedAnswer(
            release_id=asked.release_id,
            files=files,
            foundation=None
            if below is None
            else LoadedFoundation(release_id=below.release_id, files=full_files),
        ),
        full=full,
        adapter=adapter,
        full_files=full_files,
    )


def _adapter_reasons(form: Form, adapter: Path, started: Started) -> list[Reason]:
    reasons = [
        Reason(code="file-missing", message=f"the release needs {name}", where=name)
        for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS)
        if not (adapter / name).exists()
    ]
    if reasons:
        return reasons
    # What lies beside an adapter would stand in place of the foundation's; vLLM cannot do that.
    files = form_of(adapter).files
    del files[ADAPTER_CONFIG]
    reasons += file_differences(form, files, complete=False)
    if not started.takes_adapters:
        reasons.append(
            Reason(code="vllm-options", message="vLLM runs without --enable-lora", where="")
        )
    return reasons
