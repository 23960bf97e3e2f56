"""Errors of the engine's server as RFC 9457 problem details.

What always holds: an answer of 400 or above has media type ``application/problem+json`` and, for
every error of the project's tree, its next step and reasons; OpenAI's clients find it in `error`.
"""

from __future__ import annotations

import logging
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException
from litestar.types import ExceptionHandlersMap

from reef_release.errors import ReefError, openai_error

__all__ = ["EXCEPTION_HANDLERS", "problem"]

_PREFIX = "urn:reef-release:problem:"
_log = logging.getLogger(__name__)


def problem(error: Exception) -> dict[str, Any]:
    """The problem details of ``error``; a defect goes to the log instead, with its trace."""
    details = _details(error)
    code = details["type"].rpartition(":")[2]
    message = f"{details['detail']} {details.get('next_step', '')}".strip()
    return {**details, "error": openai_error(details["status"], code, message)}


def _details(error: Exception) -> dict[str, Any]:
    if isinstance(error, ReefError):
        return {
            "type": f"{_PREFIX}{error.problem}",
            "title": error.title,
            "status": error.status,
            "detail": error.detail,
            "next_step": error.next_step,
            "reasons": msgspec.to_builtins(error.reasons),
        }
    if isinstance(error, HTTPException):
        return {
            "type": f"{_PREFIX}http-{error.status_code}",
            "title": error.detail,
            "status": error.status_code,
            "detail": error.detail,
        }
    _log.error("a request failed", exc_info=error)
    return {
        "type": f"{_PREFIX}defect",
        "title": "Internal error",
        "status": 500,
        "detail": "The engine failed in a way it does not know; its log has the trace.",
    }


def _handle(_: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    details = problem(error)
    return Response(
        msgspec.json.encode(details),
        status_code=details["status"],
        media_type="application/problem+json",
    )


EXCEPTION_HANDLERS: ExceptionHandlersMap = {
    ReefError: _handle,
    HTTPException: _handle,
    Exception: _handle,
}
