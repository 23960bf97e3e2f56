"""Erasures that a backup does not know: from a newer export or backup, or as verbs print them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import get_args

import msgspec

from reef_release.audit.folder import ExportFolder
from reef_release.audit.report import Problems
from reef_release.backup import layout
from reef_release.domain import events as ev
from reef_release.domain.privacy_events import BodyKind
from reef_release.errors import BadRequest, InvalidEvent

__all__ = ["LaterErasure", "read_erasures"]


class LaterErasure(msgspec.Struct, frozen=True, kw_only=True):
    """A body that must not come back, and what it was."""

    scenario: str
    data: ev.BodyErased


class _Body(msgspec.Struct, frozen=True, kw_only=True):
    scenario: str
    turn_id: str
    kind: str
    digest: str
    reason: str = "erased after the backup was made"


class _Printed(msgspec.Struct, frozen=True, kw_only=True):
    bodies: list[_Body] = []
    erasures: _Printed | None = None


def read_erasures(paths: Iterable[Path]) -> list[LaterErasure]:
    """The erasures of each path: an export, a backup, or the JSON of `erase` or `audit verify`.

    Raises `BadRequest` for anything else.
    """
    return [each for path in paths for each in (_of_folder(path) if path.is_dir() else _of(path))]


def _of_folder(path: Path) -> Iterator[LaterErasure]:
    inner = path / layout.EXPORT
    problems = Problems()
    for line in ExportFolder(inner if inner.is_dir() else path).lines(problems):
        try:
            event = ev.decode(line.body)
        except InvalidEvent:
            continue
        if isinstance(event.data, ev.BodyErased):
            yield LaterErasure(scenario=event.envelope.scenario, data=event.data)


def _of(path: Path) -> Iterator[LaterErasure]:
    try:
        printed = msgspec.json.decode(path.read_bytes(), type=_Printed)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(
            f"{path} names no erasures: {error}.",
            next_step="Give an export or a backup, or the JSON of `erase --json`.",
        ) from error
    for body in [*printed.bodies, *(printed.erasures.bodies if printed.erasures else ())]:
        if body.kind not in get_args(BodyKind):
            raise BadRequest(f"{path} names a body of the unknown kind {body.kind[:40]!r}.")
        yield LaterErasure(
            scenario=body.scenario,
            data=msgspec.convert(
                {
                    "digest": body.digest,
                    "kind": body.kind,
                    "turn_id": body.turn_id,
                    "reason": body.reason,
                },
                ev.BodyErased,
            ),
        )
