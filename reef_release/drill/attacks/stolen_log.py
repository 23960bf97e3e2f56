"""A log rewritten by a thief of its key, so that every proof fits: only its rules are left.

Each rewriting changes one thing, and what replays or is shown it must name that thing and
nothing else at that place.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from reef_release.audit.replay import replay
from reef_release.drill.attack import Access, Attack, Outcome, Seen, Stop
from reef_release.drill.context import Context
from reef_release.drill.errors import GotThrough
from reef_release.drill.forged_log import Event, Story, story_of
from reef_release.drill.lying import refused, target
from reef_release.drill.redrawn import DRAWS
from reef_release.drill.rewrites import (
    GROUNDS,
    MOVES,
    OPENINGS,
    REVOCATIONS,
    SIGNERS,
    TRIALS,
    Rewrite,
)
from reef_release.drill.void_events import VOID, with_void_events

__all__ = ["ATTACKS"]

_WRAPPERS = frozenset({"bad-request", "refused", "signature-rejected"})
"""Say only that other reasons follow."""


def _audited(context: Context, rewrites: Sequence[tuple[str, Rewrite]]) -> Outcome:
    """Each rewriting, replayed from an export of it."""
    story = story_of(context)
    left = [each for codes in _found(story, story.events).values() for each in codes]
    if left:
        raise GotThrough(f"The log as it is does not replay: {', '.join(left)}.")
    seen = []
    for code, rewrite in rewrites:
        told = rewrite(story)
        found = _found(story, told.events).get(told.position, set()) - _WRAPPERS
        if found != {code}:
            raise GotThrough(f"The audit found {sorted(found)} at {told.position}, not {code}.")
        words = f"{told.events[told.position]['type']} at {told.position} of the forged log"
        seen.append(Seen(by="audit", code=code, words=words))
    return Outcome(seen=tuple(seen), twin=f"{len(story.events)} events, as they are, replay")


def _found(story: Story, events: Sequence[Event]) -> dict[int | None, set[str]]:
    """What a replay of an export of *events* finds, by their place; but for what the drill forged
    in the real log, wherever that stands now."""
    context = story.context
    forged = {place for place, event in enumerate(events) if _position(event) in context.forged}
    with story.told(events).exported() as folder:
        report = replay(folder, context.anchor)
    found: dict[int | None, set[str]] = {}
    for each in report.problems:
        if each.position not in forged:
            found.setdefault(each.position, set()).add(each.code)
    return found


def _position(event: Event) -> int | None:
    """Where an event stands in the real log; None for one that does not."""
    return event.get("position")


def _replayed(context: Context) -> Outcome:
    """All events that may not stand, at once."""
    story = story_of(context)
    events, places = with_void_events(story)
    found = _found(story, events)
    seen, wrong = [], []
    for position, void in places:
        codes = found.pop(position, set())
        wanted = {void.code} - {""}
        if not wanted <= codes <= wanted | void.beside | _WRAPPERS:
            words = f"{events[position]['type']} at {position}"
            wrong.append(f"{sorted(codes)} in the {words}, not {void.code or 'nothing'}")
        elif void.code:
            words = f"{events[position]['type']} at {position} of the forged log"
            seen.append(Seen(by="audit", code=void.code, words=words))
    if wrong:
        raise GotThrough(f"The audit found {'; '.join(wrong)}.")
    if found:
        raise GotThrough(f"What is true in the forged log does not replay: {found}.")
    return Outcome(seen=tuple(seen), twin=f"the {len(story.events)} events around them stand")


def _shown(context: Context, rewrites: Sequence[tuple[str, Rewrite]]) -> Outcome:
    """Each rewriting, shown to a new node together with a document for its end."""
    story = story_of(context)
    seen = []
    for code, rewrite in rewrites:
        with target(context, fresh=True) as held:
            log = story.told(rewrite(story).events)
            held.answers.update(log.answers())
            held.lie(log.document())
            seen.append(refused(held, code))
    with target(context, fresh=True) as held:
        log = story.told(story.events)
        held.answers.update(log.answers())
        held.lie(log.document())
        standing = held.node.step()
    if standing.release_id != story.release:
        raise GotThrough(
            "A node that is shown the log as it is loads nothing.", reasons=standing.reasons
        )
    return Outcome(seen=tuple(seen), twin=f"shown the log as it is, it loads {story.release[:12]}")


def _on_audit(
    name: str, rows: tuple[int, ...], tries: str, rewrites: Sequence[tuple[str, Rewrite]]
) -> Attack:
    stops = tuple(Stop(by="audit", code=code) for code in dict(rewrites))
    return Attack(
        name=name,
        rows=rows,
        tries=tries,
        stops=stops,
        run=partial(_audited, rewrites=rewrites),
        needs=frozenset({Access.KEYS}),
    )


def _on_node(
    name: str, rows: tuple[int, ...], tries: str, rewrites: Sequence[tuple[str, Rewrite]]
) -> Attack:
    stops = tuple(Stop(by="node", code=code, events=("node.refused",)) for code in dict(rewrites))
    return Attack(
        name=name,
        rows=rows,
        tries=tries,
        stops=stops,
        run=partial(_shown, rewrites=rewrites),
        needs=frozenset({Access.ENGINE, Access.KEYS}),
    )


ATTACKS = (
    _on_audit(
        "gate-rewritten-with-the-log-key",
        (59, 51),
        "by the stolen log key: a gate with another seed, checkpoint or phase, a trial with "
        "another verdict or another reply",
        (*OPENINGS, *TRIALS),
    ),
    Attack(
        name="events-that-may-not-stand",
        rows=(59, 57, 53),
        tries="by the stolen log key: the log of a promotion with events in it that break one rule "
        "each, from its gate's opening to its end",
        stops=tuple(
            Stop(by="audit", code=code)
            for code in dict.fromkeys(void.code for table in VOID.values() for void in table)
            if code
        ),
        run=_replayed,
        needs=frozenset({Access.KEYS}),
    ),
    _on_audit(
        "draws-rewritten-with-the-log-key",
        (58, 53),
        "by the stolen log key: a gate under a policy or on a base that came after its draw, or "
        "under one whose key was revoked, a second card for weights, another schema",
        DRAWS,
    ),
    _on_audit(
        "moves-rewritten-with-the-log-key",
        (39, 57),
        "by the stolen log key: a rollback to what was never promoted, a promotion while held, "
        "and one promotion twice",
        MOVES["audit"],
    ),
    _on_audit(
        "revocations-rewritten-with-the-log-key",
        (39, 23),
        "by the stolen log key: a promotion after its release or a key behind it was revoked, and "
        "what a revoked key signed",
        (*REVOCATIONS, *SIGNERS),
    ),
    _on_node(
        "moves-told-to-a-new-node",
        (57, 22),
        "by stolen log and pointer keys: a promotion while held, of a stale gate, on another base",
        MOVES["node"],
    ),
    _on_node(
        "grounds-told-to-a-new-node",
        (57, 51),
        "by stolen log and pointer keys: a gate on another suite or seed, a pass without canaries, "
        "other weights signed, other files submitted",
        GROUNDS,
    ),
    _on_node(
        "revocations-told-to-a-new-node",
        (39, 23),
        "by stolen log and pointer keys: a promotion after its release or a key behind it was "
        "revoked",
        REVOCATIONS,
    ),
)
