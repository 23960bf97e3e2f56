"""A trained batch with all that it was trained from, as `train replay --from` takes it.

What always holds: a recording names all that decides what comes of a training, and what came of
it. What people said stands in the batch.

    recording.json  the seed, the weights that came of it, and where the models are
    batch.json      as it was claimed, without the lease
    settings.json   a worker's settings, the part `training`
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from reef_release.errors import BadRequest

__all__ = ["ABOUT", "BATCH", "SETTINGS", "Recorded", "parts_of", "read_recording"]

ABOUT = "recording.json"
BATCH = "batch.json"
SETTINGS = "settings.json"
_FORMAT = "reef-release/recording@1"
_AGAIN = "Give one of the directories in `replay` below a trainer's --state."


class Recorded(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a trainer did: in `line`, from the weights `parent`, to `weights_id`.

    The last four are directories, relative to the recording's: the teacher, what was trained, the
    optimizer's state beside it unless that began afresh, and the release that sampled unless it is
    what was trained.
    """

    batch_id: str
    line: str
    parent: str
    seed: int
    weights_id: str
    origin: str
    weights: str
    state: str | None
    serving: str | None
    format: str = _FORMAT


def read_recording(directory: Path) -> Recorded:
    """What is recorded in *directory*. Raises `BadRequest`, also when a part of it is gone."""
    try:
        recorded = msgspec.json.decode((directory / ABOUT).read_bytes(), type=Recorded)
    except (OSError, ValueError) as error:
        raise BadRequest(
            f"{directory} holds no recording of a training: {error}.", next_step=_AGAIN
        ) from error
    if recorded.format != _FORMAT:
        raise BadRequest(f"{directory} is a {recorded.format!r}.", next_step=_AGAIN)
    for path in parts_of(directory, recorded).values():
        if path is not None and not path.is_dir():
            raise BadRequest(f"{path} is gone.", next_step="Copy a trainer's --state as a whole.")
    return recorded


def parts_of(directory: Path, recorded: Recorded) -> dict[str, Path | None]:
    """Where `origin`, `weights`, `state` and `serving` of the recording in *directory* are."""
    places = {
        "origin": recorded.origin,
        "weights": recorded.weights,
        "state": recorded.state,
        "serving": recorded.serving,
    }
    return {name: None if at is None else directory / at for name, at in places.items()}
