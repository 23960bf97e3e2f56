"""An export that was edited, and a log that its superuser rewrote."""

from __future__ import annotations

import asyncio

import asyncpg

from reef_release.audit.layout import EVENTS
from reef_release.audit.verify import verify
from reef_release.drill.attack import Access, Attack, Outcome, Seen, Stop
from reef_release.drill.context import Context
from reef_release.drill.errors import GotThrough
from reef_release.drill.exports import exported, problems
from reef_release.tokens import TokenRole

__all__ = ["ATTACKS"]

_GUARD = "events_never_change"


def _edited(context: Context) -> Outcome:
    """Each kind of change to the lines of an export, the last line among them."""
    with exported(context) as folder:
        before = problems(context, verify(folder, context.anchor))
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
            found = problems(context, verify(folder, context.anchor))
            codes = {each.code for each in found}
            if code not in codes:
                raise GotThrough(f"{words}: the audit found {sorted(codes)}, not {code}.")
            seen.append(Seen(by="audit", code=code, words=words))
    return Outcome(seen=tuple(seen), twin="the export as it came is good")


def _rewritten(context: Context) -> Outcome:
    """An old event's bytes, changed by the superuser under the service, and put back."""
    note = context.client(TokenRole.AUDIT).checkpoint()
    # The newest may lie beyond the checkpoint, and of that nobody has signed anything yet.
    position = min(event.envelope.position for event in context.events("candidate.submitted"))
    body = _body(context, position)
    other = body.replace(b'"seed":', b'"seee":', 1)
    _set_body(context, position, other)
    try:
        with exported(context) as folder:
            report = verify(folder, context.anchor, earlier=[note])
    finally:
        _set_body(context, position, body)
    codes = {each.code for each in problems(context, report)}
    if "root" not in codes:
        raise GotThrough(f"The audit found {sorted(codes)} and not that the root is another.")
    with exported(context) as folder:
        good = verify(folder, context.anchor, earlier=[note])
    left = problems(context, good)
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
        name="log-rewritten-by-its-superuser",
        rows=(52,),
        tries="an event's bytes rewritten in the database, triggers off, by its superuser",
        stops=(Stop(by="audit", code="root"),),
        run=_rewritten,
        needs=frozenset({Access.DATABASE}),
    ),
)
