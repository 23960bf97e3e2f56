"""The service's database password: SQL by hand, and the one append function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import httpx

from reef_release.audit.replay import replay
from reef_release.domain import events as ev
from reef_release.drill.attack import Access, Attack, Outcome, Seen, Stop, stopped
from reef_release.drill.context import Context
from reef_release.drill.errors import GotThrough
from reef_release.drill.exports import exported
from reef_release.drill.forgery import FORGERY, forged_chain
from reef_release.drill.lying import document, honest, refused, target, truthful
from reef_release.drill.sql import append, execute, new_event, with_log
from reef_release.drill.stage import fresh, stage
from reef_release.log import EventLog
from reef_release.tokens import TokenRole

__all__ = ["ATTACKS"]

_NEEDS = frozenset({Access.DATABASE, Access.KEYS, Access.MODELS, Access.PROCESSES})


_STATEMENTS = (
    "insert into reef.events select * from reef.events limit 1",
    "update reef.events set body = ''",
    "delete from reef.events",
    "truncate reef.events",
    "update reef.head set position = 0",
    "alter table reef.events disable trigger all",
    "set session_replication_role = replica",
    "set role reef_owner",
    "drop schema reef cascade",
    "create table reef.mine ()",
)


def _by_hand(context: Context) -> Outcome:
    seen = []
    for statement in _STATEMENTS:
        act = partial(execute, context, statement)
        try:
            seen.append(stopped(context, act, "database", "insufficient-privilege"))
        except GotThrough as error:
            raise GotThrough(f"{statement}: {error.detail}") from error
    execute(context, "select count(*) from reef.events")
    return Outcome(seen=tuple(seen), twin="the same role reads the table")


def _unfounded(context: Context) -> Outcome:
    """A promotion, a signature, a pass and a trial without what has to stand before them."""
    with context.stack.paused("gate"):
        candidate = context.submit(fresh(context, "better"), scenario=FORGERY).candidate_id
        chain, _, _ = forged_chain(context, candidate)
        seen = []
        for data, code in (
            (chain[-1], "no-passed-gate"),
            (chain[-2], "no-passed-gate"),
            (chain[-3], "unknown-gate"),
            (chain[1], "unknown-gate"),
        ):
            seen.append(stopped(context, _append(context, data), "database", code))
        revoke = context.client(TokenRole.OPERATE).revoke_candidate(
            FORGERY, candidate, "a candidate of the drill"
        )
    return Outcome(seen=tuple(seen), twin=f"what has a structure is appended at {revoke.position}")


def _append(context: Context, data: ev.EventData) -> Callable[[], object]:
    async def run(log: EventLog) -> None:
        await log.append(new_event(FORGERY, data))

    return partial(with_log, context, run)


def _forged(context: Context) -> Outcome:
    """The whole chain by hand; then a node is told that it is so, and the audit reads it."""
    serves = context.serving(FORGERY)
    with context.stack.paused("gate"):
        candidate = context.submit(fresh(context, "better"), scenario=FORGERY).candidate_id
        chain, digest, bundle = forged_chain(context, candidate)
        positions = append(context, FORGERY, *chain)
        # For the database the channel has moved: no gate of it opens, and none shall be tried.
        context.client(TokenRole.OPERATE).revoke_candidate(
            FORGERY, candidate, "a candidate of the drill"
        )
    promoted = positions[-1]
    context.until(lambda: _ready(context)["position"] >= promoted)
    last = _ready(context)["last_violation"]
    if last["position"] != promoted or "no-passed-gate" not in last["codes"]:
        raise GotThrough(f"The service has {last} as its last violation.")
    event = "release.promoted"
    seen = [Seen(by="service", code="no-passed-gate", event=event, position=promoted)]
    lie = document(
        context,
        base=honest(context, FORGERY),
        release_id=candidate,
        pointer_position=promoted,
        gate_digest=digest,
        checkpoint=context.client(TokenRole.AUDIT).checkpoint(),
    )
    with target(context, scenario=FORGERY) as held:
        held.lie(lie)
        # The service gives no signature of what has no effect, so the liar does.
        held.answers["/bundle"] = lambda _request: httpx.Response(200, content=bundle)
        seen.append(refused(held, "no-trusted-key", serves))
    with exported(context) as folder:
        report = replay(folder, context.anchor)
    found = {each.code for each in report.problems if each.position == promoted}
    serving = {each.scenario: each.release_id for each in report.serving}
    if "no-passed-gate" not in found or serving[FORGERY] != serves:
        raise GotThrough(f"The audit says {sorted(found)} of it and serves {serving[FORGERY]}.")
    seen.append(Seen(by="audit", code="no-passed-gate", event=event, position=promoted))
    return Outcome(seen=tuple(seen), twin=truthful(context, FORGERY))


def _ready(context: Context) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{context.url}/readyz", timeout=30).json()
    return found


def _prepare(context: Context) -> None:
    stage(context, FORGERY)


ATTACKS = (
    Attack(
        name="sql-by-hand",
        rows=(49,),
        tries="INSERT, UPDATE, DELETE, TRUNCATE, triggers off, as the service's own role",
        stops=(Stop(by="database", code="insufficient-privilege"),),
        run=_by_hand,
        needs=frozenset({Access.DATABASE}),
    ),
    Attack(
        name="events-without-ground",
        rows=(53,),
        tries="a promotion, a signature, a pass and a trial appended with the service's password",
        stops=(
            Stop(by="database", code="no-passed-gate"),
            Stop(by="database", code="unknown-gate"),
        ),
        run=_unfounded,
        prepare=_prepare,
        needs=_NEEDS,
    ),
    Attack(
        name="chain-forged-by-hand",
        rows=(53, 22, 23),
        tries="gate, trials, pass, signature and promotion appended with the service's password",
        stops=(
            Stop(by="service", code="no-passed-gate", events=("release.promoted",)),
            Stop(by="node", code="no-trusted-key", events=("node.refused",)),
            Stop(by="audit", code="no-passed-gate", events=("release.promoted",)),
        ),
        run=_forged,
        prepare=_prepare,
        needs=_NEEDS | {Access.ENGINE},
    ),
)
