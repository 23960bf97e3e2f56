"""Trust roots: the way out after a stolen pointer key, and roots that nobody may follow."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

import httpx

from reef_release.drill.attack import Outcome
from reef_release.drill.context import Context
from reef_release.drill.errors import GotThrough
from reef_release.drill.lying import (
    attack_on_node,
    document,
    honest,
    outcome,
    refused,
    target,
)
from reef_release.signing.keyring import PRIVATE_NAME
from reef_release.signing.keys import PublicKey, Role, SigningKey, create_key, load_key
from reef_release.signing.root import create_root, open_root

__all__ = ["ATTACKS"]

_MAX_SERIAL = 2**53 - 1


_LIFETIME = timedelta(days=30)


def _poisoned(context: Context) -> Outcome:
    """The highest serial there is, by the stolen key; then a root with another pointer key."""
    with target(context) as held:
        held.lie(document(context, serial=_MAX_SERIAL))
        poisoned = held.node.step()
        if poisoned.release_id != context.serving():
            raise GotThrough("The node moved.")
        held.answers.clear()
        seen = refused(held, "serial-lower", context.serving())
        pointer = create_key(Role.POINTER)
        root = _root(context, 2, {Role.POINTER: pointer})
        held.answers["/reef/trust/root/2"] = partial(_said, root)
        held.lie(document(context, key=pointer, root_version=2, serial=honest(context).serial))
        healed = held.node.step()
        if healed.reasons or healed.release_id != context.serving():
            raise GotThrough("The new root did not heal the node.", reasons=healed.reasons)
    return Outcome(seen=(seen,), twin=f"after root 2 the node goes on, at serial {healed.serial}")


def _root_keys(context: Context) -> list[SigningKey]:
    folder = context.stack.keys / Role.ROOT
    return [load_key(each / PRIVATE_NAME, Role.ROOT) for each in sorted(folder.iterdir())]


def _root(
    context: Context,
    version: int,
    keys: dict[Role, SigningKey] | None = None,
    signers: Sequence[SigningKey] | None = None,
) -> str:
    """A root after the anchor; *keys* replace those of a role, *signers* the real root keys."""
    anchor = open_root(context.anchor)
    roots = list(signers) if signers is not None else _root_keys(context)
    roles: dict[Role, Sequence[PublicKey]] = dict(anchor.keys_by_role)
    del roles[Role.ROOT]
    roles |= {role: (key.public,) for role, key in (keys or {}).items()}
    return create_root(
        version=version,
        threshold=anchor.threshold,
        root_keys=[key.public for key in roots],
        role_keys=roles,
        expires=datetime.now(UTC) + _LIFETIME,
        signers=roots,
    )


def _said(text: str, _request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, text=text)


def _roots(context: Context) -> Outcome:
    thieves = [create_key(Role.ROOT) for _ in range(3)]
    one = _root_keys(context)[:1]
    seen = []
    for text, code in (
        (_root(context, 3), "root-version"),
        (_root(context, 2, signers=thieves), "root-threshold"),
        (_root(context, 2, signers=[*one, *thieves[:2]]), "root-threshold"),
    ):
        with target(context) as held:
            held.answers["/reef/trust/root/2"] = partial(_said, text)
            seen.append(refused(held, code, context.serving()))
    return outcome(context, *seen)


def _other_root(context: Context) -> Outcome:
    """After the node has followed root 2: a document on root 1 again, and one on root 3."""
    seen = []
    with target(context) as held:
        held.answers["/reef/trust/root/2"] = partial(_said, _root(context, 2))
        serial = honest(context).serial + 1
        held.lie(document(context, root_version=2, serial=serial))
        followed = held.node.step()
        if followed.reasons:
            raise GotThrough("The node does not follow root 2.", reasons=followed.reasons)
        for code, version in (("root-lower", 1), ("root-missing", 3)):
            serial += 1
            held.lie(document(context, root_version=version, serial=serial))
            seen.append(refused(held, code, context.serving()))
    return outcome(context, *seen)


ATTACKS = (
    attack_on_node(
        "highest-serial-by-a-stolen-key",
        (32,),
        "the highest serial by a stolen pointer key; the next root replaces the key",
        _poisoned,
        "serial-lower",
    ),
    attack_on_node(
        "document-on-another-root",
        (38,),
        "after root 2: a current document by the stolen pointer key on root 1, and on one that is "
        "missing",
        _other_root,
        "root-lower",
        "root-missing",
    ),
    attack_on_node(
        "roots-out-of-order",
        (38,),
        "a trust root 3 in the place of 2, and a root 2 that the new keys alone signed",
        _roots,
        "root-version",
        "root-threshold",
    ),
)
