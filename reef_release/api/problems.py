"""Errors as RFC 9457 problem details, with the reasons and the next step as extensions."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec
import structlog
from litestar.exceptions import HTTPException
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import SecurityRequirement
from litestar.plugins.problem_details import (
    ProblemDetailsConfig,
    ProblemDetailsException,
    ProblemDetailsPlugin,
)

from reef_release.domain.reasons import Reason
from reef_release.errors import BadRequest, ReefError, Unauthorized, Unavailable

__all__ = [
    "CLAIM_ANSWERS",
    "FORWARD_PROBLEMS",
    "GONE",
    "PROBLEM_PREFIX",
    "PUBLIC",
    "READ_PROBLEMS",
    "SIGNED_ANSWERS",
    "SUBMIT_PROBLEMS",
    "WRITE_PROBLEMS",
    "Problem",
    "problem_for",
    "problem_of",
    "problem_of_http",
    "problem_plugin",
]

PROBLEM_PREFIX = "urn:reef-release:problem:"
_RETRY_AFTER_S = "1"
_log = structlog.get_logger(__name__)

_HTTP = {
    400: "bad-request",
    401: "unauthorized",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    413: "too-large",
    415: "unsupported-media-type",
    416: "range-not-satisfiable",
}


_NEXT_STEPS = {
    401: "Send the header `Authorization: Bearer TOKEN`.",
    403: "Use a token whose role and scenario cover this.",
    404: "Check the path and the names in it.",
    405: "Use a method that the header Allow lists.",
    409: "Read the state again, then decide again.",
    413: "Send less at once.",
    416: "Ask for a range inside the blob.",
    422: "Mend every reason listed, then send the request again.",
    500: "Tell the operator; the service's own log has the details.",
    503: "Repeat the request in a moment.",
}
_NEXT_STEP = "Compare the request with the API's description at /schema."


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """The shape of every error's body."""

    type: str
    title: str
    status: int
    detail: str
    next_step: str = ""
    reasons: list[Reason] = []


def _described(*statuses: int) -> dict[int, ResponseSpec]:
    return {
        status: ResponseSpec(
            data_container=Problem,
            description=HTTPStatus(status).phrase,
            media_type="application/problem+json",
            generate_examples=False,
        )
        for status in statuses
    }


READ_PROBLEMS = _described(400, 401, 403, 404, 503)
"""What a route that only reads may answer, for the API's description."""

WRITE_PROBLEMS = _described(400, 401, 403, 404, 408, 409, 413, 422, 503)
"""What a route that appends may answer."""

SUBMIT_PROBLEMS = WRITE_PROBLEMS | _described(429)
"""What the route for candidates may answer."""

GONE = _described(410)
"""What a route for blobs answers of an erased one, besides."""

FORWARD_PROBLEMS = _described(400, 401, 403, 404, 408, 413, 502, 503, 504)
"""What a route that forwards may answer, besides the upstream's own errors."""

CLAIM_ANSWERS = {
    **WRITE_PROBLEMS,
    204: ResponseSpec(None, generate_examples=False, description="There is nothing to do now"),
}
"""What a route that hands out work may answer, besides the work."""

SIGNED_ANSWERS = {
    **READ_PROBLEMS,
    200: ResponseSpec(dict[str, Any], generate_examples=False, description="A signed document"),
}
"""What a route that gives signed JSON as it was signed may answer."""

PUBLIC: list[SecurityRequirement] = [{}]
"""The security of routes that need no token."""


def problem_plugin() -> ProblemDetailsPlugin:
    """The plugin that turns every exception into a problem."""
    return ProblemDetailsPlugin(
        ProblemDetailsConfig(
            exception_to_problem_detail_map={
                ReefError: problem_of,
                HTTPException: problem_of_http,
                RecursionError: _from_depth,
                Exception: _from_defect,
            }
        )
    )


def problem_for(error: Exception) -> ProblemDetailsException:
    """Any exception as a problem; a defect is logged."""
    match error:
        case ReefError():
            return problem_of(error)
        case HTTPException():
            return problem_of_http(error)
        case RecursionError():
            return _from_depth(error)
        case _:
            return _from_defect(error)


def problem_of(error: ReefError) -> ProblemDetailsException:
    """A raised error as a problem."""
    headers = {}
    if isinstance(error, Unavailable):
        headers["Retry-After"] = str(error.extra.get("retry_after_s", _RETRY_AFTER_S))
    if isinstance(error, Unauthorized):
        headers["WWW-Authenticate"] = "Bearer"
    if error.status >= 500 and not isinstance(error, Unavailable):
        _log.error("request failed", problem=error.problem, detail=error.detail)
    return ProblemDetailsException(
        type_=PROBLEM_PREFIX + error.problem,
        title=error.title,
        status_code=error.status,
        detail=error.detail,
        headers=headers,
        extra={
            "next_step": error.next_step or _NEXT_STEPS.get(error.status, _NEXT_STEP),
            "reasons": [msgspec.to_builtins(reason) for reason in error.reasons],
            **error.extra,
        },
    )


def problem_of_http(error: HTTPException) -> ProblemDetailsException:
    """What the framework raised, as a problem."""
    if isinstance(error, ProblemDetailsException):
        return error
    name = _HTTP.get(error.status_code, "error")
    reasons = []
    if isinstance(error.extra, list):
        reasons = [
            {
                "code": "invalid-field",
                "message": str(fault.get("message", "")),
                "where": str(fault.get("key", "")),
            }
            for fault in error.extra
            if isinstance(fault, dict)
        ]
    return ProblemDetailsException(
        type_=PROBLEM_PREFIX + name,
        title=error.detail if error.status_code >= 500 else name.replace("-", " ").capitalize(),
        status_code=error.status_code,
        detail=error.detail,
        headers=dict(error.headers or {}),
        extra={
            "next_step": _NEXT_STEPS.get(error.status_code, _NEXT_STEP),
            "reasons": reasons,
        },
    )


def _from_depth(_error: RecursionError) -> ProblemDetailsException:
    """The JSON reader's way to say that a body is nested deeper than it can follow."""
    return problem_of(BadRequest("The request is nested too deeply.", next_step="Flatten it."))


def _from_defect(error: Exception) -> ProblemDetailsException:
    _log.error("defect", exc_info=error)
    return ProblemDetailsException(
        type_=PROBLEM_PREFIX + "defect",
        title="A defect in the service",
        status_code=500,
        detail="The request met a defect; the service's own log has the details.",
        extra={"next_step": "Nothing is known to be written; read the state again.", "reasons": []},
    )
