"""A scorer for `audit replay --weights`: the weights run in a program of their own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec

import msgspec

from reef_release.audit.release_files import ReleaseFiles
from reef_release.audit.weights import Score, Scorer, ScoreRequest
from reef_release.cli.external import module_command
from reef_release.errors import Refused, SettingsError, Unavailable

__all__ = ["scoring_program"]


class _Answer(msgspec.Struct):
    scores: list[Score] = []
    error: str = ""


@contextmanager
def scoring_program() -> Iterator[Scorer]:
    """A scorer that lives as long as the context. Raises `SettingsError` without torch."""
    if find_spec("torch") is None:
        raise SettingsError(
            "Running weights needs the training stack.",
            next_step="Install it: pip install 'reef-release[train]'; or leave --weights out.",
        )
    with subprocess.Popen(
        module_command("trainer.engines.scoring", {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield lambda files, requests: _scores(process, files, requests)
        finally:
            process.terminate()


def _scores(
    process: subprocess.Popen[bytes], files: ReleaseFiles, requests: Sequence[ScoreRequest]
) -> Sequence[Score]:
    batch = {
        "directory": str(files.directory),
        "foundation": None if files.foundation is None else str(files.foundation),
        "requests": list(requests),
    }
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(msgspec.json.encode(batch) + b"\n")
        process.stdin.flush()
        answer = msgspec.json.decode(process.stdout.readline(), type=_Answer)
    except (OSError, msgspec.DecodeError) as error:
        raise Unavailable(f"The scoring program ended: {error}.") from error
    if answer.error:
        raise Refused(f"The weights cannot be run: {answer.error}")
    return answer.scores
