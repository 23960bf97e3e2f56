"""The roles of a route can be read off its guards, and every route has them or is public."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from litestar.handlers import HTTPRouteHandler
from litestar.routes import HTTPRoute

from reef_release.api.access import roles_of
from reef_release.api.app import create_app
from reef_release.api.problems import PUBLIC
from reef_release.api.service import Service
from reef_release.tokens import TokenRole
from reef_release.web.pages import PAGES

API = ("/reef", "/v1", "/healthz", "/readyz", "/metrics")
"""Where its paths begin; those of the pages begin otherwise."""


def handlers() -> dict[str, HTTPRouteHandler]:
    """Every handler of the API by its method and path."""
    app = create_app(cast("Service", SimpleNamespace()), PAGES)
    return {
        f"{method} {route.path_format}": handler
        for route in app.routes
        if isinstance(route, HTTPRoute) and route.path_format.startswith(API)
        for handler in route.route_handlers
        for method in handler.http_methods - {"OPTIONS"}
    }


def test_a_route_asks_for_a_role_or_is_declared_public() -> None:
    found = handlers()
    assert len(found) > 50
    for name, handler in found.items():
        assert (roles_of(handler) is None) == (list(handler.security or ()) == PUBLIC), name
        assert roles_of(handler) != (), name


def test_a_route_within_a_controller_admits_only_what_both_admit() -> None:
    path = "/reef/scenarios/{scenario}/releases/{release_id}/bundle"
    assert roles_of(handlers()[f"POST {path}"]) == (TokenRole.SIGN,)
    readers = roles_of(handlers()[f"GET {path}"])
    assert readers is not None
    assert {TokenRole.SIGN, TokenRole.SERVE} < set(readers)


def test_nobody_but_the_signer_the_gate_and_their_service_comes_near_a_promotion() -> None:
    found = handlers()
    decision = "POST /reef/scenarios/{scenario}/gates/{gate_id}/decision"
    assert roles_of(found[decision]) == (TokenRole.GATE,)
    assert not [name for name in found if "promot" in name]
