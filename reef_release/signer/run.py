"""The signer as a process: looks for passed gates, judges each itself, hands in bundles."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import structlog

from reef_release.client import ReefClient
from reef_release.domain.canonical import parse_json
from reef_release.errors import NotFound, ReefError, Refused, SettingsError, Unavailable
from reef_release.signer.rule import passed_gate, sign_passed
from reef_release.signing.keys import Role, SigningKey, load_key
from reef_release.signing.root import TrustRoot, open_root
from reef_release.wire import CandidateView, GateView

__all__ = ["Signer", "SignerConfig", "run_signer"]

_MAX_ROTATIONS = 256
_LONGEST_PAUSE_S = 30.0
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class SignerConfig:
    """`key` is the release key's file, `root` the trust root version 1, given out of band."""

    url: str
    key: Path
    root: Path
    token: str | None = None
    poll_s: float = 1.0


def run_signer(
    config: SignerConfig, *, once: bool = False, stop: threading.Event | None = None
) -> int:
    """Sign what may be signed until *stop* is set; returns how many bundles were handed in.

    With *once*: one round, and what stands against it is raised. Otherwise the next round tries
    again, and only a wrong key or root ends it: `SettingsError`.
    """
    stop = stop or threading.Event()
    try:
        anchor = config.root.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"The trust root {config.root} cannot be read: {error}.",
            next_step="Give the root.json (version 1) that the keys were made with.",
        ) from error
    with ReefClient(config.url, config.token) as client:
        signer = Signer(client, load_key(config.key, Role.RELEASE), anchor)
        if once:
            return signer.round()
        count, pause_s = 0, config.poll_s
        while not stop.is_set():
            try:
                count += signer.round()
                pause_s = config.poll_s
            except SettingsError:
                raise
            except ReefError as error:
                _log.error("no signing", why=str(error), again_s=pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            stop.wait(pause_s)
        return count


class Signer:
    """One release key at work. Candidates it refused are judged again, but told of once."""

    def __init__(
        self,
        client: ReefClient,
        key: SigningKey,
        anchor: str,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Raises `SignatureRejected` when *anchor* is no trust root."""
        self._client = client
        self._key = key
        self._text = anchor
        self._root: TrustRoot = open_root(anchor)
        self._clock = clock
        self._told: set[tuple[str, str, str]] = set()

    def round(self) -> int:
        """Look at every scenario once; returns how many bundles were handed in.

        Raises `Unavailable`, and `SettingsError` when the key does not stand in the root.
        """
        self._follow_root()
        count = 0
        for scenario in self._client.scenarios():
            for candidate in self._client.candidates(scenario.name, status="passed"):
                gate = passed_gate(candidate)
                if gate is not None and not self._is_signed(scenario.name, candidate, gate):
                    count += self._try(scenario.name, candidate, gate)
        return count

    def _try(self, scenario: str, candidate: CandidateView, gate: GateView) -> bool:
        try:
            envelope = parse_json(self._client.attestation(scenario, candidate.candidate_id))
            bundle = sign_passed(scenario, candidate, gate, envelope, self._root, self._key)
            self._client.post_bundle(scenario, candidate.candidate_id, bundle)
        except Unavailable:
            raise
        except ReefError as error:
            case = (candidate.candidate_id, gate.gate_id, str(error))
            if case not in self._told:
                self._told.add(case)
                _log.error("not signed", candidate=candidate.candidate_id, why=str(error))
            return False
        _log.info("signed", scenario=scenario, release=candidate.candidate_id, gate=gate.gate_id)
        return True

    def _is_signed(self, scenario: str, candidate: CandidateView, gate: GateView) -> bool:
        try:
            return self._client.release(scenario, candidate.candidate_id).gate_id == gate.gate_id
        except NotFound:
            return False

    def _follow_root(self) -> None:
        for _ in range(_MAX_ROTATIONS):
            try:
                text = self._client.trust_root(self._root.version + 1)
            except NotFound:
                break
            self._root, self._text = open_root(text, self._text), text
        now = self._clock().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        if self._root.expires_at <= now:
            raise Refused(
                f"The trust root {self._root.version} ended at {self._root.expires_at}.",
                next_step="Have the root keys sign the next one.",
            )
        if self._key.public not in self._root.keys_by_role[Role.RELEASE]:
            raise SettingsError(
                f"The release key {self._key.key_id[:12]} does not stand in the trust root "
                f"{self._root.version}, so nobody would believe its signatures.",
                next_step="Give the key that the root lists, or rotate the root.",
            )
