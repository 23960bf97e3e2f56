"""The service's database password, and the database's superuser."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import httpx

from reef_release.audit.export import export
from reef_release.audit.http_source import ClientSource
from reef_release.audit.layout import EVENTS
from reef_release.audit.replay import replay
from reef_release.audit.report import Problem, VerifyReport
from reef_release.audit.verify import verify
from reef_release.domain import events as ev
from reef_release.domain.canonical import sha256_hex
from reef_release.domain.decision import GateDecision
from reef_release.drill.attack import Access, Attack, Outcome, Seen, Stop, stopped
from reef_release.drill.context import CHANNEL, Context
from reef_release.drill.errors import GotThrough
from reef_release.drill.lying import document, honest, refused, target, truthful
from reef_release.drill.sql import append, execute, new_event, with_log
from reef_release.drill.stage import fresh, stage
from reef_release.log import EventLog
from reef_release.signing.keyring import PRIVATE_NAME
from reef_release.signing.keys import Role, create_key, load_key
from reef_release.signing.vsa import decision_payload, sign_decision
from reef_release.signing.weights import sign_bundle
from reef_release.tokens import TokenRole

__all__ = ["ATTACKS"]

_STAGE = "drill-forgery"
_NEEDS = frozenset({Access.DATABASE, Access.KEYS, Access.MODELS, Access.PROCESSES})
_TIME = "2026-01-02T03:04:05.000006Z"
_NOTHING = "0" * 64
_GUARD = "events_never_change"
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


def _opening(context: Context, candidate: str) -> ev.GateOpened:
    base = context.serving(_STAGE)
    policy = context.view(_STAGE)
    return ev.GateOpened(
        gate_id=candidate[:32],
        candidate_id=candidate,
        base=base,
        channel=CHANNEL,
        phase="standard",
        policy_digest=policy.policy_digest,
        suite=str(policy.policy["suite"]),
        checkpoint_position=context.newest_checkpoint(),
        seed=_NOTHING,
    )


def _decision(opened: ev.GateOpened) -> GateDecision:
    """A pass in the right form, by nobody's trials."""
    return GateDecision(
        scenario=_STAGE,
        channel=opened.channel,
        gate_id=opened.gate_id,
        candidate_id=opened.candidate_id,
        base=opened.base,
        phase=opened.phase,
        outcome="passed",
        policy_digest=opened.policy_digest,
        suite=opened.suite,
        verifiers=["answer@1", "work_steps@1", "style@1"],
        checkpoint_position=opened.checkpoint_position,
        seed=opened.seed,
        odds=[],
        evidence=[],
        budget=None,
        trial_count=2,
        trials_digest=_NOTHING,
        canary=_NOTHING,
    )


def _chain(context: Context, candidate: str) -> tuple[list[ev.EventData], str, bytes]:
    """All that would promote *candidate*, but for the gate's key and the release key.

    Returns it with the digest of the forged decision, which the log's key signed, and the bundle.
    """
    opened = _opening(context, candidate)
    decision = _decision(opened)
    log_key = load_key(context.stack.keys / Role.LOG / PRIVATE_NAME, Role.GATE)
    files = context.client(TokenRole.AUDIT).candidate(_STAGE, candidate).files
    key = create_key(Role.RELEASE)
    bundle = sign_bundle({file.path: file.sha256 for file in files}, key)
    trials = [
        ev.GateTrial(
            gate_id=opened.gate_id,
            slot=slot,
            side="candidate",
            attempt=0,
            task_id=f"task-{slot}",
            body=_NOTHING,
            error=None,
            verdict=ev.VerdictRecord(passed=True, checks={"answer@1": True}),
        )
        for slot in range(2)
    ]
    chain = [
        opened,
        *trials,
        ev.GatePassed(
            gate_id=opened.gate_id,
            candidate_id=candidate,
            base=opened.base,
            channel=CHANNEL,
            attestation=sign_decision(decision, _TIME, log_key),
            canary=_NOTHING,
        ),
        ev.ReleaseSigned(
            release_id=candidate,
            gate_id=opened.gate_id,
            key_id=key.key_id,
            bundle=context.client(TokenRole.TRAIN).put_blob(bundle),
        ),
        _promotion(opened),
    ]
    return chain, sha256_hex(decision_payload(decision, _TIME)), bundle


def _promotion(opened: ev.GateOpened) -> ev.ReleasePromoted:
    return ev.ReleasePromoted(
        release_id=opened.candidate_id, gate_id=opened.gate_id, base=opened.base, channel=CHANNEL
    )


def _unfounded(context: Context) -> Outcome:
    """A promotion, a signature, a pass and a trial without what has to stand before them."""
    with context.stack.paused("gate"):
        candidate = context.submit(fresh(context, "better"), scenario=_STAGE).candidate_id
        chain, _, _ = _chain(context, candidate)
        seen = []
        for data, code in (
            (chain[-1], "no-passed-gate"),
            (chain[-2], "no-passed-gate"),
            (chain[-3], "unknown-gate"),
            (chain[1], "unknown-gate"),
        ):
            seen.append(stopped(context, _append(context, data), "database", code))
        revoke = context.client(TokenRole.OPERATE).revoke_candidate(
            _STAGE, candidate, "a candidate of the drill"
        )
    return Outcome(seen=tuple(seen), twin=f"what has a structure is appended at {revoke.position}")


def _append(context: Context, data: ev.EventData) -> Callable[[], object]:
    async def run(log: EventLog) -> None:
        await log.append(new_event(_STAGE, data))

    return partial(with_log, context, run)


def _forged(context: Context) -> Outcome:
    """The whole chain by hand; then a node is told that it is so, and the audit reads it."""
    serves = context.serving(_STAGE)
    with context.stack.paused("gate"):
        candidate = context.submit(fresh(context, "better"), scenario=_STAGE).candidate_id
        chain, digest, bundle = _chain(context, candidate)
        positions = append(context, _STAGE, *chain)
        # For the database the channel has moved: no gate of it opens, and none shall be tried.
        context.client(TokenRole.OPERATE).revoke_candidate(
            _STAGE, candidate, "a candidate of the drill"
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
        base=honest(context, _STAGE),
        release_id=candidate,
        pointer_position=promoted,
        gate_digest=digest,
        checkpoint=context.client(TokenRole.AUDIT).checkpoint(),
    )
    with target(context, scenario=_STAGE) as held:
        held.lie(lie)
        # The service gives no signature of what has no effect, so the liar does.
        held.answers["/bundle"] = lambda _request: httpx.Response(200, content=bundle)
        seen.append(refused(held, "no-trusted-key", serves))
    with _exported(context) as folder:
        report = replay(folder, context.anchor)
    found = {each.code for each in report.problems if each.position == promoted}
    serving = {each.scenario: each.release_id for each in report.serving}
    if "no-passed-gate" not in found or serving[_STAGE] != serves:
        raise GotThrough(f"The audit says {sorted(found)} of it and serves {serving[_STAGE]}.")
    seen.append(Seen(by="audit", code="no-passed-gate", event=event, position=promoted))
    return Outcome(seen=tuple(seen), twin=truthful(context, _STAGE))


def _ready(context: Context) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{context.url}/readyz", timeout=30).json()
    return found


@contextmanager
def _exported(context: Context) -> Iterator[Path]:
    """A fresh export of the whole log."""
    folder = context.directory / "export"
    shutil.rmtree(folder, ignore_errors=True)
    export(ClientSource(context.client(TokenRole.AUDIT)), folder)
    yield folder
    shutil.rmtree(folder)


# The audit


def _problems(context: Context, report: VerifyReport) -> list[Problem]:
    """What was found, apart from what this drill has forged itself."""
    return [each for each in report.problems if each.position not in context.forged]


def _edited(context: Context) -> Outcome:
    """Each kind of change to the lines of an export, the last line among them."""
    with _exported(context) as folder:
        before = _problems(context, verify(folder, context.anchor))
        if before:
            raise GotThrough(f"The export is not good before it is changed: {before[0]}.")
        segment = max((folder / EVENTS).iterdir())
        lines = segment.read_bytes().splitlines(keepends=True)
        last = lines[-1].replace(b'"actor":"', b'"actor":"x', 1)
        middle = len(lines) // 2
        edited = lines[middle].replace(b'"actor":"', b'"actor":"x', 1)
        seen = []
        for words, changed, code in (
            ("an event deleted", [*lines[:middle], *lines[middle + 1 :]], "position"),
            ("the last event deleted", lines[:-1], "events-missing"),
            (
                "two events exchanged",
                [*lines[:middle], lines[middle + 1], lines[middle], *lines[middle + 2 :]],
                "position",
            ),
            ("an event edited", [*lines[:middle], edited, *lines[middle + 1 :]], "root"),
            ("the last event edited", [*lines[:-1], last], "root"),
        ):
            segment.write_bytes(b"".join(changed))
            found = _problems(context, verify(folder, context.anchor))
            codes = {each.code for each in found}
            if code not in codes:
                raise GotThrough(f"{words}: the audit found {sorted(codes)}, not {code}.")
            seen.append(Seen(by="audit", code=code, words=words))
    return Outcome(seen=tuple(seen), twin="the export as it came is good")


def _rewritten(context: Context) -> Outcome:
    """An old event's bytes, changed by the superuser under the service, and put back."""
    note = context.client(TokenRole.AUDIT).checkpoint()
    position = context.event("candidate.submitted")
    body = _body(context, position)
    other = body.replace(b'"seed":', b'"seee":', 1)
    _set_body(context, position, other)
    try:
        with _exported(context) as folder:
            report = verify(folder, context.anchor, earlier=[note])
    finally:
        _set_body(context, position, body)
    codes = {each.code for each in _problems(context, report)}
    if "root" not in codes:
        raise GotThrough(f"The audit found {sorted(codes)} and not that the root is another.")
    with _exported(context) as folder:
        good = verify(folder, context.anchor, earlier=[note])
    left = _problems(context, good)
    if left:
        raise GotThrough(f"With its own bytes the log is not good: {left[0]}.")
    words = f"the event at {position} rewritten, after a checkpoint was published"
    return Outcome(
        seen=(Seen(by="audit", code="root", words=words),),
        twin=f"{good.event_count} events, with their own bytes, fit the checkpoint",
    )


def _body(context: Context, position: int) -> bytes:
    async def run() -> bytes:
        connection = await asyncpg.connect(context.stack.owner_dsn)
        try:
            found = await connection.fetchval(
                "select body from reef.events where position = $1", position
            )
        finally:
            await connection.close()
        return bytes(found)

    return asyncio.run(run())


def _set_body(context: Context, position: int, body: bytes) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(context.stack.owner_dsn)
        try:
            async with connection.transaction():
                await connection.execute(f"alter table reef.events disable trigger {_GUARD}")
                await connection.execute(
                    "update reef.events set body = $2 where position = $1", position, body
                )
                await connection.execute(f"alter table reef.events enable always trigger {_GUARD}")
        finally:
            await connection.close()

    asyncio.run(run())


def _prepare(context: Context) -> None:
    stage(context, _STAGE)


ATTACKS = (
    Attack(
        name="export-edited",
        rows=(36,),
        tries="events of an export deleted, exchanged and edited, also the very last one",
        stops=(
            Stop(by="audit", code="position"),
            Stop(by="audit", code="events-missing"),
            Stop(by="audit", code="root"),
        ),
        run=_edited,
        roles=frozenset({TokenRole.AUDIT}),
        quick=True,
    ),
    Attack(
        name="sql-by-hand",
        rows=(49,),
        tries="INSERT, UPDATE, DELETE, TRUNCATE, triggers off, as the service's own role",
        stops=(Stop(by="database", code="insufficient-privilege"),),
        run=_by_hand,
        needs=frozenset({Access.DATABASE}),
    ),
    Attack(
        name="log-rewritten-by-its-superuser",
        rows=(52,),
        tries="an event's bytes rewritten in the database, triggers off, by its superuser",
        stops=(Stop(by="audit", code="root"),),
        run=_rewritten,
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
