"""The files of two models, compared for a page: by digest always, by content where that is cheap.

Content is read only if the reader may read it: a candidate can name any digest among its files,
also that of a suite. Weights are opened only of models that were admitted, whose tensors are those
of the scenario's model: what was refused, or is not examined yet, may have any number of them.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

from reef_release.api.service import Service
from reef_release.artifacts.blobs import BlobReader
from reef_release.artifacts.errors import BlobCorrupt, BlobMissing, BlobTooLarge
from reef_release.domain.events import FileEntry
from reef_release.domain.state import Candidate
from reef_release.tokens import Principal
from reef_release.web.config_difference import (
    CONFIG_FILES,
    CONFIG_LIMIT_BYTES,
    ConfigDifference,
    config_difference,
)
from reef_release.web.file_difference import FileLine, file_difference
from reef_release.web.tensor_difference import TensorDifference, tensor_difference

__all__ = ["ModelDifference", "model_difference"]

_WORKER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tensors")
"""One at a time: several readers of one page must not take the service's other core as well."""


@dataclass(frozen=True, kw_only=True)
class ModelDifference:
    """`tensors` is None, with a `fault`, where the weights cannot be read."""

    files: tuple[FileLine, ...]
    configs: tuple[ConfigDifference, ...]
    tensors: TensorDifference | None
    fault: str


async def model_difference(
    service: Service,
    principal: Principal,
    other: Candidate,
    candidate: Candidate,
) -> ModelDifference:
    """What *candidate* has changed of *other*, as far as *principal* may read both."""
    before, after = other.submitted.files, candidate.submitted.files
    readable = all(service.readers.may_read(principal, entry.sha256) for entry in (*before, *after))
    files = tuple(file_difference(before, after))
    if not readable:
        fault = (
            f"Among these files is one that a token of role {principal.role} may not read; "
            "none is opened."
        )
        return ModelDifference(files=files, configs=(), tensors=None, fault=fault)
    tensors, fault = None, ""
    loop = asyncio.get_running_loop()
    if other.admitted_position is None or candidate.admitted_position is None:
        fault = "Tensors are compared of admitted models; one of these two is not admitted."
    else:
        try:
            tensors = await loop.run_in_executor(
                _WORKER, _tensors, service.blobs, tuple(before), tuple(after)
            )
        except (BlobMissing, BlobCorrupt) as error:
            fault = error.detail
    return ModelDifference(
        files=files,
        configs=tuple([await _config(service, line) for line in files if _is_compared(line)]),
        tensors=tensors,
        fault=fault,
    )


@lru_cache(maxsize=32)
def _tensors(
    blobs: BlobReader, before: tuple[FileEntry, ...], after: tuple[FileEntry, ...]
) -> TensorDifference:
    """Kept by the files' digests, which say all that the comparison depends on."""
    return tensor_difference(blobs, before, after)


def _is_compared(line: FileLine) -> bool:
    return line.path in CONFIG_FILES and line.change == "changed"


async def _config(service: Service, line: FileLine) -> ConfigDifference:
    assert line.before is not None, "a changed file has an older version"
    assert line.after is not None, "a changed file has a newer version"
    try:
        before = await service.blobs.read(line.before.sha256, CONFIG_LIMIT_BYTES)
        after = await service.blobs.read(line.after.sha256, CONFIG_LIMIT_BYTES)
    except (BlobMissing, BlobCorrupt, BlobTooLarge) as error:
        return ConfigDifference(path=line.path, fault=error.detail)
    return config_difference(line.path, before, after)
