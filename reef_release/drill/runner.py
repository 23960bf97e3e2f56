"""Runs attacks one after the other, and judges each by what must stop it and by what is served.

What always holds: an attack counts as stopped only when every stop that it names was seen, each
event that it names stands in the log and says so, and nothing that is served has moved. What
cannot be run is told with the reason; nothing is left out in silence.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence

import msgspec

from reef_release.drill.afterwards import AFTERWARDS
from reef_release.drill.attack import Attack, Outcome, Seen
from reef_release.drill.context import Context
from reef_release.drill.watch import Standing, Watch, moves
from reef_release.errors import ReefError

__all__ = [
    "LEFT_OUT",
    "NOT_STOPPED",
    "STOPPED",
    "DrillReport",
    "Row",
    "left_out",
    "run_drill",
]

STOPPED = "stopped"
NOT_STOPPED = "NOT STOPPED"
LEFT_OUT = "left out"

Say = Callable[[str], None]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One attack: what was tried, what stopped it and where that stands, and what is served.

    `verdict` is one of the module's constants; `problem` says why it is not `stopped`.
    `serving` is the release of the watched scenario afterwards.
    """

    name: str
    rows: tuple[int, ...]
    tries: str
    verdict: str
    seen: tuple[Seen, ...] = ()
    twin: str = ""
    problem: str = ""
    serving: str | None = None


class DrillReport(msgspec.Struct, frozen=True, kw_only=True):
    """The whole drill. `ok`: some were run, all were stopped, and the service was left working."""

    ok: bool
    ran: int
    stopped: int
    left_out: int
    served_before: str | None
    served_after: str | None
    rows: list[Row]


def run_drill(
    context: Context, attacks: Sequence[Attack], say: Say, *, quick: bool = False
) -> DrillReport:
    """Run *attacks*, then look whether the log replays and a good candidate still gets through."""
    watch = Watch(context)
    served_before = _serving(context)
    rows = []
    after = [attack for attack in AFTERWARDS if attack.quick or not quick]
    for attack in (*attacks, *after):
        reason = left_out(context, attack)
        if reason:
            row = _row(attack, LEFT_OUT, problem=reason)
        else:
            say(f"{attack.name}: {attack.tries}")
            row = _run(context, watch, attack)
            if row.verdict == NOT_STOPPED:
                say(f"{attack.name}: {NOT_STOPPED}: {row.problem}")
        rows.append(row)
    ran = [row for row in rows if row.verdict != LEFT_OUT]
    stopped = [row for row in ran if row.verdict == STOPPED]
    return DrillReport(
        # What is looked at afterwards is no attack, and says nothing when none was tried.
        ok=any(row.rows for row in ran) and len(stopped) == len(ran),
        ran=len(ran),
        stopped=len(stopped),
        left_out=len(rows) - len(ran),
        served_before=served_before,
        served_after=_serving(context),
        rows=rows,
    )


def left_out(context: Context, attack: Attack) -> str:
    """Why *attack* cannot be run here; "" when it can."""
    if attack.needs and context.own is None:
        return "needs " + ", ".join(sorted(access.words for access in attack.needs))
    missing = sorted(role for role in attack.roles if not context.has(role))
    return f"needs a token of role {', '.join(missing)}" if missing else ""


def _run(context: Context, watch: Watch, attack: Attack) -> Row:
    problems: list[str] = []
    outcome = Outcome(seen=(), twin="")
    try:
        if attack.prepare is not None:
            attack.prepare(context)
        before = watch.look()
        outcome, problem = _attempt(context, attack)
        problems += [problem] if problem else _unmet(context, attack, outcome)
        problems += _moved(watch, before, attack)
    except Exception as error:  # whatever it is, this attack was not shown to be stopped
        problems.append(_told(error))
    return _row(
        attack,
        NOT_STOPPED if problems else STOPPED,
        seen=outcome.seen,
        twin=outcome.twin,
        problem="; ".join(problems),
        serving=_serving(context),
    )


def _attempt(context: Context, attack: Attack) -> tuple[Outcome, str]:
    try:
        return attack.run(context), ""
    except Exception as error:
        return Outcome(seen=(), twin=""), _told(error)


def _moved(watch: Watch, before: Sequence[Standing], attack: Attack) -> list[str]:
    return [] if attack.promotes else moves(before, watch.look())


def _unmet(context: Context, attack: Attack, outcome: Outcome) -> list[str]:
    """Which of the stops were not seen, and which of those seen the log does not bear out."""
    found = ", ".join(str(seen) for seen in outcome.seen) or "nothing"
    unmet = [
        f"it had to be stopped by {stop}, and was by {found}"
        for stop in attack.stops
        if not any(seen.is_a(stop) for seen in outcome.seen)
    ]
    for seen in outcome.seen:
        if not any(seen.is_a(stop) for stop in attack.stops):
            unmet.append(f"it was stopped by {seen}, which is none of what must stop it")
        if seen.event is not None and not _stands(context, seen):
            unmet.append(f"the log has no {seen.event} at {seen.position} that says {seen.code}")
    if not outcome.twin:
        unmet.append("its harmless twin was not shown to get through")
    return unmet


def _stands(context: Context, seen: Seen) -> bool:
    """Whether the event of *seen* stands where it says; a refusal must give the reason."""
    event = None if seen.position is None else context.at(seen.position)
    if event is None or event.envelope.type != seen.event:
        return False
    reasons = getattr(event.data, "reasons", None)
    return reasons is None or any(reason.code == seen.code for reason in reasons)


def _serving(context: Context) -> str | None:
    try:
        return context.serving()
    except ReefError:
        return None


def _row(
    attack: Attack,
    verdict: str,
    *,
    seen: tuple[Seen, ...] = (),
    twin: str = "",
    problem: str = "",
    serving: str | None = None,
) -> Row:
    return Row(
        name=attack.name,
        rows=attack.rows,
        tries=attack.tries,
        verdict=verdict,
        seen=seen,
        twin=twin,
        problem=problem,
        serving=serving,
    )


def _told(error: Exception) -> str:
    if isinstance(error, ReefError):
        return str(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({place.filename}:{place.lineno})"
