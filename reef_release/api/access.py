"""Who may do what: tokens become principals, and routes name their roles."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from reef_release.api.service import Service
from reef_release.errors import Forbidden, Unauthorized
from reef_release.tokens import Principal, TokenRole, Tokens

__all__ = [
    "authenticate",
    "commands",
    "require_all_scenarios",
    "require_scenario",
    "requires",
]

Guard = Callable[[ASGIConnection[Any, Any, Any, Any], BaseRouteHandler], Awaitable[None]]


def requires(*roles: TokenRole) -> Guard:
    """A guard that admits tokens of *roles*.

    A token for one scenario is stopped where the path names another. Routes without a scenario
    in the path (events, blobs, reports) look at `request.user.scenario` themselves.
    """

    # async, since Litestar would run it in a thread otherwise, which doubles the cost of a poll
    async def guard(
        connection: ASGIConnection[Any, Any, Any, Any], _handler: BaseRouteHandler
    ) -> None:
        service: Service = connection.app.state.service
        principal = authenticate(service.tokens, connection.headers.get("authorization"))
        if principal.role not in roles:
            raise Forbidden(
                f"A token of role {principal.role} may not do this.",
                next_step=f"Use a token of role {' or '.join(sorted(roles))}.",
            )
        wanted = connection.path_params.get("scenario")
        if wanted is not None:
            require_scenario(principal, wanted)
        connection.scope["user"] = principal

    return guard


def commands(*roles: TokenRole) -> Guard:
    """A guard of a route that appends: like `requires`, and it lets the request in only when
    this process has folded all that was in the log when the request came.

    So of several services any may be asked next: none answers from before the last answer.
    """
    admit = requires(*roles)

    async def guard(
        connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler
    ) -> None:
        await admit(connection, handler)
        service: Service = connection.app.state.service
        await service.live.catch_up()

    return guard


def require_scenario(principal: Principal, scenario: str) -> None:
    """Raises `Forbidden` for a token of another scenario."""
    if principal.scenario not in (None, scenario):
        raise Forbidden(
            f"This token is for the scenario {principal.scenario!r} alone.",
            next_step=f"Use a token for {scenario!r}, or one for all scenarios.",
        )


def require_all_scenarios(principal: Principal) -> None:
    """Raises `Forbidden` for a token of one scenario: what follows concerns all of them."""
    if principal.scenario is not None:
        raise Forbidden(
            f"This token is for the scenario {principal.scenario!r} alone, and the trust root is "
            "that of all scenarios.",
            next_step="Use a token that is not limited to a scenario.",
        )


def authenticate(tokens: Tokens, header: str | None) -> Principal:
    """The principal of an Authorization header. Raises `Unauthorized`.

    The scheme is compared without case (RFC 9110 §11.1); the token is not.
    """
    scheme, _, token = (header or "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthorized(
            "No bearer token was sent.",
            next_step="Send the header `Authorization: Bearer TOKEN`.",
        )
    return tokens.verify(token.strip())
