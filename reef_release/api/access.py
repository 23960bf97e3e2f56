"""Who may do what: tokens become principals, routes name their roles, blobs their readers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from reef_release.api.service import Service
from reef_release.domain.state import State
from reef_release.errors import Forbidden, Unauthorized
from reef_release.tokens import Principal, TokenRole, Tokens

__all__ = ["BlobReaders", "authenticate", "requires"]

Guard = Callable[[ASGIConnection[Any, Any, Any, Any], BaseRouteHandler], None]


def requires(*roles: TokenRole) -> Guard:
    """A guard that admits tokens of *roles*, for the scenario in the path if they have one."""

    def guard(connection: ASGIConnection[Any, Any, Any, Any], _handler: BaseRouteHandler) -> None:
        service: Service = connection.app.state.service
        principal = authenticate(service.tokens, connection.headers.get("authorization"))
        if principal.role not in roles:
            raise Forbidden(
                f"A token of role {principal.role} may not do this.",
                next_step=f"Use a token of role {' or '.join(sorted(roles))}.",
            )
        wanted = connection.path_params.get("scenario")
        if principal.scenario is not None and wanted != principal.scenario:
            raise Forbidden(
                f"This token is for the scenario {principal.scenario!r} alone.",
                next_step="Use a token of the scenario in the path.",
            )
        connection.scope["user"] = principal

    return guard


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


class BlobReaders:
    """Which blobs others than the auditor may read: weights, bundles, canaries and schemas.

    Suites hold the gate's answers and trial bodies hold what models replied, so those are
    named nowhere here and only the audit role reads them.
    """

    def __init__(self) -> None:
        self._position = -1
        self._digests: frozenset[str] = frozenset()

    def may_read(self, principal: Principal, digest: str, state: State) -> bool:
        """Whether *principal* may read the blob *digest* at this state."""
        if principal.role is TokenRole.AUDIT:
            return True
        if self._position != state.position:
            self._digests = frozenset(_shared(state))
            self._position = state.position
        return digest in self._digests


def _shared(state: State) -> set[str]:
    digests: set[str] = set()
    secret: set[str] = set()
    for scenario in state.scenarios.values():
        digests.add(scenario.schema)
        secret.update(entry.policy.suite for entry in scenario.policies)
        for candidate in scenario.candidates.values():
            digests.update(file.sha256 for file in candidate.submitted.files)
        for release in scenario.releases.values():
            digests.add(release.bundle)
        for gate in scenario.gates.values():
            secret.update(trial.body for trial in gate.trials if trial.body is not None)
            if gate.canary is not None:
                digests.add(gate.canary)
    # A candidate that lists the suite's digest among its files must not open it.
    return digests - secret
