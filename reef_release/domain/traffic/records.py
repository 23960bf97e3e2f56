"""What the log says of a scenario's traffic: turns, sessions, judges and batches.

Of each call one small record without any text stays; what is open (sessions, turns that wait
for a judge, samples that wait for a batch) is listed apart, so that no step reads everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from reef_release.domain.traffic.alarm import UnboundRun
from reef_release.domain.traffic.batch_records import Batch, Line
from reef_release.domain.traffic.events import TurnType
from reef_release.domain.traffic.reasons import RESTORABLE

__all__ = ["MAX_JUDGING_FAILURES", "Judged", "Session", "Traffic", "Turn"]

MAX_JUDGING_FAILURES = 3


@dataclass(slots=True, kw_only=True)
class Judged:
    """The judgment on a turn."""

    position: int
    event_id: str
    judge_id: str
    score: int
    about: int
    target: str | None
    votes: str
    hints: tuple[str, ...]
    valid: int
    asked: int
    by_suspended: bool


@dataclass(slots=True, kw_only=True)
class Turn:
    """One recorded call of the client `actor`; `kind` None until it is correlated.

    `next_id` is the call that reacts to its reply, `superseded_by` the one that took its place.
    """

    turn_id: str
    position: int
    actor: str
    at: str
    tag: str | None
    turn_type: TurnType | None
    release_id: str | None
    body: str
    error: str | None
    finish_reason: str | None
    token_count: int | None
    token_fault: str | None
    kind: str | None = None
    session_id: str | None = None
    follows: str | None = None
    method: str | None = None
    reason: str | None = None
    replaces: str | None = None
    next_id: str | None = None
    next_erased: bool = False
    superseded_by: str | None = None
    judged: Judged | None = None
    failures: int = 0
    failed_at: str | None = None
    report: tuple[str | None, str | None] | None = None
    refused: str | None = None
    batch_id: str | None = None
    erased: bool = False
    """Whether its body is erased; `next_erased` tells it of the call that reacts to its reply."""
    used_by: str | None = None
    """The judged turn whose sample trains this turn's reply, from `batch.formed` on."""
    quarantined: bool = False
    """Whether it stood in a batch that must not be trained again."""
    lost_lines: dict[str, int] = field(default_factory=dict)
    """In how many lines that came to nothing its sample stood, by the release they began at."""

    @property
    def can_be_judged(self) -> bool:
        """Whether it is a completed turn: answered, in its place, with a reaction, both told."""
        return (
            self.next_id is not None
            and self.error is None
            and self.superseded_by is None
            and self.judged is None
            and not self.erased
            and not self.next_erased
            and self.failures < MAX_JUDGING_FAILURES
        )


@dataclass(slots=True, kw_only=True)
class Session:
    """One conversation: its calls in order, retries and side calls included."""

    session_id: str
    last_at: str
    calls: list[str] = field(default_factory=list)
    superseded: set[str] = field(default_factory=set)
    """Turns in whose place another one came, and that nobody continued since."""
    expired: bool = False


@dataclass(kw_only=True)
class Traffic:
    """Everything that the log says of a scenario's traffic."""

    turns: dict[str, Turn] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    """The ids of all calls as they came."""
    uncorrelated: dict[str, None] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    open_sessions: dict[str, None] = field(default_factory=dict)
    """The ids of sessions that are not expired, the longest silent one first."""
    newest_at: str = ""
    to_judge: dict[str, None] = field(default_factory=dict)
    samples: dict[str, None] = field(default_factory=dict)
    """Judged turns with something to train that are in no batch and were not refused."""
    batches: dict[str, Batch] = field(default_factory=dict)
    open_batches: dict[str, None] = field(default_factory=dict)
    """Those that are not trained yet and not ended."""
    unsettled: dict[str, None] = field(default_factory=dict)
    """The trained batches that stand in no promoted release and were not released either."""
    lines: dict[str, Line] = field(default_factory=dict)
    trained_to: dict[str, set[str]] = field(default_factory=dict)
    """By weights: the ids of the lines with a batch that came to them, also of those over."""
    suspended: dict[str, int] = field(default_factory=dict)
    """Judges whose scores feed no batch, with how many known answers they were asked."""
    unbound_run: UnboundRun = field(default_factory=UnboundRun)
    alarm: str | None = None
    """The main reason of the run that raised the alarm; None while it is not raised."""
    recovered: bool = False
    """Whether a call was bound since the alarm was raised."""

    @property
    def alarm_reason(self) -> str | None:
        """While the alarm is raised, the main reason of the present run; else None."""
        return self.alarm and (self.unbound_run.main_reason() or self.alarm)

    def restorable(self, batch_id: str) -> list[Turn]:
        """The judged turns of the batch that are refused for what trainers did with them."""
        samples = self.batches[batch_id].formed.samples
        turns = [self.turns[sample.turn_id] for sample in samples]
        return [turn for turn in turns if turn.quarantined or turn.refused in RESTORABLE]

    def ancestors(self, turn: Turn) -> Iterator[Turn]:
        """The turns before *turn* in its conversation, newest first."""
        seen = {turn.turn_id}
        while (before := self.before(turn)) is not None and before.turn_id not in seen:
            seen.add(before.turn_id)
            yield before
            turn = before

    def before(self, turn: Turn) -> Turn | None:
        """The turn to whose reply this one, or the one in whose place it came, reacts."""
        seen = {turn.turn_id}
        while turn.follows is None:
            # What took another turn's place continues what that one continued.
            replaced = self.turns.get(turn.replaces or "")
            if replaced is None or replaced.turn_id in seen:
                return None
            seen.add(replaced.turn_id)
            turn = replaced
        return self.turns.get(turn.follows)
