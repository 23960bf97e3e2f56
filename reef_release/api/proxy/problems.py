"""Errors under `/v1`: problem details that OpenAI's clients can read as well.

RFC 9457 §3.2 allows further members, and OpenAI's clients look at one called `error`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from litestar import Request, Response
from litestar.exceptions import HTTPException, MethodNotAllowedException, NotFoundException
from litestar.plugins.problem_details import ProblemDetailsException

from reef_release.api.problems import PROBLEM_PREFIX, problem_of, problem_of_http
from reef_release.errors import NotFound, ReefError, openai_error

__all__ = ["OPENAI_ERRORS", "openai_problem", "reef_openai_error", "unrouted_handlers"]

_ROUTES = "POST /v1/chat/completions and GET /v1/models"


def reef_openai_error(error: ReefError) -> dict[str, Any]:
    """The error as OpenAI's API describes one."""
    return openai_error(error.status, error.problem, f"{error.detail} {error.next_step}".strip())


def openai_problem(error: ReefError) -> ProblemDetailsException:
    """The error as both."""
    return _with_error(problem_of(error))


def _with_error(problem: ProblemDetailsException) -> ProblemDetailsException:
    extra = problem.extra if isinstance(problem.extra, dict) else {}
    code = (problem.type_ or "").removeprefix(PROBLEM_PREFIX)
    message = f"{problem.detail} {extra.get('next_step', '')}".strip()
    problem.extra = {**extra, "error": openai_error(problem.status_code, code, message)}
    return problem


def _handle(request: Request[Any, Any, Any], error: ReefError) -> Response[Any]:
    return openai_problem(error).to_response(request)


def _unrouted(request: Request[Any, Any, Any], error: HTTPException) -> Response[Any]:
    path = request.url.path
    if not f"{path}/".startswith("/v1/"):
        return problem_of_http(error).to_response(request)
    if isinstance(error, NotFoundException):
        absent = NotFound(
            f"{path[:200]} does not exist here; of OpenAI's API there is {_ROUTES}.",
            next_step="Have the client call these, with the base URL of this service and /v1.",
        )
        return openai_problem(absent).to_response(request)
    return _with_error(problem_of_http(error)).to_response(request)


OPENAI_ERRORS: dict[int | type[Exception], Any] = {ReefError: _handle}
"""The exception handlers of a chat route."""


def unrouted_handlers(
    page: Callable[[Request[Any, Any, Any], HTTPException], Response[Any] | None] | None,
) -> dict[int | type[Exception], Any]:
    """The exception handlers of what no route takes; *page* may answer people's browsers."""

    def handle(request: Request[Any, Any, Any], error: HTTPException) -> Response[Any]:
        shown = page(request, error) if page is not None else None
        return _unrouted(request, error) if shown is None else shown

    return {NotFoundException: handle, MethodNotAllowedException: handle}
