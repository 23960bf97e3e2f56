"""Passes that are too old, revoked releases, races and crashes: on a stage with three releases."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from reef_release.domain.canonical import sha256_hex
from reef_release.domain.events import ReleaseRolledBack
from reef_release.drill.attack import Access, Attack, Outcome, Seen, Stop, stopped
from reef_release.drill.context import CHANNEL, Context
from reef_release.drill.errors import GotThrough
from reef_release.drill.lying import document, honest, refused, target, truthful
from reef_release.drill.race import RACE, by_hand, promotion, race_of
from reef_release.tokens import TokenRole

__all__ = ["ATTACKS"]

_NEEDS = frozenset({Access.DATABASE, Access.ENGINE, Access.KEYS, Access.MODELS, Access.PROCESSES})


_REASON = "an attempt of the drill"


def _raced(context: Context) -> Outcome:
    race = race_of(context)
    if race.refusal != "stale-gate":
        raise GotThrough(f"The loser was refused as {race.refusal}.")
    seen = Seen(by="database", code="one-wins", event="release.promoted", position=race.promoted)
    again = stopped(
        context,
        by_hand(context, promotion(race.origin, race.winner, race.gates[race.winner])),
        "database",
        "stale-gate",
    )
    return Outcome(seen=(seen, again), twin=f"the winner was promoted at {race.promoted}")


def _crashed(context: Context) -> Outcome:
    race = race_of(context)
    signed = honest(context, RACE)
    if (signed.release_id, signed.pointer_position) != (race.origin, race.rolled_back):
        raise GotThrough(f"The document names {signed.release_id} at {signed.pointer_position}.")
    seen = Seen(
        by="service",
        code="replayed",
        event="release.rolled_back",
        position=race.rolled_back,
    )
    return Outcome(seen=(seen,), twin=truthful(context, RACE))


def _stale(context: Context) -> Outcome:
    """A pass on the origin, unused; another was promoted and rolled back to the origin."""
    race = race_of(context)
    gate_id = race.gates[race.loser]
    promote = by_hand(context, promotion(race.origin, race.loser, gate_id))
    refusal = stopped(context, promote, "database", "stale-gate")
    return Outcome(
        seen=(refusal, _claimed(context, race.loser, race.rolled_back, "no-pointer-event")),
        twin=f"the same pass of the winner was used at {race.promoted}",
    )


def _unpromoted(context: Context) -> Outcome:
    """A document, by the stolen pointer key, for a release that passed and was not promoted."""
    race = race_of(context)
    position = context.event("gate.passed", scenario=RACE, candidate_id=race.loser)
    seen = [
        _claimed(context, race.loser, race.rolled_back, "no-pointer-event"),
        _claimed(context, race.loser, position, "no-pointer-event"),
    ]
    return Outcome(seen=tuple(seen), twin=truthful(context, RACE))


def _claimed(context: Context, release: str, position: int, code: str) -> Seen:
    """That a node refuses a document that names *release* at *position*."""
    attestation = context.client(TokenRole.AUDIT).attestation(RACE, release)
    with target(context, scenario=RACE, fresh=True) as held:
        held.lie(
            document(
                context,
                base=honest(context, RACE),
                release_id=release,
                pointer_position=position,
                gate_digest=sha256_hex(attestation),
            )
        )
        return refused(held, code)


def _revoked(context: Context) -> Outcome:
    """The winner, revoked after the rollback."""
    race = race_of(context)
    operator = context.client(TokenRole.OPERATE)
    release = operator.release(RACE, race.winner)
    if not release.revoked:
        operator.revoke_release(RACE, race.winner, _REASON)
    back = ReleaseRolledBack(release_id=race.winner, channel=CHANNEL, reason=_REASON)
    seen = [
        stopped(
            context,
            partial(operator.roll_back, RACE, race.winner, _REASON),
            "service",
            "revoked",
        ),
        stopped(context, by_hand(context, back), "database", "revoked"),
        stopped(
            context,
            by_hand(context, promotion(race.origin, race.winner, race.gates[race.winner])),
            "database",
            "revoked",
        ),
    ]
    attestation = operator.attestation(RACE, race.winner)
    with target(context, scenario=RACE) as held:
        held.lie(
            document(
                context,
                base=honest(context, RACE),
                release_id=race.winner,
                pointer_position=race.promoted,
                gate_digest=sha256_hex(attestation),
            )
        )
        seen.append(refused(held, "pointer-lower", race.origin))
    return Outcome(
        seen=tuple(seen), twin=f"the origin, not revoked, was rolled back to at {race.rolled_back}"
    )


def _never(context: Context) -> Outcome:
    """A rollback to the loser, which passed its gate and was signed, and was never promoted."""
    race = race_of(context)
    roll_back = partial(context.client(TokenRole.OPERATE).roll_back, RACE, race.loser, _REASON)
    back = ReleaseRolledBack(release_id=race.loser, channel=CHANNEL, reason=_REASON)
    seen = (
        stopped(context, roll_back, "service", "never-promoted"),
        stopped(context, by_hand(context, back), "database", "never-promoted"),
    )
    twin = f"the origin, promoted once, was rolled back to at {race.rolled_back}"
    return Outcome(seen=seen, twin=twin)


def _attack(
    name: str,
    row: int,
    tries: str,
    run: Callable[[Context], Outcome],
    *stops: Stop,
) -> Attack:
    return Attack(
        name=name, rows=(row,), tries=tries, stops=stops, run=run, prepare=race_of, needs=_NEEDS
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
        "rollback-to-what-was-never-promoted",
        39,
        "a rollback to a release that passed its gate and was never promoted, also by SQL",
        _never,
        Stop(by="service", code="never-promoted"),
        Stop(by="database", code="never-promoted"),
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
