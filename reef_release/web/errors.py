"""Errors as pages, for browsers; whoever does not ask for HTML gets the API's problem details."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from litestar import Request, Response
from litestar.exceptions import (
    HTTPException,
    MethodNotAllowedException,
    NotFoundException,
)
from litestar.response import Redirect

from reef_release.api.problems import problem_for
from reef_release.errors import ReefError, Unauthorized
from reef_release.web.frame import theme_of
from reef_release.web.render import HEADERS, page

__all__ = ["PAGE_ERRORS", "unrouted", "wants_page"]

_OF_THE_API = ("/reef", "/v1", "/schema", "/healthz", "/readyz", "/metrics")


def wants_page(request: Request[Any, Any, Any]) -> bool:
    """Whether a person's browser asks."""
    return "text/html" in request.headers.get("accept", "")


def unrouted(request: Request[Any, Any, Any], error: HTTPException) -> Response[Any] | None:
    """The page for a path that no route takes; None leaves it to the API."""
    path = request.url.path
    of_the_api = any(path == each or path.startswith(f"{each}/") for each in _OF_THE_API)
    return None if of_the_api or not wants_page(request) else error_page(request, error)


def error_page(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    """The error as a page that says what to do next."""
    problem = problem_for(error)
    extra = problem.extra if isinstance(problem.extra, dict) else {}
    response = page(
        "error.html",
        status=problem.status_code,
        theme=theme_of(request),
        title=problem.title,
        code=problem.status_code,
        detail=problem.detail,
        next_step=extra.get("next_step", ""),
        reasons=extra.get("reasons", []),
        erased_at=extra.get("erased_at", ""),
        position=extra.get("position"),
    )
    for name, value in (problem.headers or {}).items():
        if name.lower() != "www-authenticate":
            response.headers[name] = value
    return response


def _handle(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    if not wants_page(request):
        response: Response[Any] = problem_for(error).to_response(request)
        response.headers.update(HEADERS)
        return response
    if isinstance(error, Unauthorized) and request.method == "GET":
        wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        query = f"?{urlencode({'next': wanted})}" if wanted != "/" else ""
        return Redirect(f"/sign-in{query}", status_code=303, headers=HEADERS)
    return error_page(request, error)


_KINDS = (
    Exception,
    HTTPException,
    MethodNotAllowedException,
    NotFoundException,
    RecursionError,
    ReefError,
)
PAGE_ERRORS: dict[int | type[Exception], Any] = dict.fromkeys(_KINDS, _handle)
"""The exception handlers of the pages; they name all that the application has handlers for."""
