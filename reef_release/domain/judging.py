"""Votes of a judge into one judgment, and a judgment into what may be trained on.

What always holds: a failed vote counts for nothing, neither for a score nor for a hint; a tie is
no opinion; and what the judgment says follows from the recorded votes alone, so that it can be
computed again without asking the judge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

__all__ = [
    "MAX_ERROR_CHARACTERS",
    "MAX_HINTS",
    "MAX_HINTS_OF_A_VOTE",
    "MAX_HINT_CHARACTERS",
    "MAX_WORDS_CHARACTERS",
    "MIN_HINT_CHARACTERS",
    "Judgment",
    "SampleTerms",
    "VoteLike",
    "accepted_hints",
    "is_valid",
    "judge_votes",
    "sample_terms",
]

MIN_HINT_CHARACTERS = 11
"""A hint is longer than 10 characters: shorter ones ("better", "try again") instruct nothing."""
MAX_HINT_CHARACTERS = 500
"""A longer hint is left out: cut in half, an instruction may say the opposite."""
MAX_HINTS_OF_A_VOTE = 10
MAX_HINTS = 3
MAX_WORDS_CHARACTERS = 2_000
"""Of what was rejected or is to stay."""
MAX_ERROR_CHARACTERS = 200
"""Of why nothing could be judged. The log keeps it for ever, so it is a code or a short sentence,
and no place for what a person said."""

_SCORES = (-1, 0, 1)


class VoteLike(Protocol):
    """One answer of a judge as it was read; `reef_release.wire.Vote` is one."""

    @property
    def valid(self) -> bool: ...
    @property
    def score(self) -> int: ...
    @property
    def about(self) -> int: ...
    @property
    def rejected(self) -> str: ...
    @property
    def keep(self) -> str: ...
    @property
    def hints(self) -> Sequence[str]: ...


class Judgment(msgspec.Struct, frozen=True, kw_only=True):
    """What the votes say together.

    `score` is 1, 0 or -1. `about` is the number of the reply that the reaction is about, 0 if it
    is about none. `valid` of `asked` votes counted.
    """

    score: int
    about: int
    rejected: str
    keep: str
    hints: tuple[str, ...]
    valid: int
    asked: int


class SampleTerms(msgspec.Struct, frozen=True, kw_only=True):
    """Which terms of the objective a sample feeds, and whether its teacher sees the hint."""

    policy: bool
    distillation: bool
    hinted: bool


def judge_votes(votes: Sequence[VoteLike], *, last: int, quorum: int = 1) -> Judgment:
    """The judgment on a turn whose last reply has number *last*.

    With fewer than *quorum* valid votes the score is 0 and there are no hints. Hints and the
    words that were rejected or are to stay come only from votes about the reply that the
    majority names: those of another reply would teach this one something that nobody said of it.
    """
    valid = [vote for vote in votes if is_valid(vote, last)]
    about = _plurality((vote.about for vote in valid), tie=last)
    counted = len(valid)
    if counted < max(quorum, 1):
        return Judgment(
            score=0,
            about=about,
            rejected="",
            keep="",
            hints=(),
            valid=counted,
            asked=len(votes),
        )
    score = _plurality((vote.score for vote in valid), tie=0)
    same = [vote for vote in valid if vote.about == about]
    words = [vote for vote in same if vote.score == score]
    return Judgment(
        score=score,
        about=about,
        rejected=_first(vote.rejected for vote in words),
        keep=_first(vote.keep for vote in words),
        hints=accepted_hints(hint for vote in same for hint in vote.hints[:MAX_HINTS_OF_A_VOTE]),
        valid=counted,
        asked=len(votes),
    )


def is_valid(vote: VoteLike, last: int) -> bool:
    """Whether a vote counts: read as valid, its score and its reply within range."""
    return vote.valid and vote.score in _SCORES and 0 <= vote.about <= last


def accepted_hints(hints: Iterable[str]) -> tuple[str, ...]:
    """The hints that count: neither short nor long, each once, shortest first, `MAX_HINTS` at most.

    Two hints are one when they differ in white space or case only; the first of them stands.
    Among hints of one length the earlier one comes first.
    """
    found: dict[str, str] = {}
    for hint in hints:
        if len(hint) > MAX_HINT_CHARACTERS:
            continue
        text = " ".join(hint.split())
        if len(text) >= MIN_HINT_CHARACTERS:
            found.setdefault(text.casefold(), text)
    return tuple(sorted(found.values(), key=len)[:MAX_HINTS])


def sample_terms(judgment: Judgment) -> SampleTerms | None:
    """What a judged turn trains; None if nothing.

    A hint and a score feed both terms, a hint alone the distillation only; a score without a
    hint feeds the policy term, with the unhinted teacher. A reaction about no reply trains
    nothing, whatever its score, since there is no reply to build the sample on.
    """
    hinted = bool(judgment.hints)
    if judgment.about == 0 or (judgment.score == 0 and not hinted):
        return None
    return SampleTerms(policy=judgment.score != 0, distillation=True, hinted=hinted)


def _plurality(values: Iterable[int], *, tie: int) -> int:
    """The most frequent value; *tie* if two are, or there is none."""
    counts = Counter(values).most_common(2)
    if not counts or (len(counts) == 2 and counts[0][1] == counts[1][1]):
        return tie
    return counts[0][0]


def _first(texts: Iterable[str]) -> str:
    return next((text for text in texts if text.strip()), "")[:MAX_WORDS_CHARACTERS]
