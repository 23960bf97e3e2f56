"""The next trust root, as an operator's token puts it before the service: not signed by enough."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from reef_release.drill.attack import Access, Attack, Outcome, Stop, stopped
from reef_release.drill.context import Context
from reef_release.drill.errors import GotThrough
from reef_release.signing.keyring import PRIVATE_NAME
from reef_release.signing.keys import PublicKey, Role, SigningKey, create_key, load_key
from reef_release.signing.root import add_signature, create_root, next_root, open_root
from reef_release.tokens import TokenRole

__all__ = ["ATTACKS"]

_REASON = "an attempt of the drill"
_LIFETIME = timedelta(days=30)


def _run(context: Context) -> Outcome:
    trusted = context.client(TokenRole.AUDIT).trust_root()
    root = open_root(trusted)
    holders = _holders(context)
    expires = datetime.now(UTC) + _LIFETIME
    thieves = [create_key(Role.ROOT) for _ in holders]
    roles: dict[Role, Sequence[PublicKey]] = dict(root.keys_by_role)
    del roles[Role.ROOT]

    def made(version: int, keys: Sequence[SigningKey], signers: Sequence[SigningKey]) -> str:
        return create_root(
            version=version,
            threshold=root.threshold,
            root_keys=[key.public for key in keys],
            role_keys=roles,
            expires=expires,
            signers=signers,
        )

    after = root.version + 1
    unsigned = next_root(trusted, expires=expires)
    publish = context.client(TokenRole.OPERATE).publish_root
    seen = []
    for text, code in (
        (made(after + 1, holders, holders), "root-version"),
        (made(after, thieves, thieves), "root-threshold"),
        (add_signature(unsigned, holders[0]), "root-threshold"),
        (_under_two_ids(unsigned, holders[0]), "root-threshold"),
        (_listed_twice(unsigned), "key-id"),
    ):
        seen.append(stopped(context, partial(publish, text, _REASON), "service", code))
    if context.client(TokenRole.AUDIT).trust_root() != trusted:
        raise GotThrough("Another root is in force.")
    both = open_root(made(after, holders, holders), trusted)
    twin = f"signed by {len(holders)} holders, version {both.version} would follow"
    return Outcome(seen=tuple(seen), twin=twin)


def _holders(context: Context) -> list[SigningKey]:
    folder = context.stack.keys / Role.ROOT
    return [load_key(each / PRIVATE_NAME, Role.ROOT) for each in sorted(folder.iterdir())]


def _under_two_ids(text: str, key: SigningKey) -> str:
    """One holder's signature, and again in the place of another holder's."""
    document = json.loads(add_signature(text, key))
    other = next(each for each in document["signed"]["keys"] if each != key.key_id)
    signature = next(each["sig"] for each in document["signatures"] if each["sig"])
    document["signatures"] = [
        {"keyid": key.key_id, "sig": signature},
        {"keyid": other, "sig": signature},
    ]
    return json.dumps(document)


def _listed_twice(text: str) -> str:
    """A holder's key listed once more, under an id that is not its own."""
    document = json.loads(text)
    signed = document["signed"]
    signed["keys"]["ab" * 32] = next(iter(signed["keys"].values()))
    for role in signed["roles"].values():
        role["keyids"].append("ab" * 32)
    return json.dumps(document)


ATTACKS = (
    Attack(
        name="next-root-without-its-holders",
        rows=(38,),
        tries="the next trust root with a version left out, by new keys only, by one holder, by "
        "one holder under two ids",
        stops=(
            Stop(by="service", code="root-version"),
            Stop(by="service", code="root-threshold"),
            Stop(by="service", code="key-id"),
        ),
        run=_run,
        needs=frozenset({Access.KEYS}),
    ),
)
