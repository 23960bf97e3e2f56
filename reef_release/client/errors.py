"""What the client adds to the error tree, and how problem details become errors of it again.

An answer is turned into the class whose problem type and status both fit (so a caller catches
what the service raised), else into the class of its status alone: a proxy in between answers
with statuses only.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from reef_release import errors
from reef_release.artifacts.errors import OffsetConflict
from reef_release.domain.reasons import Reason
from reef_release.domain.visible import visible, visible_values
from reef_release.errors import ReefError

__all__ = ["BadAnswer", "decoded", "error_from"]

_T = TypeVar("_T")
_MAX_TEXT = 2000
# msgspec answers JSON that is nested too deeply with a RecursionError of its own.
_MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_BY_STATUS: dict[int, type[ReefError]] = {
    400: errors.BadRequest,
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
    410: errors.NotFound,
    413: errors.PayloadTooLarge,
    422: errors.Refused,
    429: errors.TooManyRequests,
    502: errors.Unavailable,
    503: errors.Unavailable,
    504: errors.Unavailable,
}


class BadAnswer(ReefError):
    """The other side answered with something that the protocol does not know."""

    problem, title, status = "bad-answer", "The answer cannot be used", 502


class _Problem(msgspec.Struct):
    type: str = ""
    title: str = ""
    detail: str = ""
    next_step: str = ""
    reasons: list[Reason] = []
    offset: int | None = None


def decoded(body: bytes, kind: type[_T]) -> _T:
    """The *kind* in *body*. Raises `BadAnswer`."""
    try:
        return msgspec.json.decode(body, type=kind)
    except _MALFORMED as error:
        raise BadAnswer(
            f"The answer is no {kind.__name__.strip('_')}: {error}.",
            next_step="Check that the URL is right, and that both sides have one version.",
        ) from error


def error_from(status: int, body: bytes, retry_after_s: float | None = None) -> ReefError:
    """The error that an answer with *status* (400 or above) and *body* stands for.

    In `extra`, an `Unavailable` carries `retry_after_s`, and whatever's class has another status
    carries `status`.
    """
    try:
        # It may quote what anybody wrote, and ends on terminals and in logs of workers.
        found = msgspec.convert(visible_values(msgspec.json.decode(body)), _Problem)
    except _MALFORMED:
        found = _Problem(detail=visible(body[:_MAX_TEXT].decode("utf-8", "replace").strip()))
    name = found.type.replace("/", ":").rpartition(":")[2]
    detail = found.detail or found.title or f"The answer has status {status}."
    kind = _kind(name, status)
    if kind is OffsetConflict:
        if found.offset is not None:
            return OffsetConflict(detail, offset=found.offset)
        kind = errors.Conflict
    extra: dict[str, Any] = {"status": status} if kind is ReefError or kind.status != status else {}
    if issubclass(kind, errors.Unavailable):
        extra["retry_after_s"] = retry_after_s
    return kind(detail, next_step=found.next_step, reasons=found.reasons, **extra)


def _kind(name: str, status: int) -> type[ReefError]:
    pending: list[type[ReefError]] = [ReefError]
    while pending:
        kind = pending.pop()
        if (kind.problem, kind.status) == (name, status):
            return kind
        pending += kind.__subclasses__()
    return _BY_STATUS.get(status, ReefError)
