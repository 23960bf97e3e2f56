"""Turns with known answers: how well the judge does as it runs.

What always holds: a probe looks to the judge like any turn; an outage is no wrong answer; and
what is reported covers the last probes only, so that a judge that has become bad shows it soon
and one that has recovered, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from importlib import resources

import msgspec

from judge.backend import Backend
from judge.prompts import last_index
from judge.voting import ask, identity_of
from reef_release.domain.judging import judge_votes
from reef_release.wire import JudgeProbe, Message, NextState, TurnAssignment

__all__ = ["KnownAnswer", "Probes", "shipped_probes"]


class KnownAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A turn and what a good judge says of it; `earlier` are the replies before `reply`."""

    id: str
    asked: str
    earlier: list[str]
    reply: str
    reaction: str
    score: int
    about: int


def shipped_probes() -> list[KnownAnswer]:
    """The set that comes with the judge."""
    text = resources.files("judge").joinpath("data", "probes.jsonl").read_text("utf-8")
    return [msgspec.json.decode(line, type=KnownAnswer) for line in text.splitlines()]


class Probes:
    """Asks known answers in turn and keeps the last results, as many as there are known answers.

    The first round asks all of them, later ones `round_size`.
    """

    def __init__(
        self,
        backend: Backend,
        known: Sequence[KnownAnswer],
        *,
        votes: int,
        round_size: int = 4,
    ) -> None:
        self._backend = backend
        self._known = known
        self._votes = votes
        self._round_size = round_size
        self._asked = 0
        self._results: deque[bool] = deque(maxlen=len(known))

    def ask_round(self) -> JudgeProbe:
        """Ask, and say how the last ones went. Raises what the backend raises."""
        due = len(self._known) - len(self._results) or self._round_size
        for _ in range(due):
            known = self._known[self._asked % len(self._known)]
            turn = _turn(known, self._asked)
            found = judge_votes(ask(self._backend, turn, self._votes), last=last_index(turn))
            self._asked += 1
            self._results.append((found.score, found.about) == (known.score, known.about))
        return JudgeProbe(
            judge=identity_of(self._backend, self._votes),
            asked=len(self._results),
            right=sum(self._results),
        )


def _turn(known: KnownAnswer, number: int) -> TurnAssignment:
    # The number makes the seeds of a repeated probe new ones.
    return TurnAssignment(
        scenario="",
        turn_id=f"{known.id}-{number}",
        session_id="",
        lease_id="",
        lease_expires_at="",
        messages=[{"role": "user", "content": known.asked}],
        reply=known.reply,
        next_state=NextState(role="user", messages=[{"role": "user", "content": known.reaction}]),
        earlier=[
            Message(index=index, turn_id="", reply=reply)
            for index, reply in enumerate(known.earlier, 1)
        ],
    )
