"""Claim a gate, run the trials that are due, sign the decision; again and again.

What always holds: the worker keeps no place of its own, only a journal of the trials it posted.
Whatever interrupts it (an outage, a lost lease), it claims again and goes on from the trials that
the log has, if all of them are in the journal; else it ends the gate as errored. A scenario in
which it gets no further is left alone for longer and longer, and costs the others nothing. Only a
key that does not count ends the work: no later decision of this worker would be accepted either.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import structlog

from reef_release.client import ReefClient
from reef_release.client.lease import Heartbeat
from reef_release.errors import Conflict, NotFound, ReefError, Refused, SignatureRejected
from reef_release.signing.keys import SigningKey
from reef_release.wire import GateAssignment
from trainer.gate.assignment import known_gate
from trainer.gate.journal import Journal
from trainer.gate.models import Loader, MachineTrouble, ModelCache, transformers_loader
from trainer.gate.run import GateRun
from trainer.gate.watching import Watcher

__all__ = ["DEFAULT_TRIAL_TIMEOUT_S", "GateWorker", "GateWorkerConfig", "KeyDoesNotCount"]

DEFAULT_TRIAL_TIMEOUT_S = 600.0
_LONGEST_PAUSE_S = 30.0
_BEATS_PER_LEASE = 3
_REST_LEASES = 1.25
_log = structlog.get_logger(__name__)


class KeyDoesNotCount(Refused):
    """The key that this worker signs with is no gate key of the trust root in force."""


@dataclass(frozen=True, kw_only=True)
class GateWorkerConfig:
    """`name` tells this worker's leases from others'; `models` caches downloaded weights.

    The journal of trials lies in `models` too: without it, a gate begun before is not gone on with.

    A reply that is not whole after `trial_timeout_s` is an error of its trial.
    """

    name: str
    models: Path
    poll_s: float = 1.0
    threads: int = 1
    trial_timeout_s: float = DEFAULT_TRIAL_TIMEOUT_S


class GateWorker:
    """Runs gates, and between them watches, for every scenario that its token covers."""

    def __init__(
        self,
        config: GateWorkerConfig,
        client: ReefClient,
        key: SigningKey,
        *,
        load: Loader | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """*load* makes engines of weights, by default with transformers in this process."""
        self._config = config
        self._client = client
        self._key = key
        self._clock = clock
        self._rests: dict[str, float] = {}
        self._pauses: dict[str, float] = {}
        self._jammed_until: dict[str, float] = {}
        self._journal = Journal(config.models)
        self._models = ModelCache(
            client, config.models, load or transformers_loader(config.threads)
        )
        self._watcher = Watcher(
            client,
            key,
            self._models,
            name=config.name,
            directory=config.models,
            trial_timeout_s=config.trial_timeout_s,
        )

    def run(self, *, once: bool = False, stop: threading.Event | None = None) -> int:
        """Work until *stop* is set; returns how many gates were ended.

        With *once*: until there is nothing left to do, and what stands against it is raised.
        Raises `SettingsError` when another worker uses the same directory of models, and
        `KeyDoesNotCount` when a decision is refused for the key that signed it.
        """
        stop = stop or threading.Event()
        ended = 0
        pause_s = self._config.poll_s
        with self._models.locked():
            while not stop.is_set():
                try:
                    count, failure = self._round()
                except KeyDoesNotCount:
                    raise
                except ReefError as error:
                    # The service itself is away, so there is no scenario to go on with.
                    if once:
                        raise
                    _log.error("gate work interrupted", why=str(error))
                    stop.wait(pause_s)
                    pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
                    continue
                ended += count
                pause_s = self._config.poll_s
                if once and failure is not None:
                    raise failure
                if not count:
                    if once:
                        break
                    stop.wait(pause_s)
        return ended

    def _round(self) -> tuple[int, ReefError | None]:
        """One gate of each scenario that has one: how many ended, and the last that could not.

        Where no gate is due, what is served is tried once if its policy has it watched. Raises
        `ReefError` when there is no answer which scenarios there are.
        """
        ended, failure = 0, None
        for scenario in self._client.scenarios():
            name = scenario.name
            if self._jammed_until.get(name, 0.0) > time.monotonic():
                continue
            try:
                gated = self._scenario(name)
                ended += gated
                if not gated and scenario.policy.get("watch"):
                    self._watcher.step(name)
            except ReefError as error:
                if _is_of_its_key(error):
                    raise self._key_does_not_count() from error
                failure = error
                pause_s = self._pauses.get(name, self._config.poll_s)
                _log.error("gate work interrupted", scenario=name, why=str(error), rest_s=pause_s)
                self._jammed_until[name] = time.monotonic() + pause_s
                self._pauses[name] = min(pause_s * 2, _LONGEST_PAUSE_S)
            else:
                self._pauses.pop(name, None)
        return ended, failure

    def _scenario(self, scenario: str) -> bool:
        """Claim and end a gate; False when there is none, or others are at it."""
        left: tuple[str, int] | None = None
        if self._rests.get(scenario, 0.0) > time.monotonic():
            return False
        while (assignment := self._claim(scenario)) is not None:
            place = (assignment.opened.gate_id, len(assignment.trials))
            try:
                self._gate(scenario, assignment)
            except MachineTrouble:
                # Claiming on would keep the gate from workers that could run it.
                self._rests[scenario] = time.monotonic() + assignment.lease_s * _REST_LEASES
                raise
            except (Conflict, NotFound) as error:
                if place == left:
                    raise
                # The log has moved on without this worker: look where it is now.
                _log.warning("gate left", gate=place[0], trials=place[1], why=error.detail)
                left = place
            else:
                return True
        return False

    def _claim(self, scenario: str) -> GateAssignment | None:
        return self._client.claim_gate(scenario, self._config.name, self._key.key_id)

    def _gate(self, scenario: str, assignment: GateAssignment) -> None:
        gate = known_gate(self._client, assignment, scenario)
        candidate = assignment.opened.candidate_id
        _log.info("gate claimed", gate=gate.opened.gate_id, candidate=candidate)
        self._models.keep_only(assignment.candidate, assignment.incumbent)
        run = GateRun(
            self._client,
            assignment,
            gate,
            self._models,
            self._journal,
            self._config.trial_timeout_s,
        )
        every_s = assignment.lease_s / _BEATS_PER_LEASE
        try:
            with Heartbeat(lambda: self._client.renew_lease(assignment.lease_id), every_s) as lease:
                run.trials(lease.check)
                run.decide(self._key, self._clock())
        except (Refused, SignatureRejected) as refused:
            if _is_of_its_key(refused):
                self._give_back(assignment)
            raise

    def _give_back(self, assignment: GateAssignment) -> None:
        try:
            self._client.release_lease(assignment.lease_id)
        except ReefError as error:
            # Others then wait until the lease expires.
            _log.warning("gate not given back", lease=assignment.lease_id, why=error.detail)

    def _key_does_not_count(self) -> KeyDoesNotCount:
        return KeyDoesNotCount(
            f"What this worker signs is refused: its key {self._key.key_id[:16]} does not count "
            "as a gate key; it was revoked, or no trust root lists it.",
            next_step="Start the worker with a gate key of the root in force: one that "
            "`reef-release keys list` shows and not as revoked. A new key comes by the next root "
            "(`keys new`, `keys rotate`, `keys sign`, `keys publish`).",
        )


def _is_of_its_key(error: ReefError) -> bool:
    return any(reason.code == "no-trusted-key" for reason in error.reasons)
