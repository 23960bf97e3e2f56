"""A stage on which three promoters race, and a rollback follows: played at first use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from reef_release.domain.events import EventData, ReleasePromoted
from reef_release.drill.context import CHANNEL, Context
from reef_release.drill.errors import GotThrough
from reef_release.drill.sql import new_event, with_log
from reef_release.drill.stage import fresh, stage
from reef_release.log import EventLog, RuleRefused
from reef_release.tokens import TokenRole

__all__ = ["RACE", "Race", "by_hand", "promotion", "race_of"]

RACE = "drill-race"


_REASON = "an attempt of the drill"


@dataclass(frozen=True, kw_only=True)
class Race:
    """How it ended; positions are those of the events."""

    origin: str
    winner: str
    loser: str
    gates: dict[str, str]
    promoted: int
    refusal: str
    rolled_back: int


def race_of(context: Context) -> Race:
    """The stage, played at first use."""
    race = context.kept.get(RACE)
    if race is None:
        race = context.kept[RACE] = _play(context)
    assert isinstance(race, Race)
    return race


def _play(context: Context) -> Race:
    # One attempt: the loser, whose pass has grown stale, would be gated again and get through.
    stage(context, RACE, max_attempts=1)
    origin = context.serving(RACE) or ""
    operator = context.client(TokenRole.OPERATE)
    operator.hold(RACE, _REASON)
    gates = {}
    for _ in range(2):
        view = context.submit(fresh(context, "better"), scenario=RACE)
        ended = context.ended(view.candidate_id, RACE)
        if ended.status != "passed":
            raise GotThrough(f"A good candidate of the stage is {ended.status}.")
        gates[view.candidate_id] = ended.gates[-1].gate_id
    signed = partial(context.events, "release.signed", scenario=RACE)
    context.until(signed, lambda found: len(found) == 3)
    refusals = _promote_at_once(context, origin, gates)
    promoted = [
        event
        for event in context.events("release.promoted", scenario=RACE)
        if getattr(event.data, "release_id", "") in gates
    ]
    if len(promoted) != 1:
        raise GotThrough(f"{len(promoted)} of two promotions on one base stand in the log.")
    winner = str(getattr(promoted[0].data, "release_id", ""))
    [loser] = set(gates) - {winner}
    back = operator.roll_back(RACE, origin, _REASON)
    # Nothing but the log says now what is served: the next document is not yet signed.
    context.stack.crash("service")
    return Race(
        origin=origin,
        winner=winner,
        loser=loser,
        gates=gates,
        promoted=promoted[0].envelope.position,
        refusal=refusals[loser],
        rolled_back=back.position,
    )


def _promote_at_once(context: Context, origin: str, gates: dict[str, str]) -> dict[str, str]:
    """Let two promoters and the service promote at once; why each hand-made one was refused."""
    refusals: dict[str, str] = {}

    async def promoter(log: EventLog, release: str) -> None:
        """Try until the hold is over, then once."""
        while True:
            try:
                await log.append(new_event(RACE, promotion(origin, release, gates[release])))
            except RuleRefused as refused_:
                codes = {reason.code for reason in refused_.reasons}
                if codes == {"held"}:
                    continue
                refusals[release] = ", ".join(sorted(codes))
            return

    async def run(log: EventLog) -> None:
        resume = partial(context.client(TokenRole.OPERATE).resume, RACE, _REASON)
        await asyncio.gather(
            *(promoter(log, release) for release in gates), asyncio.to_thread(resume)
        )

    with_log(context, run)
    return refusals


def promotion(base: str, release: str, gate_id: str) -> ReleasePromoted:
    return ReleasePromoted(release_id=release, gate_id=gate_id, base=base, channel=CHANNEL)


def by_hand(context: Context, data: EventData) -> Callable[[], object]:
    """An append of *data* past the service."""

    async def append(log: EventLog) -> None:
        await log.append(new_event(RACE, data))

    return partial(with_log, context, append)
