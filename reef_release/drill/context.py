"""What an attack has at hand: the service with tokens of any role, and maybe a whole stack.

Whoever attacks a service of somebody else has its address, its trust root and tokens. With a
stack of its own the drill can be the gate worker, the thief of a key, and the superuser.
"""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from reef_release.artifacts.safetensors_header import ITEM_BYTES
from reef_release.artifacts.spoiling import Files, split_weights
from reef_release.client import ReefClient
from reef_release.domain.events import GLOBAL, Event, FileEntry, decode
from reef_release.drill.errors import GotThrough
from reef_release.drill.stack import Stack
from reef_release.errors import Refused, SettingsError
from reef_release.node.engine import Engine
from reef_release.signing.keyring import PRIVATE_NAME
from reef_release.signing.keys import Role, SigningKey, load_key
from reef_release.tokens import TokenRole
from reef_release.wire import CandidateManifest, CandidateView, ScenarioView

__all__ = ["CHANNEL", "WEIGHTS", "Context", "read_files"]

CHANNEL = "stable"
WEIGHTS = "model.safetensors"
_PATIENCE_S = 120.0
_LOOK_S = 0.05
_PAGE = 1000
_LIMIT_BYTES = 512 * 1024 * 1024
"""Larger weights would be read into memory; a drill is for a copy with small ones then."""

_T = TypeVar("_T")
Issue = Callable[[TokenRole, str | None], str | None]
"""A token of a role, for one scenario or all; None when there is none."""


@dataclass(kw_only=True)
class Context:
    """One drill. `scenario` is the one whose pointer is watched; `directory` is its own.

    `name` is a new one for each drill.

    `forged` are the positions of events that were put into the log by hand; `stages` are the
    scenarios that were made for attacks; `kept` holds what attacks prepared for each other.
    """

    url: str
    scenario: str
    anchor: str
    log_origin: str
    directory: Path
    issue: Issue
    own: Stack | None = None
    name: str = field(default_factory=lambda: f"drill-{secrets.token_hex(4)}")
    forged: set[int] = field(default_factory=set)
    stages: list[str] = field(default_factory=list)
    kept: dict[str, Any] = field(default_factory=dict)
    _numbers: Iterator[int] = field(
        default_factory=lambda: itertools.count(1 + secrets.randbelow(1000))
    )
    _closing: ExitStack = field(default_factory=ExitStack)
    _clients: dict[tuple[TokenRole, str | None], ReefClient] = field(default_factory=dict)

    def close(self) -> None:
        """Close all connections."""
        self._closing.close()

    @property
    def stack(self) -> Stack:
        """The drill's own stack. Raises `SettingsError` when it has none."""
        if self.own is None:
            raise SettingsError("This attack needs a stack that the drill started itself.")
        return self.own

    def key(self, role: Role) -> SigningKey:
        """A private key, as its thief has it."""
        return load_key(self.stack.keys / role.value / PRIVATE_NAME, role)

    def idle_engine(self) -> Engine:
        """The stack's idle engine, closed with the drill."""
        engine: Engine | None = self.kept.get("engine")
        if engine is None:
            engine = self.kept["engine"] = self.stack.idle_engine()
            self._closing.callback(getattr(engine, "close", lambda: None))
        return engine

    # Requests

    def has(self, role: TokenRole) -> bool:
        """Whether there is a token of *role*."""
        return self.issue(role, None) is not None

    def token(self, role: TokenRole, scenario: str | None = None) -> str:
        """A token. Raises `SettingsError` when there is none."""
        token = self.issue(role, scenario)
        if token is None:
            raise SettingsError(f"There is no token of role {role}.")
        return token

    def client(self, role: TokenRole, scenario: str | None = None) -> ReefClient:
        """A client with a token of *role*, closed with the drill."""
        if (role, scenario) not in self._clients:
            made = ReefClient(self.url, self.token(role, scenario), timeout_s=120)
            self._clients[role, scenario] = self._closing.enter_context(made)
        return self._clients[role, scenario]

    def view(self, scenario: str | None = None) -> ScenarioView:
        """A scenario, by default the watched one."""
        return self.client(TokenRole.AUDIT).scenario(scenario or self.scenario)

    def serving(self, scenario: str | None = None) -> str | None:
        """The release served."""
        channel = self.view(scenario).channels.get(CHANNEL)
        return channel.release_id if channel else None

    # The log

    def head(self) -> int:
        """Position of the last event."""
        return self.client(TokenRole.AUDIT).events(2**53 - 1, limit=1).head

    def events(
        self, kind: str | None = None, *, after: int = -1, scenario: str | None = None
    ) -> list[Event]:
        """The events after a position, of one type or all; *scenario* is the watched one."""
        found: list[Event] = []
        client = self.client(TokenRole.AUDIT)
        while True:
            page = client.events(after, limit=_PAGE, scenario=scenario or self.scenario, type=kind)
            found += map(decode, page.events)
            if len(page.events) < _PAGE:
                return found
            after = page.next_after

    def event(
        self, kind: str, *, scenario: str | None = None, after: int = -1, **fields: Any
    ) -> int:
        """Position of the last event of a type with such data. Raises `GotThrough`."""
        for event in reversed(self.events(kind, after=after, scenario=scenario)):
            if all(getattr(event.data, name, None) == value for name, value in fields.items()):
                return event.envelope.position
        raise GotThrough(f"The log has no {kind} that says so.")

    def at(self, position: int) -> Event | None:
        """The event at a position."""
        page = self.client(TokenRole.AUDIT).events(position - 1, limit=1)
        return decode(page.events[0]) if page.events else None

    def newest_checkpoint(self) -> int:
        """Position of the newest `checkpoint.published`."""
        return self.event("checkpoint.published", scenario=GLOBAL)

    # Candidates

    @property
    def notice(self) -> bytes:
        """A text that nobody submitted before this drill."""
        return f"A candidate of the drill {self.name}.\n".encode()

    def served_files(self) -> Files:
        """The files of the release that was served when they were first asked for.

        Raises `Refused` when they are no full model in one file, or too large.
        """
        if "files" not in self.kept:
            client, served = self.client(TokenRole.SERVE), self.serving()
            if served is None:
                raise Refused("Nothing is served, so there is nothing to attack.")
            release = client.release(self.scenario, served)
            names = {file.path for file in release.files}
            if (
                WEIGHTS not in names
                or sum(file.size_bytes for file in release.files) > _LIMIT_BYTES
            ):
                raise Refused(
                    f"The release served is no full model in one {WEIGHTS} of at most "
                    f"{_LIMIT_BYTES} bytes.",
                    next_step="Run the drill without --home, on a stack of its own.",
                )
            folder = self.directory / "served"
            folder.mkdir(exist_ok=True)
            for file in release.files:
                client.download_release_file(self.scenario, served, file, folder / file.path)
            self.kept["files"] = read_files(folder)
            self.kept["served"] = served
        return dict(self.kept["files"])

    def unlike(self, files: Mapping[str, bytes]) -> Files:
        """The same model with one bit changed, which nobody submitted before."""
        raw = bytearray(files[WEIGHTS])
        header, _ = split_weights(bytes(raw))
        last = max(
            (entry for name, entry in header.items() if name != "__metadata__"),
            key=lambda entry: int(entry["data_offsets"][1]),
        )
        width = ITEM_BYTES[last["dtype"]]
        count = int(last["data_offsets"][1]) // width
        raw[-(1 + next(self._numbers) % count) * width] ^= 1
        return {**files, WEIGHTS: bytes(raw)}

    def upload(self, files: Mapping[str, bytes], role: TokenRole) -> list[FileEntry]:
        """Upload *files*, whatever they are called."""
        client = self.client(role)
        return [
            FileEntry(path=path, sha256=client.put_blob(content), size_bytes=len(content))
            for path, content in files.items()
        ]

    def submit(
        self,
        files: Mapping[str, bytes],
        *,
        role: TokenRole = TokenRole.TRAIN,
        scenario: str | None = None,
        **manifest: Any,
    ) -> CandidateView:
        """Submit to replace what is served, and wait for the admission. Raises as that does."""
        scenario = scenario or self.scenario
        base = self.serving(scenario)
        given = {"files": self.upload(files, role), "base": base, "parent": base, **manifest}
        return self.client(role).submit(scenario, CandidateManifest(**given))

    def ended(self, candidate: str, scenario: str | None = None, *ends: str) -> CandidateView:
        """Wait until the candidate's gate has ended, or its status is one of *ends*."""
        wanted = ends or ("errored", "failed", "inconclusive", "passed", "promoted", "stale")
        client, name = self.client(TokenRole.AUDIT), scenario or self.scenario
        return self.until(
            lambda: client.candidate(name, candidate), lambda view: view.status in wanted
        )

    @staticmethod
    def until(look: Callable[[], _T], wanted: Callable[[_T], object] = bool) -> _T:
        """Look again and again until what is seen is *wanted*. Raises `GotThrough`."""
        deadline = time.monotonic() + _PATIENCE_S
        while not wanted(seen := look()):
            if time.monotonic() > deadline:
                raise GotThrough(f"It did not come to an end in {_PATIENCE_S:.0f} s.")
            time.sleep(_LOOK_S)
        return seen


def read_files(folder: Path) -> Files:
    """The files of a directory."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
