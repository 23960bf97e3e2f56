"""Lies to a node about what is served: documents replayed, doubled, expired, by stolen keys."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import msgspec

from reef_release.drill.attack import Outcome
from reef_release.drill.context import Context
from reef_release.drill.errors import GotThrough
from reef_release.drill.lying import (
    attack_on_node,
    document,
    outcome,
    refused,
    refused_when_told,
    target,
    untaken,
)
from reef_release.signing.keyring import PRIVATE_NAME
from reef_release.signing.keys import Role, create_key, load_key
from reef_release.tokens import TokenRole

__all__ = ["ATTACKS"]

_DAY = timedelta(days=1)


_MONTH = timedelta(days=30)


_TEN_YEARS = timedelta(days=3650)


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _replayed(context: Context) -> Outcome:
    with target(context) as held:
        seen = held.node.memory.serial - 1
    return outcome(context, refused_when_told(context, "serial-lower", serial=seen))


def _two_bodies(context: Context) -> Outcome:
    with target(context) as held:
        memory = held.node.memory
        other = document(context, serial=memory.serial, gate_digest="ab" * 32)
        held.lie(other)
        seen = refused(held, "serial-equivocation", context.serving())
        kept = list((held.state / "evidence").iterdir())
        if not kept or other.decode() not in msgspec.json.decode(kept[0].read_bytes())["received"]:
            raise GotThrough("The node kept no evidence of the two documents.")
    return outcome(context, seen)


def _expired(context: Context) -> Outcome:
    now = datetime.now(UTC)
    times: dict[str, Any] = {
        "issued_at": _text(now - timedelta(seconds=120)),
        "expires_at": _text(now),
    }
    with target(context) as held:
        held.lie(document(context, **times))
        seen = untaken(held, "expired", context.serving())
    return outcome(context, seen)


def _long(context: Context) -> Outcome:
    """A document that would be fresh for a month, so that nothing newer were ever needed."""
    now = datetime.now(UTC)
    times = {"issued_at": _text(now), "expires_at": _text(now + _MONTH)}
    return outcome(context, refused_when_told(context, "lifetime", **times))


def _other_channel(context: Context) -> Outcome:
    seen = refused_when_told(context, "other-channel", channel="beta")
    return outcome(context, seen)


def _old_root(context: Context) -> Outcome:
    """A fresh document, signed by the stolen key ten years later, on the root of today."""
    then = datetime.now(UTC) + _TEN_YEARS
    fresh: dict[str, Any] = {
        "issued_at": _text(then),
        "expires_at": _text(then + timedelta(seconds=60)),
    }
    with target(context, clock=lambda: then) as held:
        held.lie(document(context, **fresh))
        seen = refused(held, "root-expired", context.serving())
    return outcome(context, seen)


def _clocks(context: Context) -> Outcome:
    """A day behind, with an old document under a new serial; and ten years ahead."""
    now = datetime.now(UTC)
    old: dict[str, Any] = {
        "issued_at": _text(now - _DAY),
        "expires_at": _text(now - _DAY + timedelta(seconds=60)),
    }
    seen = []
    with target(context, clock=lambda: datetime.now(UTC) - _DAY) as held:
        held.lie(document(context, **old))
        seen.append(untaken(held, "expired", context.serving()))
    with target(context, clock=lambda: datetime.now(UTC) + _TEN_YEARS) as held:
        seen.append(untaken(held, "expired", context.serving()))
    return outcome(context, *seen)


def _old_bundle(context: Context) -> Outcome:
    """The newest document, with the signature over the release before."""
    releases = context.client(TokenRole.AUDIT).releases(context.scenario)
    old = next(each.release_id for each in releases if each.release_id != context.serving())
    bundle = context.client(TokenRole.SERVE).bundle(context.scenario, old)
    with target(context, fresh=True) as held:
        held.answers["/bundle"] = lambda _request: httpx.Response(200, content=bundle)
        seen = refused(held, "other-release")
    return outcome(context, seen)


def _by_other_keys(context: Context) -> Outcome:
    """A document signed by keys of the service's that are no pointer keys, and by a stranger's."""
    seen = []
    for key in (
        load_key(context.stack.keys / Role.LOG / PRIVATE_NAME, Role.POINTER),
        load_key(context.stack.keys / Role.GATE / PRIVATE_NAME, Role.POINTER),
        create_key(Role.POINTER),
    ):
        seen.append(refused_when_told(context, "no-trusted-key", key=key))
    return outcome(context, *seen)


ATTACKS = (
    attack_on_node(
        "document-under-another-key",
        (23,),
        "a current document signed by the log's, the gate's, or a stranger's key",
        _by_other_keys,
        "no-trusted-key",
    ),
    attack_on_node(
        "old-document-replayed",
        (28,),
        "a current document with a lower serial",
        _replayed,
        "serial-lower",
    ),
    attack_on_node(
        "two-documents-under-one-serial",
        (29,),
        "the same serial with another body; the node keeps both",
        _two_bodies,
        "serial-equivocation",
    ),
    attack_on_node(
        "expired-document",
        (30,),
        "a current document that has expired",
        _expired,
        "expired",
    ),
    attack_on_node(
        "document-that-lives-for-a-month",
        (30,),
        "a current document by the stolen pointer key that does not expire for a month",
        _long,
        "lifetime",
    ),
    attack_on_node(
        "document-of-another-channel",
        (28,),
        "a current document by the stolen pointer key for another channel",
        _other_channel,
        "other-channel",
    ),
    attack_on_node(
        "root-that-has-expired",
        (30,),
        "a fresh document by the stolen pointer key, years after the trust root ended",
        _old_root,
        "root-expired",
    ),
    attack_on_node(
        "clock-of-the-node",
        (31,),
        "a node's clock a day behind, with an old document; and ten years ahead",
        _clocks,
        "expired",
    ),
    attack_on_node(
        "new-document-with-an-old-bundle",
        (33,),
        "the newest document with the weights signature of the release before",
        _old_bundle,
        "other-release",
    ),
)
