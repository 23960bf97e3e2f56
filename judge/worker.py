"""Claim a turn, ask for its votes, post them; again and again.

What always holds: the worker keeps nothing of its own. A turn ends in exactly one of three ways:
all its votes are posted; the error that prevented them is posted, after bounded retries; or
nothing is posted, the lease runs out, and the service hands the turn out again. An outage is
never a vote, and after one no turn is claimed until the judge's endpoint answers again, so that
turns do not use up their retries on a judge that is away.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

import structlog

from judge.backend import Backend, Misconfigured
from judge.probes import KnownAnswer, Probes
from judge.voting import ask, identity_of
from reef_release.client.errors import BadAnswer
from reef_release.client.lease import Heartbeat, LeaseLost
from reef_release.client.transport import Retry
from reef_release.domain.judging import MAX_ERROR_CHARACTERS
from reef_release.domain.visible import one_line
from reef_release.errors import (
    Conflict,
    NotFound,
    ReefError,
    Refused,
    SettingsError,
    Unavailable,
)
from reef_release.wire import JudgeIdentity, JudgeProbe, JudgmentRequest, TurnAssignment, Vote

__all__ = ["JudgeWorker", "JudgeWorkerConfig", "TurnService"]

_BEATS_PER_LEASE = 3
_SHORTEST_BEAT_S, _LONGEST_BEAT_S = 1.0, 20.0
_LONGEST_PAUSE_S = 30.0
_log = structlog.get_logger(__name__)


class TurnService(Protocol):
    """What the worker needs of the service; `reef_release.client.ReefClient` is one."""

    def claim_turn(self, scenario: str, worker: str) -> TurnAssignment | None: ...
    def post_judgment(self, scenario: str, turn_id: str, judgment: JudgmentRequest) -> object: ...
    def renew_lease(self, lease_id: str) -> object: ...
    def post_probe(self, scenario: str, probe: JudgeProbe) -> object: ...


@dataclass(frozen=True, kw_only=True)
class JudgeWorkerConfig:
    """`name` tells this worker's leases from others'.

    The known answers are asked at the start and after every `probe_every` turns (0: never); with
    fewer than `probe_accuracy` of them right, the worker warns as well as reports.
    """

    name: str
    scenarios: Sequence[str]
    votes: int = 3
    poll_s: float = 1.0
    probe_every: int = 25
    probe_accuracy: float = 0.8
    post_retry: Retry = field(default_factory=lambda: Retry(attempts=6, longest_wait_s=30.0))

    def __post_init__(self) -> None:
        if not self.scenarios:
            raise SettingsError("No scenario is named.", next_step="Name at least one.")
        if not 1 <= self.votes <= 99:
            raise SettingsError(
                f"{self.votes} votes cannot be asked for.", next_step="Give 1 to 99."
            )


class JudgeWorker:
    """Judges the turns of its scenarios, one at a time and the scenarios by turns."""

    def __init__(
        self,
        config: JudgeWorkerConfig,
        client: TurnService,
        backend: Backend,
        *,
        known: Sequence[KnownAnswer] = (),
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """*known* are the probes; without any, none are asked."""
        self._config = config
        self._client = client
        self._backend = backend
        self._clock = clock
        probing = known and config.probe_every > 0
        self._probes = Probes(backend, known, votes=config.votes) if probing else None
        self._since_probe = config.probe_every
        self._left: str | None = None

    def run(self, *, once: bool = False, stop: threading.Event | None = None) -> int:
        """Work until *stop* is set; returns how many turns were judged.

        With *once*: until there is nothing left to judge, and what stands against it is raised.
        """
        stop = stop or threading.Event()
        judged = 0
        pause_s = self._config.poll_s
        while not stop.is_set():
            claimed, done, failure = self._round()
            judged += done
            if failure is not None:
                if once:
                    raise failure
                _log.error("judging interrupted", why=str(failure), again_in_s=pause_s)
                stop.wait(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
                self._until_answered(stop)
                continue
            pause_s = self._config.poll_s
            if not claimed:
                if once:
                    break
                stop.wait(self._config.poll_s)
        return judged

    def _round(self) -> tuple[int, int, ReefError | None]:
        """A turn of each scenario: how many were claimed, how many judged, and what failed."""
        claimed = judged = 0
        failure: ReefError | None = None
        for scenario in self._config.scenarios:
            try:
                self._probe()
                turn = self._client.claim_turn(scenario, self._config.name)
                if turn is not None:
                    claimed += 1
                    judged += self._turn(scenario, turn)
            except ReefError as error:
                failure = error
        return claimed, judged, failure

    def _until_answered(self, stop: threading.Event) -> None:
        """Return when the judge's endpoint answers, or *stop* is set."""
        pause_s = self._config.poll_s
        while not stop.is_set():
            try:
                self._backend.check()
                return
            except ReefError as error:
                _log.warning("judge away", why=error.detail, again_in_s=pause_s)
                stop.wait(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def _turn(self, scenario: str, turn: TurnAssignment) -> bool:
        """Judge a claimed turn and post that; False when no judgment came of it."""
        beat_s = self._beat_s(turn.lease_expires_at)
        outage: ReefError | None = None
        try:
            with Heartbeat(lambda: self._client.renew_lease(turn.lease_id), beat_s) as lease:
                try:
                    judgment = self._judgment(turn, lease.check)
                except Unavailable as error:
                    outage = error
                    judgment = self._failed(turn, error)
                lease.check()
                self._post(scenario, turn, judgment)
        except (Conflict, NotFound, Refused) as error:
            # Lost, judged by others, or taken back by its user: whatever is recorded stands.
            if self._left == turn.turn_id:
                raise
            self._left = turn.turn_id
            _log.warning("turn left", turn=turn.turn_id, why=error.detail)
            return False
        if outage is not None:
            raise outage
        self._since_probe += 1
        return judgment.error is None

    def _judgment(self, turn: TurnAssignment, check: Callable[[], None]) -> JudgmentRequest:
        """All votes on *turn*, or why the endpoint does not take this one."""
        try:
            votes = ask(self._backend, turn, self._config.votes, check=check)
        except (LeaseLost, Misconfigured, Unavailable):
            raise
        except ReefError as error:
            return self._failed(turn, error)
        valid = sum(vote.valid for vote in votes)
        _log.info("turn judged", turn=turn.turn_id, votes=len(votes), valid=valid)
        return self._request(turn, votes=votes)

    def _failed(self, turn: TurnAssignment, error: ReefError) -> JudgmentRequest:
        _log.warning("turn not judged", turn=turn.turn_id, why=error.detail)
        return self._request(turn, error=one_line(error.detail, MAX_ERROR_CHARACTERS))

    def _request(
        self, turn: TurnAssignment, *, votes: Sequence[Vote] = (), error: str | None = None
    ) -> JudgmentRequest:
        return JudgmentRequest(
            lease_id=turn.lease_id,
            judge=self._identity(),
            votes=list(votes),
            error=error,
            next_id=turn.next_id,
        )

    def _identity(self) -> JudgeIdentity:
        return identity_of(self._backend, self._config.votes)

    def _post(self, scenario: str, turn: TurnAssignment, judgment: JudgmentRequest) -> None:
        """Post, for as long as `post_retry` lasts: votes are dear, they are not given up soon."""
        attempt = 0
        while True:
            attempt += 1
            try:
                self._client.post_judgment(scenario, turn.turn_id, judgment)
            except Unavailable as error:
                asked_s = error.extra.get("retry_after_s")
                if not self._config.post_retry.waited(attempt, asked_s):
                    raise
            else:
                return

    def _probe(self) -> None:
        """Ask known answers if they are due, and report how the last ones went."""
        if self._probes is None or self._since_probe < self._config.probe_every:
            return
        probe = self._probes.ask_round()
        self._since_probe = 0
        if probe.right < self._config.probe_accuracy * probe.asked:
            _log.warning("judge below its accuracy", right=probe.right, asked=probe.asked)
        for scenario in self._config.scenarios:
            try:
                self._client.post_probe(scenario, probe)
            except ReefError as error:
                # The next round tells the same and more; turns need not wait for that.
                _log.warning("probe not reported", scenario=scenario, why=error.detail)

    def _beat_s(self, expires_at: str) -> float:
        try:
            left_s = (datetime.fromisoformat(expires_at) - self._clock()).total_seconds()
        except (TypeError, ValueError) as error:
            raise BadAnswer(
                f"The lease ends at {expires_at[:40]!r}, which is no time.",
                next_step="Check that both sides have one version.",
            ) from error
        # Within bounds, so that a clock that differs from the service's does little harm.
        return min(max(left_s / _BEATS_PER_LEASE, _SHORTEST_BEAT_S), _LONGEST_BEAT_S)
