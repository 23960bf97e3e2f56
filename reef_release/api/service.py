"""The parts of one service process, opened together and closed in reverse.

Everything that a controller needs hangs here; nothing is global.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from reef_release.api.batching import Batching
from reef_release.api.commands import Commands
from reef_release.api.correlating import Correlating
from reef_release.api.documents import Documents
from reef_release.api.erasing import Erasing
from reef_release.api.expiry import ExpiryWarnings
from reef_release.api.gate_claims import GateClaims
from reef_release.api.heads import SignedHeads
from reef_release.api.leases import Leases
from reef_release.api.lines import BodyRoom
from reef_release.api.processes import Processes
from reef_release.api.proxy.spool import Spool
from reef_release.api.proxy.upstream import Upstream
from reef_release.api.readers import BlobReaders
from reef_release.api.turns import Turns
from reef_release.api.witnesses import Witnesses
from reef_release.artifacts.directory_store import DirectoryBlobStore
from reef_release.domain.state import Scenario, State
from reef_release.errors import NotFound, SettingsError
from reef_release.log import EventLog
from reef_release.projections.erased import ErasedBodies
from reef_release.projections.learning import Learning
from reef_release.projections.live import LiveState
from reef_release.projections.replay import ReplayChecks
from reef_release.projections.sessions import SessionIndex
from reef_release.projections.signal import SignalHealth
from reef_release.settings import Settings
from reef_release.signing.keyring import PRIVATE_NAME, ROOT_NAME
from reef_release.signing.keys import Role, load_key
from reef_release.tokens import TOKEN_SECRET, Tokens, load_secret

__all__ = ["Service", "open_service"]


@dataclass(frozen=True, kw_only=True)
class Service:
    """One running service."""

    settings: Settings
    log: EventLog
    live: LiveState
    blobs: DirectoryBlobStore
    commands: Commands
    processes: Processes
    correlating: Correlating
    erasing: Erasing
    signal: SignalHealth
    sessions: SessionIndex
    learning: Learning
    documents: Documents
    leases: Leases
    claims: GateClaims
    tokens: Tokens
    heads: SignedHeads
    readers: BlobReaders
    spool: Spool
    upstream: Upstream
    stopping: asyncio.Event
    bodies: BodyRoom = field(default_factory=BodyRoom)
    submitting: Turns[tuple[str, str]] = field(default_factory=Turns)
    """By scenario and token: one submission after the other, so that they are counted."""

    @property
    def state(self) -> State:
        """The state at this moment."""
        return self.live.state

    def scenario(self, name: str) -> Scenario:
        """The scenario *name*. Raises `NotFound`."""
        scenario = self.state.scenarios.get(name)
        if scenario is None:
            raise NotFound(
                f"There is no scenario {name!r}.",
                next_step="Check the spelling; `reef-release status` and `GET /reef/scenarios` "
                "show them.",
            )
        return scenario

    async def wait_beyond(self, position: int, timeout_s: float) -> None:
        """Wait for a later state, at most *timeout_s*, and not beyond the service's stop."""
        waits = [
            asyncio.ensure_future(self.live.wait_beyond(position, timeout_s)),
            asyncio.ensure_future(self.stopping.wait()),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


@asynccontextmanager
async def open_service(settings: Settings) -> AsyncIterator[Service]:
    """A service on the settings' database. Raises `SettingsError` and `LogUnavailable`."""
    anchor = _read_anchor(settings.keys_dir / ROOT_NAME)
    log_key = load_key(settings.log_key or _key_path(settings, Role.LOG), Role.LOG)
    pointer_key = load_key(settings.pointer_key or _key_path(settings, Role.POINTER), Role.POINTER)
    tokens = Tokens(load_secret(settings.keys_dir / TOKEN_SECRET))
    erased = ErasedBodies()
    blobs = DirectoryBlobStore(
        settings.blobs_dir, max_blob_bytes=settings.blob_limit_bytes, erased=erased.error
    )
    signal, sessions, readers = SignalHealth(), SessionIndex(), BlobReaders()
    learning = Learning(sessions)
    async with (
        Spool.open(settings.spool_dir) as spool,
        aclosing(Upstream(settings)) as upstream,
        aclosing(Witnesses.configured(settings)) as witnesses,
        EventLog.open(settings.database_url) as log,
        LiveState.follow(
            log,
            ReplayChecks(anchor, blobs),
            [signal, sessions, learning, erased, readers],
            accept_missing_blobs=settings.accept_missing_blobs,
        ) as live,
    ):
        commands = Commands(log, live)
        heads = SignedHeads(live, log_key, settings.origin)
        processes = Processes(
            live=live,
            commands=commands,
            blobs=blobs,
            heads=heads,
            witnesses=witnesses,
            checkpoint_interval_s=settings.checkpoint_interval_s,
        )
        correlating = Correlating(
            live=live, commands=commands, blobs=blobs, expiry_s=settings.session_expiry_s
        )
        batching = Batching(live=live, commands=commands, blobs=blobs, settings=settings)
        expiry = ExpiryWarnings(
            live, lifetime_s=settings.document_lifetime_s, bound_s=settings.document_warning_s
        )
        erasing = Erasing(
            live=live,
            commands=commands,
            blobs=blobs,
            spool=spool,
            erased=erased,
            settings=settings,
        )
        await processes.establish_trust(anchor)
        await erasing.complete()
        work = [
            asyncio.create_task(processes.run(), name="processes"),
            asyncio.create_task(correlating.run(), name="correlation"),
            asyncio.create_task(batching.run(), name="batching"),
            asyncio.create_task(erasing.run(), name="erasing"),
            asyncio.create_task(expiry.run(), name="expiry"),
        ]
        try:
            yield Service(
                settings=settings,
                log=log,
                live=live,
                blobs=blobs,
                commands=commands,
                processes=processes,
                correlating=correlating,
                erasing=erasing,
                signal=signal,
                sessions=sessions,
                learning=learning,
                documents=Documents(live, pointer_key, settings.document_lifetime_s),
                leases=Leases(settings.lease_s),
                claims=GateClaims(live, commands, settings.lease_s),
                tokens=tokens,
                heads=heads,
                readers=readers,
                spool=spool,
                upstream=upstream,
                stopping=asyncio.Event(),
            )
        finally:
            for task in work:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


def _key_path(settings: Settings, role: Role) -> Path:
    return settings.keys_dir / role / PRIVATE_NAME


def _read_anchor(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise SettingsError(
            f"The trust root {path} cannot be read: {error.strerror}.",
            next_step="Create keys with `reef-release keys init`.",
        ) from error
