"""Erasures that a recovered log does not know: they stand later, or somewhere else.

They come from behind the end that was asked for, from a newer export or backup, or as verbs print
them. None is believed as it comes: each is asked of the fold of the log that is recovered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

import msgspec

from reef_release.audit.folder import ExportFolder
from reef_release.audit.report import Problems
from reef_release.backup import layout
from reef_release.domain import events as ev
from reef_release.domain.fold import Fold
from reef_release.domain.privacy_events import BodyKind
from reef_release.domain.reasons import Reason
from reef_release.domain.state import State
from reef_release.domain.validation import stream_of
from reef_release.errors import BadRequest, InvalidEvent, Refused

__all__ = ["LaterErasure", "erasures_behind", "read_erasures", "standing"]


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


def erasures_behind(state: State, size: int) -> Iterator[LaterErasure]:
    """The erasures that stand in the log of *state* behind its first *size* events."""
    for each in state.erased.values():
        if each.position >= size:
            yield LaterErasure(
                scenario=each.scenario,
                data=ev.BodyErased(
                    digest=each.digest, kind=each.kind, turn_id=each.turn_id, reason=each.reason
                ),
            )


def standing(
    fold: Fold, given: Mapping[str, Sequence[LaterErasure]], digests: Iterable[str]
) -> list[LaterErasure]:
    """For each of *digests* the first of its *given* erasures that the rules of *fold* allow.

    Raises `Refused` when there is none for one of them: that body would be gone, and nothing in
    the log would say why.
    """
    found: list[LaterErasure] = []
    reasons: list[Reason] = []
    for digest in digests:
        wrong: list[Reason] = []
        for each in given[digest]:
            why = fold.reasons(each.scenario, stream_of(each.data), each.data)
            if not why:
                found.append(each)
                break
            wrong += why
        else:
            reasons += wrong
    if reasons:
        raise Refused(
            "Not every erasure fits the log that is recovered.",
            reasons=reasons,
            next_step="Give a later backup or export of this log, or the JSON of `erase` as it is.",
        )
    return found


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
