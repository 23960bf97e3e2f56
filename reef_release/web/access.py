"""Who sees which page, and which requests may change something.

Auditors and operators see every page. Approvers see those that an approval rests on: what waits and
is served, candidates, gates and the signal, as the API shows them; never events, sessions or texts.
"""

from __future__ import annotations

from typing import Any

from litestar import Request
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from reef_release.api.access import require_scenario
from reef_release.api.service import Service
from reef_release.errors import Forbidden
from reef_release.tokens import Principal, TokenRole
from reef_release.web.session import COOKIE, ROLES, Session, Sessions

__all__ = [
    "FORM_LIMIT_BYTES",
    "check_form",
    "check_origin",
    "check_role",
    "place_of",
    "sees",
    "session_of",
    "signed_in",
]

_PLACES_OF_APPROVERS = frozenset(
    {"", "candidates", "do", "gates", "policies", "sign-out", "signal", "theme"}
)

FORM_LIMIT_BYTES = 65_536
"""A form is parsed before anybody is known: the longest reason fits, and nothing that blocks."""


def session_of(connection: ASGIConnection[Any, Any, Any, Any]) -> Session:
    """The session of a request. Raises `Unauthorized`."""
    service: Service = connection.app.state.service
    return Sessions(service.tokens).check(connection.cookies.get(COOKIE))


async def signed_in(
    connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler
) -> None:
    """A guard that admits people who are signed in, to the pages of their role and scenario."""
    session = session_of(connection)
    check_role(session.principal)
    if not all(sees(session.principal, place_of(path)) for path in handler.paths):
        raise Forbidden(
            f"This page is not for a token of role {session.principal.role}.",
            next_step="Sign in with a token of role audit or operate to see it.",
        )
    scenario = connection.path_params.get("scenario")
    if scenario is not None:
        require_scenario(session.principal, scenario)
    connection.scope["user"] = session.principal
    connection.scope["auth"] = session


def check_role(principal: Principal) -> None:
    """Raises `Forbidden` for a role that the pages do not admit."""
    if principal.role not in ROLES:
        raise Forbidden(
            f"A token of role {principal.role} is not for the pages.",
            next_step="Use a token of role audit to look, of role approve to approve, or of role "
            "operate to act in other ways as well; `reef-release token create --role audit` makes "
            "one. Programs send theirs to the API.",
        )


def sees(principal: Principal, place: str) -> bool:
    """Whether *principal* is shown the pages of a `place_of`."""
    return principal.role is not TokenRole.APPROVE or place in _PLACES_OF_APPROVERS


def place_of(path: str) -> str:
    """What the path of a route leads to: its word below a scenario, or else its first."""
    words = path.strip("/").split("/")
    return "".join(words[2:3]) if words[0] == "s" else words[0]


def check_origin(request: Request[Any, Any, Any]) -> None:
    """Raises `Forbidden` for a form that another site sent.

    Browsers say so in Sec-Fetch-Site; to an address without TLS they may say it in Origin alone,
    which our referrer policy leaves as it is. "null" is of another site, or of none. What sends
    neither is no browser.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        own = site == "same-origin"
    else:
        own = origin in (None, f"{request.url.scheme}://{request.url.netloc}")
    if not own:
        raise Forbidden(
            "The form was sent from another site.", next_step="Open the page here and send it."
        )


def check_form(request: Request[Any, Any, Any], token: str) -> None:
    """Raises `Forbidden` for a form that no page of this session holds."""
    check_origin(request)
    service: Service = request.app.state.service
    session: Session = request.auth
    if not Sessions(service.tokens).is_form_token(session, token):
        raise Forbidden(
            "The form is not of this session.",
            next_step="Reload the page and send the form again.",
        )
