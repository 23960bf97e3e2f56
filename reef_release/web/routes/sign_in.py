"""Signing in with a token, signing out, and the choice of colours."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Request, Response, get, post
from litestar.datastructures import Cookie
from litestar.di import NamedDependency
from litestar.enums import RequestEncodingType
from litestar.params import Body
from litestar.response import Redirect

from reef_release.api.service import Service
from reef_release.errors import BadRequest, ReefError, Unauthorized
from reef_release.web.access import (
    FORM_LIMIT_BYTES,
    check_form,
    check_origin,
    check_role,
    signed_in,
)
from reef_release.web.frame import THEME_COOKIE, THEMES, theme_of
from reef_release.web.render import HEADERS, page
from reef_release.web.session import COOKIE, LIFETIME, Session, Sessions

__all__ = ["choose_theme", "local_path", "send_token", "show_sign_in", "sign_out"]

_YEAR_S = 365 * 86_400
_Request = Request[Any, Session, Any]
_Form = Annotated[dict[str, str], Body(media_type=RequestEncodingType.URL_ENCODED)]


def local_path(wanted: str | None) -> str:
    """A path of this service to go on to, never another site's."""
    if not wanted or not wanted.startswith("/") or wanted.startswith(("//", "/\\")):
        return "/"
    return wanted if wanted.isprintable() else "/"


@get("/sign-in", include_in_schema=False)
async def show_sign_in(request: _Request) -> Response[Any]:
    """The form that asks for a token."""
    return _form(request, request.query_params.get("next"))


@post("/sign-in", request_max_body_size=FORM_LIMIT_BYTES, include_in_schema=False)
async def send_token(
    request: _Request, data: _Form, service: NamedDependency[Service]
) -> Response[Any]:
    """Exchange a token of a role that has pages for a session. The token is kept nowhere."""
    check_origin(request)
    wanted = data.get("next")
    try:
        principal = service.tokens.verify(data.get("token", "").strip())
        check_role(principal)
    except ReefError as error:
        return _form(request, wanted, error)
    response = Redirect(local_path(wanted), status_code=303, headers=HEADERS)
    response.set_cookie(
        Cookie(
            key=COOKIE,
            value=Sessions(service.tokens).open(principal),
            max_age=int(LIFETIME.total_seconds()),
            path="/",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
    )
    return response


@post(
    "/sign-out",
    guards=[signed_in],
    request_max_body_size=FORM_LIMIT_BYTES,
    include_in_schema=False,
)
async def sign_out(request: _Request, data: _Form) -> Response[Any]:
    """Forget the session in this browser."""
    check_form(request, data.get("form_token", ""))
    response = Redirect("/sign-in", status_code=303, headers=HEADERS)
    response.delete_cookie(COOKIE, path="/")
    return response


@post(
    "/theme",
    guards=[signed_in],
    request_max_body_size=FORM_LIMIT_BYTES,
    include_in_schema=False,
)
async def choose_theme(request: _Request, data: _Form) -> Response[Any]:
    """Remember whether pages are light, dark, or as the browser says."""
    check_form(request, data.get("form_token", ""))
    theme = data.get("theme", "")
    if theme not in THEMES:
        raise BadRequest(f"Choose one of {', '.join(THEMES)}.")
    response = Redirect(local_path(data.get("next")), status_code=303, headers=HEADERS)
    response.set_cookie(
        Cookie(
            key=THEME_COOKIE,
            value=theme,
            max_age=_YEAR_S,
            path="/",
            secure=request.url.scheme == "https",
            samesite="lax",
        )
    )
    return response


def _form(request: _Request, wanted: str | None, error: ReefError | None = None) -> Response[Any]:
    status = 200 if error is None else error.status
    if isinstance(error, Unauthorized):
        # A page that asks for a token is no HTTP authentication, which 401 would promise.
        status = 403
    return page(
        "sign_in.html",
        status=status,
        theme=theme_of(request),
        wanted=local_path(wanted),
        error=error,
    )
