"""The chain of trust roots (TUF root metadata), public to everybody, and its keys.

A root comes into force by its own signatures: the token that hands it in decides nothing, and no
token can make, change or skip one. Revoking a key takes a signature's force away and gives none.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from litestar import Request, Response, get, post, put
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from reef_release.api.access import commands, require_all_scenarios, requires
from reef_release.api.given import given_reason
from reef_release.api.problems import PUBLIC, READ_PROBLEMS, SIGNED_ANSWERS, WRITE_PROBLEMS
from reef_release.api.service import Service
from reef_release.domain import events as ev
from reef_release.domain.reasons import Reason
from reef_release.errors import NotFound, Refused
from reef_release.signing.root import open_root
from reef_release.tokens import Principal, TokenRole
from reef_release.wire import KeysView, KeyView, ReasonRequest, RootRequest, WrittenView

__all__ = ["TRUST_HANDLERS"]

_OPERATOR = commands(TokenRole.OPERATE)


@get(
    "/reef/trust/root",
    summary="The trust root in force",
    security=PUBLIC,
    responses=SIGNED_ANSWERS,
)
async def current_root(service: NamedDependency[Service]) -> Response[bytes]:
    """Signed TUF root metadata, byte for byte as the log has it."""
    roots = service.state.roots
    if not roots:
        raise NotFound("No trust root is in the log yet.")
    return _metadata(roots[max(roots)])


@get(
    "/reef/trust/root/{version:int}",
    summary="An earlier trust root",
    security=PUBLIC,
    responses=SIGNED_ANSWERS,
)
async def root_version(
    version: FromPath[int], service: NamedDependency[Service]
) -> Response[bytes]:
    """For clients that follow the chain version by version."""
    metadata = service.state.roots.get(version)
    if metadata is None:
        raise NotFound(f"There is no trust root of version {version}.")
    return _metadata(metadata)


@put(
    "/reef/trust/root",
    guards=[_OPERATOR],
    summary="Put the next trust root into force",
    responses=WRITE_PROBLEMS,
)
async def put_root(
    request: Request[Principal, Any, Any],
    data: JSONBody[RootRequest],
    service: NamedDependency[Service],
) -> WrittenView:
    """The direct successor of the root in force, signed by a threshold of both.

    Keys that it lists for the first time are added; keys that it lists no longer are revoked.
    """
    require_all_scenarios(request.user)
    root = service.state.root
    opened = open_root(data.metadata, root.metadata if root is not None else None)
    if datetime.fromisoformat(opened.expires_at) <= datetime.now(UTC):
        raise Refused(
            f"This root ended at {opened.expires_at}.",
            next_step="Make one that lasts with `reef-release keys rotate`.",
            reasons=[Reason(code="root-expired", message="a root that has ended helps nobody")],
        )
    appended, event_id = await service.commands.append(
        request.user.name,
        ev.GLOBAL,
        ev.RootRotated(
            version=opened.version, metadata=data.metadata, reason=given_reason(data.reason)
        ),
    )
    return WrittenView(position=appended.position, event_id=event_id)


@get(
    "/reef/trust/keys",
    guards=[requires(*TokenRole)],
    summary="Keys of the log",
    responses=READ_PROBLEMS,
)
async def list_keys(service: NamedDependency[Service]) -> KeysView:
    """Every key that ever counted, and from where to where."""
    return KeysView(
        keys=[
            KeyView(
                key_id=key.ref.key_id,
                role=key.ref.role,
                public_key=key.ref.public_key,
                added_position=key.added_position,
                revoked_position=key.revoked_position,
            )
            for key in service.state.keys.values()
        ]
    )


@post(
    "/reef/trust/keys/{key_id:str}/revoke",
    guards=[_OPERATOR],
    summary="Revoke a key",
    responses=WRITE_PROBLEMS,
)
async def revoke_key(
    request: Request[Principal, Any, Any],
    key_id: FromPath[str],
    data: JSONBody[ReasonRequest],
    service: NamedDependency[Service],
) -> WrittenView:
    """What it signs from now on does not count, and nothing that rests on it is served anew."""
    require_all_scenarios(request.user)
    key = service.state.keys.get(key_id)
    if key is None:
        raise NotFound(
            f"There is no key {key_id!r} in the log.",
            next_step="`reef-release keys list` shows them; root keys go by the next root.",
        )
    appended, event_id = await service.commands.append(
        request.user.name,
        ev.GLOBAL,
        ev.KeyRevoked(key_id=key_id, role=key.ref.role, reason=given_reason(data.reason)),
    )
    return WrittenView(position=appended.position, event_id=event_id)


def _metadata(text: str) -> Response[bytes]:
    return Response(text.encode(), media_type="application/json")


TRUST_HANDLERS = [current_root, list_keys, put_root, revoke_key, root_version]
