"""One node: polls, verifies, loads, goes back, reports.

What always holds: the engine is given nothing but a release that the rules let through, copied
and hashed on this machine; a release is called good only after its canaries agreed; whatever
goes wrong, the last good release stays in use; and what was learnt is durable before anything
is done with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from reef_release.client import ReefClient
from reef_release.domain.events import FileEntry
from reef_release.domain.reasons import Reason
from reef_release.errors import NotFound, ReefError, Refused
from reef_release.node import grounds as rules
from reef_release.node.canary import CANARY_LIMIT_BYTES, Canary, parse_canaries
from reef_release.node.config import NodeConfig
from reef_release.node.engine import Engine, OnDisk
from reef_release.node.grounds import Grounds
from reef_release.node.loading import load
from reef_release.node.material import gather
from reef_release.node.opening import open_trusted
from reef_release.node.rejudge import judge_again
from reef_release.node.releases import Releases
from reef_release.node.trusted import EQUIVOCATIONS, Memory, Opened
from reef_release.node.vault import Served, Vault
from reef_release.verifiers.registry import is_objective
from reef_release.wire import NodeReport

__all__ = ["Node", "Standing"]

_MAX_ROTATIONS = 256
_MAX_REASONS = 20
_MAX_TEXT = 500
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Where a node stands after a step: what its engine serves, and what stands against moving."""

    release_id: str | None
    serial: int
    reasons: tuple[Reason, ...] = ()


class Node:
    """The state of one running node. `vault` is locked by the caller."""

    def __init__(
        self,
        config: NodeConfig,
        client: ReefClient,
        engine: Engine,
        vault: Vault,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Raises `SettingsError` and `SignatureRejected` when anchor or memory cannot be used."""
        self._config = config
        self._client = client
        self._engine = engine
        self._vault = vault
        self._clock = clock
        self._releases = Releases(vault.directory)
        self._trusted = open_trusted(config, vault)
        self._served = vault.served()
        self._in_use: str | None = None
        self._wanted: str | None = None
        self._etag: str | None = None
        self._barred: tuple[int | None, Refused] | None = None
        self._reported: tuple[str | None, tuple[str, ...]] | None = None

    def start(self) -> Standing:
        """Serve the last good release from disk, judged and hashed anew; needs no network."""
        return self._standing(self._attempt(self._ensure_served))

    def step(self, wait_s: int = 0) -> Standing:
        """Poll once and do what follows; what went wrong is in the result, not raised."""
        reasons = self._attempt(self._ensure_served)
        reasons += self._attempt(lambda: self._poll(wait_s))
        stale = self._trusted.staleness(self._now())
        if stale is not None and stale.code not in {reason.code for reason in reasons}:
            _log.warning("document grows old", code=stale.code, why=stale.message)
            if stale.code == "expired":
                reasons.append(stale)
        if reasons:
            self._etag = None
        standing = self._standing(reasons)
        if self._config.reports:
            self._report(standing)
        return standing

    @property
    def memory(self) -> Memory:
        """What is proven so far: the newest checkpoint among it."""
        return self._trusted.memory

    def _attempt(self, action: Callable[[], None]) -> list[Reason]:
        try:
            action()
        except ReefError as error:
            reasons = list(error.reasons) or [Reason(code=error.problem, message=error.detail)]
            _log.error("node does not move", why=str(error), serving=self._in_use)
            return reasons
        except OSError as error:
            _log.error("node does not move", why=str(error), serving=self._in_use)
            return [Reason(code="disk", message=str(error))]
        return []

    def _standing(self, reasons: Sequence[Reason]) -> Standing:
        return Standing(
            release_id=self._in_use,
            serial=self._trusted.memory.serial,
            reasons=tuple(reasons[:_MAX_REASONS]),
        )

    def _poll(self, wait_s: int) -> None:
        try:
            current = self._client.current(
                self._config.scenario, self._config.channel, etag=self._etag, wait_s=wait_s
            )
        except NotFound:
            if self._served is None:
                return
            raise
        if current.document is None:
            return
        self._follow_roots()
        proof: list[bytes] = []
        try:
            opened = self._trusted.open_document(current.document, self._now())
            proof = self._consistency(opened)
            self._trusted.accept(opened, proof)
        except Refused as error:
            if EQUIVOCATIONS & {reason.code for reason in error.reasons}:
                kept = self._vault.keep_evidence(current.document, self._config.origin, proof)
                _log.critical("the service contradicts itself", evidence=str(kept))
            raise
        for warning in opened.warnings:
            _log.warning("clock", code=warning.code, why=warning.message)
        self._vault.save_memory(self._trusted.memory)
        self._vault.keep_accepted(current.document)
        self._wanted = opened.document.release_id
        self._move(opened, current.document)
        self._etag = current.etag

    def _follow_roots(self) -> None:
        for _ in range(_MAX_ROTATIONS):
            try:
                text = self._client.trust_root(self._trusted.root.version + 1)
            except NotFound:
                return
            self._trusted.update_root(text)
            # Root first: a memory without the reset that belongs to it is only too strict.
            self._vault.save_successors([link.text for link in self._trusted.chain[1:]])
            self._vault.save_memory(self._trusted.memory)
            _log.info("trust root followed", version=self._trusted.root.version)

    def _consistency(self, opened: Opened) -> list[bytes]:
        old, new = self._trusted.memory.checkpoint_size, opened.checkpoint.size
        if not 0 < old < new:
            return []
        try:
            return [bytes.fromhex(each) for each in self._client.consistency(old, new).proof]
        except ValueError:
            return []

    def _move(self, opened: Opened, body: bytes) -> None:
        document = opened.document
        served = self._served
        if (
            served is not None
            and served.release_id == self._in_use
            and (served.pointer_position, served.release_id)
            == (document.pointer_position, document.release_id)
        ):
            return
        if self._barred is not None and self._barred[0] == document.pointer_position:
            raise self._barred[1]
        material = gather(
            self._client, document, opened.checkpoint.size, trials=self._config.trials
        )
        grounds = rules.verify(
            material,
            document,
            opened.checkpoint,
            self._trusted.chain,
            is_objective,
            trials=self._config.trials,
        )
        self._trusted.accept_pointer(document)
        self._vault.save_memory(self._trusted.memory)
        blob = self._client.read_blob(grounds.canary, CANARY_LIMIT_BYTES)
        canaries = parse_canaries(blob, grounds.canary_prompts)
        for release_id, files in grounds.parts():
            self._releases.fetch(
                self._client,
                self._config.scenario,
                release_id,
                files,
                self._config.min_rate_bytes_per_s,
            )
        try:
            difference = self._load(grounds, canaries)
        except Refused as error:
            self._barred = (document.pointer_position, error)
            self._go_back()
            raise
        self._barred = None
        self._keep(
            Served(
                release_id=grounds.release_id,
                foundation=grounds.foundation.release_id if grounds.foundation else None,
                pointer_position=grounds.pointer_position,
                serial=document.serial,
                document=body.decode("utf-8"),
                material=material,
                canaries=blob.decode("utf-8"),
                canary_difference=difference,
                loaded_at=self._now(),
            )
        )

    def _keep(self, served: Served) -> None:
        before = self._served
        self._served = served
        self._vault.save_served(served)
        _log.info("release served", release=served.release_id, serial=served.serial)
        kept = [served] if before is None else [served, before]
        self._releases.prune(
            {name for each in kept for name in (each.release_id, each.foundation) if name}
        )

    def _load(self, grounds: Grounds, canaries: Sequence[Canary]) -> str:
        release, *below = [self._on_disk(*part) for part in grounds.parts()]
        # From here on the engine may hold anything, until the canaries have agreed.
        self._in_use = None
        difference = load(
            self._engine,
            release,
            below[0] if below else None,
            canaries,
            self._config.canary_tolerance,
        )
        self._in_use = grounds.release_id
        return difference

    def _on_disk(self, release_id: str, files: Sequence[FileEntry]) -> OnDisk:
        return OnDisk(
            directory=self._releases.verified(release_id, files),
            release_id=release_id,
            files={file.path: file.sha256 for file in files},
        )

    def _go_back(self) -> None:
        if self._served is None:
            _log.critical("there is no good release to go back to; stop the engine's traffic")
            return
        try:
            self._ensure_served()
        except (ReefError, OSError) as error:
            _log.critical("the last good release cannot be loaded again", why=str(error))

    def _ensure_served(self) -> None:
        """Have the engine serve the last good release, also after the engine was restarted."""
        served = self._served
        if served is None:
            return
        health = self._engine.health()
        if health.loaded and health.release_id == served.release_id == self._in_use:
            return
        self._in_use = None
        again = judge_again(self._trusted, served, trials=self._config.trials)
        self._load(again.grounds, again.canaries)

    def _report(self, standing: Standing) -> None:
        """Tell the service what changed; said again until it heard."""
        codes = tuple(reason.code for reason in standing.reasons)
        said = (standing.release_id, codes)
        served = self._served
        if said == self._reported or (served is None and not codes):
            return
        if codes:
            release_id, difference = self._wanted, None
        elif served is not None and standing.release_id == served.release_id:
            release_id, difference = served.release_id, served.canary_difference
        else:
            return
        report = NodeReport(
            scenario=self._config.scenario,
            channel=self._config.channel,
            release_id=release_id,
            serial=max(standing.serial, 0),
            canary_difference=difference,
            reasons=[
                Reason(
                    code=reason.code,
                    message=reason.message[:_MAX_TEXT],
                    where=reason.where[:_MAX_TEXT],
                )
                for reason in standing.reasons
            ],
        )
        try:
            self._client.report(self._config.node_id, report)
            self._reported = said
        except ReefError as error:
            _log.warning("report not delivered", why=error.detail)

    def _now(self) -> str:
        return self._clock().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
