"""What a stream leaves behind: JSON lines that can be gone on with after any interruption.

What always holds: a line is whole or, at the end of the file only, gone when the file is opened
again; each session of an arm and a seed has one line; runs with other settings do not share a
file under the same arm and seed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from reef_release.errors import Conflict, SettingsError

__all__ = ["Evaluation", "Record", "RecordFile", "Reply", "Run", "Session", "read_records"]


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """One reply and what the student said to it."""

    text: str
    accepted: bool
    complaint: str | None
    """The kind of the complaint; None when accepted."""
    reaction: str
    right: bool
    """The stated number is the key's. For reporting; read by the stream's own rules."""
    calculations: int
    marks: dict[str, int]
    cut: bool
    release: str | None
    receipt: str | None
    wall_s: float


class Run(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="run"):
    """The settings that an arm of a seed runs with."""

    arm: str
    seed: int
    settings: dict[str, str]


class Session(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="session"):
    """One session, whole."""

    arm: str
    seed: int
    session: int
    """From 1."""
    tag: str
    task_id: str
    question: str
    key: str
    replies: list[Reply]
    wall_s: float

    @property
    def accepted_first(self) -> bool:
        return self.replies[0].accepted

    @property
    def accepted(self) -> bool:
        return self.replies[-1].accepted


class Evaluation(msgspec.Struct, frozen=True, kw_only=True, tag_field="record", tag="evaluation"):
    """First replies to fresh tasks, after so many sessions."""

    arm: str
    seed: int
    after: int
    count: int
    right: int
    accepted: int
    cut: int
    release: str | None


Record = Run | Session | Evaluation
_BEGINNING = b'{"record":"'
_DECODER = msgspec.json.Decoder(Record)


class RecordFile:
    """The file at *path*, opened for adding to it; a torn last line is cut off first."""

    def __init__(self, path: Path) -> None:
        """Raises `SettingsError` when *path* holds something else."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self.records = read_records([path]) if path.exists() else []
        self._file = path.open("ab")
        self._file.truncate(len(_whole_lines(path)))

    def __enter__(self) -> RecordFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def begin(self, run: Run) -> None:
        """Note the settings of *run*. Raises `Conflict` if it began here with others."""
        for record in self.records:
            if isinstance(record, Run) and (record.arm, record.seed) == (run.arm, run.seed):
                if record == run:
                    return
                names = {**record.settings, **run.settings}
                other = sorted(
                    name for name in names if record.settings.get(name) != run.settings.get(name)
                )
                raise Conflict(
                    f"{self._path} has arm {run.arm!r}, seed {run.seed} with another "
                    f"{', '.join(other)}.",
                    next_step="Give another --out, or the same settings.",
                )
        self.add(run)

    def add(self, record: Record) -> None:
        """Append *record*; on disk when this returns."""
        self._file.write(msgspec.json.encode(record) + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.records.append(record)

    def sessions(self, arm: str, seed: int) -> dict[int, Session]:
        """The sessions of *arm* and *seed* by number."""
        return {
            record.session: record
            for record in self.records
            if isinstance(record, Session) and (record.arm, record.seed) == (arm, seed)
        }

    def evaluations(self, arm: str, seed: int) -> dict[int, Evaluation]:
        """The evaluations of *arm* and *seed* by the number of sessions before them."""
        return {
            record.after: record
            for record in self.records
            if isinstance(record, Evaluation) and (record.arm, record.seed) == (arm, seed)
        }


def read_records(paths: Iterable[Path]) -> list[Record]:
    """All whole lines of *paths*. Raises `SettingsError` for what is no record."""
    records: list[Record] = []
    for path in paths:
        for place, line in enumerate(_whole_lines(path).splitlines(), 1):
            try:
                records.append(_DECODER.decode(line))
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise _foreign(path, f"line {place} is no record of a stream: {error}") from error
    return records


def _whole_lines(path: Path) -> bytes:
    """What *path* holds up to the last line break, if the rest is the beginning of a record.

    Another file must not lose its last line for being taken for one of ours.
    """
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    # Power that fails while a file grows may leave zeros where the line should be.
    torn = content[len(whole) :].strip(b"\0")
    if not torn.startswith(_BEGINNING[: len(torn)]):
        raise _foreign(path, "the last line is no record of a stream")
    return whole


def _foreign(path: Path, what: str) -> SettingsError:
    return SettingsError(
        f"{path}: {what}.", next_step="Give a file that python -m trainer.stream wrote."
    )
