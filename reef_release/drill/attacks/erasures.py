"""Erasures where they do not belong: of what promotions follow from, by others, and undone."""

from __future__ import annotations

from functools import partial

from reef_release.client import ReefClient
from reef_release.domain.events import BodyErased
from reef_release.drill.attack import Access, Attack, Outcome, Stop, stopped
from reef_release.drill.context import Context
from reef_release.drill.errors import GotThrough
from reef_release.drill.sql import append
from reef_release.tokens import TokenRole
from reef_release.traffic_wire import InteractionRequest

__all__ = ["ATTACKS"]

_REASON = "an attempt of the drill"
_LIMIT_BYTES = 1 << 26
_OTHERS = (TokenRole.AUDIT, TokenRole.GATE, TokenRole.INGEST, TokenRole.TRAIN)


def _run(context: Context) -> Outcome:
    """What proves a promotion stays, and what a person had erased comes back by nobody."""
    operator, auditor = context.client(TokenRole.OPERATE), context.client(TokenRole.AUDIT)
    suite = str(context.view().policy["suite"])
    said = context.client(TokenRole.INGEST).record(
        context.scenario,
        InteractionRequest(
            messages=[{"role": "user", "content": "Forget that I said this."}],
            reply={"role": "assistant", "content": "I shall."},
        ),
    )
    recorded = context.at(said.position)
    digest = str(getattr(recorded.data, "body", "")) if recorded else ""
    body = auditor.read_blob(digest, _LIMIT_BYTES)

    def erase(client: ReefClient) -> object:
        return client.privacy.erase_blob(digest, _REASON)

    seen = [stopped(context, lambda: operator.privacy.erase_blob(suite, _REASON), "api", "kept")]
    for role in _OTHERS:
        seen.append(stopped(context, partial(erase, context.client(role)), "api", "forbidden"))
    turn_id = said.interaction_id
    forged = BodyErased(digest=suite, kind="call", turn_id=turn_id, reason=_REASON)
    by_sql = partial(append, context, context.scenario, forged)
    seen.append(stopped(context, by_sql, "database", "other-body"))
    if auditor.read_blob(digest, _LIMIT_BYTES) != body:
        raise GotThrough("What somebody said is gone, or another.")
    done = operator.privacy.erase_blob(digest, _REASON)
    read = partial(auditor.read_blob, digest, _LIMIT_BYTES)
    put = partial(operator.put_blob, body)
    again = BodyErased(digest=digest, kind="call", turn_id=turn_id, reason=_REASON)
    seen += [
        stopped(context, read, "api", "blob-erased"),
        stopped(context, put, "api", "blob-erased"),
        stopped(context, partial(append, context, context.scenario, again), "database", "erased"),
    ]
    return Outcome(seen=tuple(seen), twin=f"an operator erased what was said, at {done.position}")


ATTACKS = (
    Attack(
        name="erasure-of-proof-and-undone",
        rows=(62,),
        tries="erasing the suite by the API and by SQL, erasing with the tokens of others, and "
        "reading, storing and erasing again what is erased",
        stops=(
            Stop(by="api", code="kept"),
            Stop(by="api", code="forbidden"),
            Stop(by="database", code="other-body"),
            Stop(by="api", code="blob-erased"),
            Stop(by="database", code="erased"),
        ),
        run=_run,
        needs=frozenset({Access.DATABASE, Access.TRAFFIC}),
    ),
)
