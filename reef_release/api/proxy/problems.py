"""Errors of the chat routes: problem details that OpenAI's clients can read as well.

RFC 9457 §3.2 allows further members, and OpenAI's clients look at one called `error`.
"""

from __future__ import annotations

from typing import Any

from litestar import Request, Response
from litestar.plugins.problem_details import ProblemDetailsException

from reef_release.api.problems import problem_of
from reef_release.errors import ReefError

__all__ = ["OPENAI_ERRORS", "openai_error", "openai_problem"]


def openai_error(error: ReefError) -> dict[str, Any]:
    """The error as OpenAI's API describes one."""
    return {
        "message": f"{error.detail} {error.next_step}".strip(),
        "type": "invalid_request_error" if error.status < 500 else "server_error",
        "param": None,
        "code": error.problem,
    }


def openai_problem(error: ReefError) -> ProblemDetailsException:
    """The error as both."""
    problem = problem_of(error)
    extra = problem.extra if isinstance(problem.extra, dict) else {}
    problem.extra = {**extra, "error": openai_error(error)}
    return problem


def _handle(request: Request[Any, Any, Any], error: ReefError) -> Response[Any]:
    return openai_problem(error).to_response(request)


OPENAI_ERRORS: dict[int | type[Exception], Any] = {ReefError: _handle}
"""The exception handlers of a chat route."""
