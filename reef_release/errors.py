"""Every error that the project raises on purpose, as one tree.

Each class carries an RFC 9457 problem type, an HTTP status and a title; each instance says
what is wrong (`detail`) and what to do about it (`next_step`). A refusal that has several
causes carries them as `reasons`. Anything that is not a `ReefError` is a defect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from reef_release.domain.reasons import Reason

__all__ = [
    "BadRequest",
    "Conflict",
    "Forbidden",
    "InvalidEvent",
    "LogUnavailable",
    "MalformedData",
    "NotFound",
    "PayloadTooLarge",
    "QueueFull",
    "ReefError",
    "Refused",
    "RequestTimedOut",
    "SettingsError",
    "SignatureRejected",
    "TooManyRequests",
    "Unauthorized",
    "Unavailable",
    "UpstreamTimedOut",
    "UpstreamUnreachable",
    "openai_error",
    "token_hint",
    "told",
]


class ReefError(Exception):
    """Base of the tree; `status` is the HTTP status that the API answers with."""

    problem: ClassVar[str] = "error"
    title: ClassVar[str] = "Error"
    status: ClassVar[int] = 500

    def __init__(
        self,
        detail: str,
        *,
        next_step: str = "",
        reasons: Sequence[Reason] = (),
        **extra: Any,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.next_step = next_step
        self.reasons = tuple(reasons)
        self.extra: Mapping[str, Any] = extra

    def __str__(self) -> str:
        parts = [self.detail, *(f"  {reason}" for reason in self.reasons)]
        if self.next_step:
            parts.append(self.next_step)
        return "\n".join(parts)


class BadRequest(ReefError):
    """The input is malformed; nothing was done."""

    problem, title, status = "bad-request", "The request is malformed", 400


class Unauthorized(ReefError):
    """No token, or one that this service did not issue."""

    problem, title, status = "unauthorized", "A valid bearer token is needed", 401


class Forbidden(ReefError):
    """The token's role or scenario does not cover this route."""

    problem, title, status = "forbidden", "The token does not allow this", 403


class NotFound(ReefError):
    """Nothing of that name exists."""

    problem, title, status = "not-found", "Not found", 404


class Conflict(ReefError):
    """The state has moved, or an id stands for other content already."""

    problem, title, status = "conflict", "Conflict with the current state", 409


class RequestTimedOut(ReefError):
    """The rest of a request did not come."""

    problem, title, status = "request-timed-out", "The request did not come in time", 408


class PayloadTooLarge(ReefError):
    """A body or a blob is over its limit."""

    problem, title, status = "too-large", "Too large", 413


class Refused(ReefError):
    """A well-formed request that a rule refuses; `reasons` lists every cause."""

    problem, title, status = "refused", "Refused by a rule", 422


class SignatureRejected(ReefError):
    """Signed bytes are malformed, or no trusted key of the needed role signed them."""

    problem, title, status = "signature-rejected", "Signature rejected", 422


class InvalidEvent(ReefError):
    """An event in the log breaks a rule of the fold; it has no effect on any state."""

    problem, title, status = "invalid-event", "Invalid event", 500


class MalformedData(InvalidEvent):
    """An event of a known type and version whose data is not of that type's form."""

    problem, title = "malformed-data", "Malformed event data"


class Unavailable(ReefError):
    """Something that the service needs is away for now; the request can be repeated."""

    problem, title, status = "unavailable", "Temporarily unavailable", 503


class QueueFull(Unavailable):
    """More appends wait than the queue holds."""

    problem, title = "queue-full", "Too many appends are waiting"


class TooManyRequests(Unavailable):
    """So much is not done in so short a time; `retry_after_s` in `extra` says when it is."""

    problem, title, status = "too-many-requests", "Too many requests", 429


class LogUnavailable(Unavailable):
    """The event log's database cannot be reached."""

    problem, title = "log-unavailable", "The event log is unavailable"


class UpstreamUnreachable(ReefError):
    """The server that calls are forwarded to does not answer."""

    problem, title, status = "upstream-unreachable", "The upstream cannot be reached", 502


class UpstreamTimedOut(ReefError):
    """The server that calls are forwarded to did not answer in time."""

    problem, title, status = "upstream-timed-out", "The upstream did not answer in time", 504


class SettingsError(ReefError):
    """A setting, a key file or a command's argument is wrong."""

    problem, title, status = "settings", "A setting is wrong", 500


def token_hint(error: ReefError) -> str:
    """Where programs of this project take the token from that was refused; "" for other errors."""
    if not isinstance(error, Unauthorized | Forbidden):
        return ""
    return (
        "The token is read from the file of --token-file, else from REEF_TOKEN; `reef-release "
        "token create --role ROLE` makes one, and `up` keeps one of each role in HOME/tokens."
    )


def told(error: ReefError) -> str:
    """The error as programs of this project tell it to people; what they can do stands first."""
    reasons = (f"  {reason}" for reason in error.reasons)
    return "\n".join(filter(None, (error.detail, *reasons, token_hint(error), error.next_step)))


def openai_error(status: int, code: str, message: str) -> dict[str, Any]:
    """An error as OpenAI's API describes one, for clients that look at a member `error`."""
    return {
        "message": message,
        "type": "invalid_request_error" if status < 500 else "server_error",
        "param": None,
        "code": code,
    }
