"""Passes that are too old, revoked releases, races and crashes: on a stage with three releases.

The stage serves the origin; two good candidates pass their gates on it while it is held; then
they are promoted at once by three promoters, one wins, and the operator rolls back to the origin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from reef_release.domain.canonical import sha256_hex
from reef_release.domain.events import EventData, ReleasePromoted, ReleaseRolledBack
from reef_release.drill.attack import Access, Attack, Outcome, Seen, Stop, stopped
from reef_release.drill.context import CHANNEL, Context
from reef_release.drill.errors import GotThrough
from reef_release.drill.lying import document, honest, refused, target, truthful
from reef_release.drill.sql import new_event, with_log
from reef_release.drill.stage import fresh, stage
from reef_release.log import EventLog, RuleRefused
from reef_release.tokens import TokenRole

__all__ = ["ATTACKS"]

_STAGE = "drill-race"
_NEEDS = frozenset({Access.DATABASE, Access.ENGINE, Access.KEYS, Access.MODELS, Access.PROCESSES})
_REASON = "an attempt of the drill"


@dataclass(frozen=True, kw_only=True)
class _Race:
    """How it ended; positions are those of the events."""

    origin: str
    winner: str
    loser: str
    gates: dict[str, str]
    promoted: int
    refusal: str
    rolled_back: int


def _race(context: Context) -> _Race:
    """The stage, played at first use."""
    race = context.kept.get(_STAGE)
    if race is None:
        race = context.kept[_STAGE] = _play(context)
    assert isinstance(race, _Race)
    return race


def _play(context: Context) -> _Race:
    # One attempt: the loser, whose pass has grown stale, would be gated again and get through.
    stage(context, _STAGE, max_attempts=1)
    origin = context.serving(_STAGE) or ""
    operator = context.client(TokenRole.OPERATE)
    operator.hold(_STAGE, _REASON)
    gates = {}
    for _ in range(2):
        view = context.submit(fresh(context, "better"), scenario=_STAGE)
        ended = context.ended(view.candidate_id, _STAGE)
        if ended.status != "passed":
            raise GotThrough(f"A good candidate of the stage is {ended.status}.")
        gates[view.candidate_id] = ended.gates[-1].gate_id
    signed = partial(context.events, "release.signed", scenario=_STAGE)
    context.until(signed, lambda found: len(found) == 3)
    refusals = _promote_at_once(context, origin, gates)
    promoted = [
        event
        for event in context.events("release.promoted", scenario=_STAGE)
        if getattr(event.data, "release_id", "") in gates
    ]
    if len(promoted) != 1:
        raise GotThrough(f"{len(promoted)} of two promotions on one base stand in the log.")
    winner = str(getattr(promoted[0].data, "release_id", ""))
    [loser] = set(gates) - {winner}
    back = operator.roll_back(_STAGE, origin, _REASON)
    # Nothing but the log says now what is served: the next document is not yet signed.
    context.stack.crash("service")
    return _Race(
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
                await log.append(new_event(_STAGE, _promotion(origin, release, gates[release])))
            except RuleRefused as refused_:
                codes = {reason.code for reason in refused_.reasons}
                if codes == {"held"}:
                    continue
                refusals[release] = ", ".join(sorted(codes))
            return

    async def run(log: EventLog) -> None:
        resume = partial(context.client(TokenRole.OPERATE).resume, _STAGE, _REASON)
        await asyncio.gather(
            *(promoter(log, release) for release in gates), asyncio.to_thread(resume)
        )

    with_log(context, run)
    return refusals


def _promotion(base: str, release: str, gate_id: str) -> ReleasePromoted:
    return ReleasePromoted(release_id=release, gate_id=gate_id, base=base, channel=CHANNEL)


def _by_hand(context: Context, data: EventData) -> Callable[[], object]:
    """An append of *data* past the service."""

    async def append(log: EventLog) -> None:
        await log.append(new_event(_STAGE, data))

    return partial(with_log, context, append)


def _raced(context: Context) -> Outcome:
    race = _race(context)
    if race.refusal != "stale-gate":
        raise GotThrough(f"The loser was refused as {race.refusal}.")
    seen = Seen(by="database", code="one-wins", event="release.promoted", position=race.promoted)
    again = stopped(
        context,
        _by_hand(context, _promotion(race.origin, race.winner, race.gates[race.winner])),
        "database",
        "stale-gate",
    )
    return Outcome(seen=(seen, again), twin=f"the winner was promoted at {race.promoted}")


def _crashed(context: Context) -> Outcome:
    race = _race(context)
    signed = honest(context, _STAGE)
    if (signed.release_id, signed.pointer_position) != (race.origin, race.rolled_back):
        raise GotThrough(f"The document names {signed.release_id} at {signed.pointer_position}.")
    seen = Seen(
        by="service",
        code="replayed",
        event="release.rolled_back",
        position=race.rolled_back,
    )
    return Outcome(seen=(seen,), twin=truthful(context, _STAGE))


def _stale(context: Context) -> Outcome:
    """A pass on the origin, unused; another was promoted and rolled back to the origin."""
    race = _race(context)
    gate_id = race.gates[race.loser]
    promote = _by_hand(context, _promotion(race.origin, race.loser, gate_id))
    by_hand = stopped(context, promote, "database", "stale-gate")
    return Outcome(
        seen=(by_hand, _claimed(context, race.loser, race.rolled_back, "no-pointer-event")),
        twin=f"the same pass of the winner was used at {race.promoted}",
    )


def _unpromoted(context: Context) -> Outcome:
    """A document, by the stolen pointer key, for a release that passed and was not promoted."""
    race = _race(context)
    position = context.event("gate.passed", scenario=_STAGE, candidate_id=race.loser)
    seen = [
        _claimed(context, race.loser, race.rolled_back, "no-pointer-event"),
        _claimed(context, race.loser, position, "no-pointer-event"),
    ]
    return Outcome(seen=tuple(seen), twin=truthful(context, _STAGE))


def _claimed(context: Context, release: str, position: int, code: str) -> Seen:
    """That a node refuses a document that names *release* at *position*."""
    attestation = context.client(TokenRole.AUDIT).attestation(_STAGE, release)
    with target(context, scenario=_STAGE, fresh=True) as held:
        held.lie(
            document(
                context,
                base=honest(context, _STAGE),
                release_id=release,
                pointer_position=position,
                gate_digest=sha256_hex(attestation),
            )
        )
        return refused(held, code)


def _revoked(context: Context) -> Outcome:
    """The winner, revoked after the rollback."""
    race = _race(context)
    operator = context.client(TokenRole.OPERATE)
    release = operator.release(_STAGE, race.winner)
    if not release.revoked:
        operator.revoke_release(_STAGE, race.winner, _REASON)
    back = ReleaseRolledBack(release_id=race.winner, channel=CHANNEL, reason=_REASON)
    seen = [
        stopped(
            context,
            partial(operator.roll_back, _STAGE, race.winner, _REASON),
            "service",
            "revoked",
        ),
        stopped(context, _by_hand(context, back), "database", "revoked"),
        stopped(
            context,
            _by_hand(context, _promotion(race.origin, race.winner, race.gates[race.winner])),
            "database",
            "revoked",
        ),
    ]
    attestation = operator.attestation(_STAGE, race.winner)
    with target(context, scenario=_STAGE) as held:
        held.lie(
            document(
                context,
                base=honest(context, _STAGE),
                release_id=race.winner,
                pointer_position=race.promoted,
                gate_digest=sha256_hex(attestation),
            )
        )
        seen.append(refused(held, "pointer-lower", race.origin))
    return Outcome(
        seen=tuple(seen), twin=f"the origin, not revoked, was rolled back to at {race.rolled_back}"
    )


def _attack(
    name: str,
    row: int,
    tries: str,
    run: Callable[[Context], Outcome],
    *stops: Stop,
) -> Attack:
    return Attack(
        name=name, rows=(row,), tries=tries, stops=stops, run=run, prepare=_race, needs=_NEEDS
    )


_AT_THE_NODE = Stop(by="node", code="no-pointer-event", events=("node.refused",))

ATTACKS = (
    _attack(
        "document-without-a-promotion",
        37,
        "a current document for a release that passed its gate and was never promoted",
        _unpromoted,
        _AT_THE_NODE,
    ),
    _attack(
        "revoked-release-again",
        39,
        "a revoked release rolled back to, promoted again, and named by a stolen pointer key",
        _revoked,
        Stop(by="service", code="revoked"),
        Stop(by="database", code="revoked"),
        Stop(by="node", code="pointer-lower", events=("node.refused",)),
    ),
    _attack(
        "promoters-that-race",
        40,
        "two candidates promoted at once on one base, by two promoters and the service",
        _raced,
        Stop(by="database", code="one-wins", events=("release.promoted",)),
        Stop(by="database", code="stale-gate"),
    ),
    _attack(
        "crash-before-the-next-document",
        42,
        "the service killed between a pointer event and the next current document",
        _crashed,
        Stop(by="service", code="replayed", events=("release.rolled_back",)),
    ),
    _attack(
        "pass-from-before-the-pointer-came-back",
        57,
        "a pass on R1 kept unused while R2 is promoted and rolled back to R1",
        _stale,
        Stop(by="database", code="stale-gate"),
        _AT_THE_NODE,
    ),
)
