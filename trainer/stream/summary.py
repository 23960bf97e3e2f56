"""What a run of the stream came to, from its records alone.

What always holds: a criterion that was never met is None and counts as later than any session,
in a median, too; the share of right answers is of the first replies, as the stream's own check
read them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import msgspec

from trainer.stream.records import Evaluation, Record, Session

__all__ = ["ArmSummary", "SeedSummary", "reached", "rolling", "summarise"]

IN_A_ROW = 3


class SeedSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One arm on one seed."""

    seed: int
    accepted: list[bool]
    """Whether the first reply was accepted, by session."""
    promotions: list[int]
    """Sessions whose first reply came from another release than the one before."""
    reached: int | None
    """The session that was the third in a row with an accepted first reply."""
    right_share: float
    replies_mean: float
    session_s: float
    origin: Evaluation | None
    """On fresh tasks before the first session, and after the last."""
    final: Evaluation | None

    @property
    def kept_share(self) -> float | None:
        """Right answers on fresh tasks at the end, as a share of those at the beginning."""
        if self.origin is None or self.final is None or self.origin.right == 0:
            return None
        before = self.origin.right / self.origin.count
        return (self.final.right / self.final.count) / before


class ArmSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One arm over its seeds."""

    arm: str
    seeds: list[SeedSummary]
    reached_count: int
    reached_median: float | None
    kept_share_least: float | None

    def curve(self, window: int) -> list[float]:
        """The share of accepted first replies by session, over the seeds that got that far."""
        longest = max((len(seed.accepted) for seed in self.seeds), default=0)
        each = [rolling(seed.accepted, window) for seed in self.seeds]
        return [
            statistics.fmean(one[place] for one in each if place < len(one))
            for place in range(longest)
        ]


def reached(accepted: Sequence[bool], in_a_row: int = IN_A_ROW) -> int | None:
    """The number, from 1, of the first session that ends *in_a_row* accepted ones."""
    run = 0
    for place, good in enumerate(accepted, 1):
        run = run + 1 if good else 0
        if run == in_a_row:
            return place
    return None


def rolling(accepted: Sequence[bool], window: int) -> list[float]:
    """The share of accepted ones among each session and up to ``window - 1`` before it."""
    return [
        statistics.fmean(accepted[max(0, end - window) : end])
        for end in range(1, len(accepted) + 1)
    ]


def summarise(records: Sequence[Record]) -> list[ArmSummary]:
    """Every arm in *records*, in the order of their names, each over its seeds."""
    runs: dict[tuple[str, int], list[Session]] = {}
    evaluations: dict[tuple[str, int], list[Evaluation]] = {}
    for record in records:
        if isinstance(record, Session):
            runs.setdefault((record.arm, record.seed), []).append(record)
        elif isinstance(record, Evaluation):
            evaluations.setdefault((record.arm, record.seed), []).append(record)
    arms: dict[str, list[SeedSummary]] = {}
    for (arm, seed), sessions in sorted(runs.items()):
        found = _seed(seed, sessions, evaluations.get((arm, seed), []))
        arms.setdefault(arm, []).append(found)
    return [_arm(arm, seeds) for arm, seeds in arms.items()]


def _seed(seed: int, sessions: list[Session], evaluations: list[Evaluation]) -> SeedSummary:
    ordered = sorted(sessions, key=lambda session: session.session)
    accepted = [session.accepted_first for session in ordered]
    after = {each.after: each for each in evaluations}
    last = ordered[-1].session
    return SeedSummary(
        seed=seed,
        accepted=accepted,
        promotions=_promotions(ordered),
        reached=reached(accepted),
        right_share=statistics.fmean(session.replies[0].right for session in ordered),
        replies_mean=statistics.fmean(len(session.replies) for session in ordered),
        session_s=statistics.fmean(session.wall_s for session in ordered),
        origin=after.get(0),
        final=after.get(last),
    )


def _promotions(sessions: Sequence[Session]) -> list[int]:
    found = []
    before: str | None = None
    for session in sessions:
        release = session.replies[0].release
        if release is not None:
            if before is not None and release != before:
                found.append(session.session)
            before = release
    return found


def _arm(arm: str, seeds: list[SeedSummary]) -> ArmSummary:
    places = [math.inf if seed.reached is None else seed.reached for seed in seeds]
    median = statistics.median(places)
    kept = [seed.kept_share for seed in seeds if seed.kept_share is not None]
    return ArmSummary(
        arm=arm,
        seeds=seeds,
        reached_count=sum(seed.reached is not None for seed in seeds),
        reached_median=None if math.isinf(median) else float(median),
        kept_share_least=min(kept, default=None),
    )
