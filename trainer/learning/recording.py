"""A trained batch with all that it was trained from, as `train replay --from` takes it.

What always holds: a recording names all that decides what comes of a training, and what came of
it. What people said stands in the batch.

    recording.json  the seed, the weights that came of it, and where the models are
    batch.json      as it was claimed, without the lease
    settings.json   a worker's settings, the part `training`
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from reef_release.domain.canonical import sha256_hex
from reef_release.errors import BadRequest, Refused

__all__ = [
    "ABOUT",
    "BATCH",
    "SETTINGS",
    "Recorded",
    "part_digest",
    "parts_of",
    "read_recording",
    "require_whole",
]

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


def part_digest(directory: Path) -> str:
    """The name that a part has among `parts`, by the names and digests of its files."""
    digests = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            with path.open("rb") as opened:
                digest = hashlib.file_digest(opened, "sha256").hexdigest()
            digests[path.relative_to(directory).as_posix()] = digest
    return sha256_hex(msgspec.json.encode(digests))


def require_whole(directory: Path, recorded: Recorded, *, batch_id: str, parent: str) -> None:
    """Raise `Refused` when the recording in *directory* is not as its trainer left it.

    *batch_id* is that of its batch, and *parent* the id of the weights among its parts.
    """
    altered = [
        f"{path.name[:12]}, its {name}, holds other files than it is named after"
        for name, path in parts_of(directory, recorded).items()
        if path is not None and part_digest(path) != path.name
    ]
    for name, said, found in (
        ("batch_id", recorded.batch_id, batch_id),
        ("parent", recorded.parent, parent),
    ):
        if said != found:
            altered.append(f"its {name} is {said}, and its files are of {found}")
    if altered:
        raise Refused(
            f"The recording {directory} was altered: {'; '.join(altered)}.",
            next_step="Copy it from the trainer's --state once more, with `parts` beside it.",
        )
