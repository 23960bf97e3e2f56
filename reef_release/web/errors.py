"""Errors as pages, for browsers; whoever does not ask for HTML gets the API's problem details.

A page says what is wrong in the words of people, and what to do: the framework's own messages are
about types and patterns of the API, and none of them is shown.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from litestar import Request, Response
from litestar.exceptions import (
    HTTPException,
    MethodNotAllowedException,
    NotFoundException,
    ValidationException,
)
from litestar.response import Redirect

from reef_release.api.problems import problem_for
from reef_release.errors import BadRequest, NotFound, ReefError, Unauthorized
from reef_release.web.frame import theme_of
from reef_release.web.render import HEADERS, page
from reef_release.web.signal_health import MOST_HOURS

__all__ = ["PAGE_ERRORS", "unrouted", "wants_page"]

_POSITION = "a position of the log: a whole number from 0 on"
_MEANINGS = {
    "after": _POSITION,
    "before": _POSITION,
    "hours": f"a number of hours from 1 to {MOST_HOURS}",
    "page": "the number of a page: a whole number from 1 on",
    "q": "a text of at most 200 characters without U+0000",
    "scenario": "the name of a scenario",
    "slot": "the number of a task: a whole number from 0 on",
    "task": "the number of a task: a whole number from 0 on",
    "type": "the name of an event type",
}
"""What stands in an address under each name."""

_IN_ADDRESSES = {"event_type": "type", "of": "scenario"}
"""What handlers call otherwise than addresses."""

_MOST_SHOWN = 40
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
    problem = problem_for(_in_words(request, error))
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


def _in_words(request: Request[Any, Any, Any], error: Exception) -> Exception:
    """What the framework raised, as an error of ours; any other as it is."""
    if isinstance(error, ValidationException):
        faults = error.extra if isinstance(error.extra, list) else []
        keys = [str(each.get("key", "")) for each in faults]
        names = sorted({_IN_ADDRESSES.get(key, key) for key in keys} & set(_MEANINGS))
        if not names:
            return BadRequest(
                "The form is not one of this service.", next_step="Open the page and send it again."
            )
        said = {name: request.query_params.get(name, "") for name in names}
        return BadRequest(
            " ".join(
                f"{name}={value[:_MOST_SHOWN]}{'…' * (len(value) > _MOST_SHOWN)} in the address "
                f"is not {_MEANINGS[name]}."
                for name, value in said.items()
            ),
            next_step=f"Leave {' and '.join(names)} out of the address, or follow a link.",
        )
    if isinstance(error, NotFoundException):
        return NotFound(
            "There is no page at this address.",
            next_step="Check the address, or start from the overview.",
        )
    if isinstance(error, MethodNotAllowedException):
        return HTTPException(
            "This address is only for what a form of a page sends.",
            status_code=error.status_code,
            headers=error.headers,
        )
    return error


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
