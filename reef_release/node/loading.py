"""Putting weights into an engine, and finding out whether they are really there.

Three things must agree before a release counts as loaded: the digests of the files on disk,
those that the engine says it read, and the log-probabilities that the gate measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from reef_release.domain.events import FileEntry
from reef_release.domain.reasons import Reason
from reef_release.errors import Refused
from reef_release.node.canary import Canary, largest_difference
from reef_release.node.engine import Engine

__all__ = ["load"]


def load(
    engine: Engine,
    directory: Path,
    release_id: str,
    files: Sequence[FileEntry],
    canaries: Sequence[Canary],
    tolerance: float,
) -> str:
    """Load and check a release; the largest canary difference in nats, as a decimal.

    Raises `Refused` when the engine read other files or computes other log-probabilities than
    the gate by more than *tolerance*, and what the engine raises. In either case the engine may
    have the weights in use: load others.
    """
    wanted = {file.path: file.sha256 for file in files}
    loaded = engine.load(directory, release_id, wanted)
    if loaded.files != wanted or loaded.release_id != release_id:
        differs = sorted(
            path
            for path in wanted.keys() | loaded.files.keys()
            if wanted.get(path) != loaded.files.get(path)
        )
        raise _refused(
            "engine-files",
            f"the engine says that it read other files: {', '.join(differs[:10]) or 'other name'}",
        )
    difference = largest_difference(canaries, engine.score)
    # Not `difference > tolerance`: a value that is no number must not pass.
    if not difference <= tolerance:
        shown = f"{difference:.6f}" if math.isfinite(difference) else "not finite"
        raise _refused(
            "canary",
            f"the engine's log-probabilities differ from the gate's by {shown} nats; at most "
            f"{tolerance} is allowed",
        )
    return f"{difference:.6f}"


def _refused(code: str, message: str) -> Refused:
    return Refused(
        "The engine does not serve the release that it was given.",
        next_step="The node goes back to its last good release; look at the engine.",
        reasons=[Reason(code=code, message=message)],
    )
