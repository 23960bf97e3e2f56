"""Who may do what: tokens become principals, and routes name their roles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from reef_release.api.service import Service
from reef_release.errors import Forbidden, Unauthorized
from reef_release.tokens import Principal, TokenRole, Tokens

__all__ = [
    "RoleGuard",
    "authenticate",
    "commands",
    "require_all_scenarios",
    "require_scenario",
    "requires",
    "roles_of",
]


@dataclass(frozen=True, kw_only=True)
class RoleGuard:
    """A guard that admits tokens of `roles`; `roles_of` reads them off a route.

    With `catches_up` it lets a request in only when this process has folded all that was in the
    log when the request came.
    """

    roles: tuple[TokenRole, ...]
    catches_up: bool = False

    # async, since Litestar would run it in a thread otherwise, which doubles the cost of a poll
    async def __call__(
        self, connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler
    ) -> None:
        service: Service = connection.app.state.service
        try:
            principal = authenticate(service.tokens, connection.headers.get("authorization"))
        except Unauthorized as error:
            raise Unauthorized(
                error.detail, next_step=f"{error.next_step} {_wanted(handler)}"
            ) from error
        if principal.role not in self.roles:
            raise Forbidden(
                f"A token of role {principal.role} may not do this.", next_step=_wanted(handler)
            )
        wanted = connection.path_params.get("scenario")
        if wanted is not None:
            require_scenario(principal, wanted)
        connection.scope["user"] = principal
        if self.catches_up:
            await service.live.catch_up()


def requires(*roles: TokenRole) -> RoleGuard:
    """A guard that admits tokens of *roles*.

    A token for one scenario is stopped where the path names another. Routes without a scenario
    in the path (events, blobs, reports) look at `request.user.scenario` themselves.
    """
    return RoleGuard(roles=roles)


def commands(*roles: TokenRole) -> RoleGuard:
    """A guard of a route that appends: like `requires`, and it lets the request in only when
    this process has folded all that was in the log when the request came.

    So of several services any may be asked next: none answers from before the last answer.
    """
    return RoleGuard(roles=roles, catches_up=True)


def roles_of(handler: BaseRouteHandler) -> tuple[TokenRole, ...] | None:
    """The roles that every guard of *handler* admits, in their own order; None if none is asked.

    A route's guards stand behind those of its controller, and a request passes all of them.
    """
    guards = [guard for guard in handler.resolve_guards() if isinstance(guard, RoleGuard)]
    if not guards:
        return None
    return tuple(role for role in TokenRole if all(role in guard.roles for guard in guards))


def _wanted(handler: BaseRouteHandler) -> str:
    """Which token to use for *handler*, where one guard of several has refused."""
    roles = roles_of(handler) or ()
    if set(roles) == set(TokenRole):
        return "A token of any role does."
    return f"Use a token of role {' or '.join(sorted(roles))}."


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
            next_step="Over HTTP, send the header `Authorization: Bearer TOKEN`.",
        )
    return tokens.verify(token.strip())
