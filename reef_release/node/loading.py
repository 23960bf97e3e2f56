"""Putting weights into an engine, and finding out whether they are really there.

Three things must agree before a release counts as loaded: the digests of the files on disk,
those that the engine says it read, and the log-probabilities that the gate measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from reef_release.domain.reasons import Reason
from reef_release.errors import Refused
from reef_release.node.canary import Canary, largest_difference
from reef_release.node.engine import Engine, LoadedFiles, LoadedFoundation, OnDisk

__all__ = ["load"]


def load(
    engine: Engine,
    release: OnDisk,
    foundation: OnDisk | None,
    canaries: Sequence[Canary],
    tolerance: float,
) -> str:
    """Load and check a release; the largest canary difference in nats, as a decimal.

    Raises `Refused` when the engine read other files or computes other log-probabilities than
    the gate by more than *tolerance*, and what the engine raises. In either case the engine may
    have the weights in use: load others.
    """
    loaded = engine.load(release, foundation)
    _require_same(release, loaded)
    _require_same(foundation, loaded.foundation)
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


def _require_same(wanted: OnDisk | None, loaded: LoadedFiles | LoadedFoundation | None) -> None:
    files = {} if wanted is None else dict(wanted.files)
    found = {} if loaded is None else loaded.files
    release_id = None if wanted is None else wanted.release_id
    if found == files and release_id == (None if loaded is None else loaded.release_id):
        return
    differs = sorted(
        path for path in files.keys() | found.keys() if files.get(path) != found.get(path)
    )
    raise _refused(
        "engine-files",
        f"the engine says that it read other files: {', '.join(differs[:10]) or 'other name'}",
    )


def _refused(code: str, message: str) -> Refused:
    return Refused(
        "The engine does not serve the release that it was given.",
        next_step="The node goes back to its last good release; look at the engine.",
        reasons=[Reason(code=code, message=message)],
    )
