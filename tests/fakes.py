"""One fake per boundary: the service as its clients see it, and the engine that a node drives.

`FakeService` answers over HTTP from a `World`, honestly unless a test puts something else in
its place; it has no opinion about what it serves, so a test can make it as hostile as it likes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec

from reef_release import wire
from reef_release.api import views
from reef_release.client import ReefClient
from reef_release.client.transport import Retry
from reef_release.domain import events as ev
from reef_release.domain.canonical import canonical_json, sha256_hex
from reef_release.domain.events import Event, FileEntry
from reef_release.domain.merkle import MerkleTree, leaf_hash
from reef_release.errors import MalformedData, Refused, Unavailable
from reef_release.node.engine import EngineHealth, LoadedFiles, LoadedFoundation, OnDisk
from reef_release.signing.current import CurrentDocument, sign_current
from reef_release.signing.keys import Role, SigningKey
from tests.world import CHANNEL, World, byte_logprobs

__all__ = ["NO_WAIT", "FakeEngine", "FakeService", "problem"]

Answer = Callable[[httpx.Request], httpx.Response]

NO_WAIT = Retry(attempts=3, sleep=lambda _seconds: None)
"""Retries as ever, without the waiting."""

LIFETIME = timedelta(seconds=60)


def problem(status: int, name: str, detail: str = "no", **extra: Any) -> httpx.Response:
    """An RFC 9457 answer as the service gives it."""
    body = {
        "type": f"urn:reef-release:problem:{name}",
        "title": name,
        "status": status,
        "detail": detail,
        **extra,
    }
    return httpx.Response(status, json=body, headers={"content-type": "application/problem+json"})


@dataclass(kw_only=True)
class FakeService:
    """The routes that nodes and signers use, over the bytes of *world*.

    `answers` replaces the answer of a path; `document` replaces the current document; `away`
    makes every request fail as if nobody listened. `requests` and `reports` keep what came.
    """

    world: World
    answers: dict[str, Answer] = field(default_factory=dict)
    document: bytes | None = None
    roots: dict[int, str] = field(default_factory=dict)
    away: bool = False
    requests: list[httpx.Request] = field(default_factory=list)
    reports: list[wire.NodeReport] = field(default_factory=list)

    def client(self) -> ReefClient:
        """A client of this service."""
        return ReefClient(
            "http://reef.test", retry=NO_WAIT, transport=httpx.MockTransport(self.handle)
        )

    def paths(self) -> list[str]:
        """The paths asked for, in order."""
        return [request.url.path for request in self.requests]

    def signed(
        self, *, key: SigningKey | None = None, base: CurrentDocument | None = None, **changes: Any
    ) -> bytes:
        """The channel's document after the newest checkpoint, with *changes*, signed."""
        document = msgspec.structs.replace(base or self.honest(), **changes)
        envelope = sign_current(document, key or self.world.keys[Role.POINTER])
        return canonical_json(envelope)

    def honest(self) -> CurrentDocument:
        """What the service would say now."""
        state = self.world.state
        current = state.current[self.world.scenario_name, CHANNEL]
        checkpoint = state.checkpoints[-1]
        issued = datetime.fromisoformat(checkpoint.recorded_at)
        return CurrentDocument(
            scenario=current.scenario,
            channel=current.channel,
            serial=checkpoint.position,
            issued_at=_text(issued),
            expires_at=_text(issued + LIFETIME),
            release_id=current.release_id,
            pointer_position=current.pointer_position,
            gate_digest=current.gate_digest,
            checkpoint=checkpoint.note,
            root_version=current.root_version,
        )

    def handle(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        if self.away:
            raise httpx.ConnectError("nobody listens", request=request)
        self.requests.append(request)
        path = request.url.path
        if path in self.answers:
            return self.answers[path](request)
        for pattern, handler in self._routes().items():
            match = re.fullmatch(pattern, path)
            if match is not None:
                return handler(request, *match.groups())
        return problem(404, "not-found", f"no route {path}")

    def _routes(self) -> Mapping[str, Callable[..., httpx.Response]]:
        scenario = r"/reef/scenarios/[^/]+"
        return {
            r"/reef/scenarios": self._scenarios,
            rf"{scenario}/candidates": self._candidates,
            rf"{scenario}/releases/([0-9a-f]+)": self._release,
            rf"{scenario}/releases/([0-9a-f]+)/attestation": self._attestation,
            rf"{scenario}/current": self._current,
            rf"{scenario}/releases/([0-9a-f]+)/bundle": self._bundle,
            rf"{scenario}/releases/([0-9a-f]+)/files/(.+)": self._file,
            r"/reef/events": self._events,
            r"/reef/log/proof/inclusion": self._inclusion,
            r"/reef/log/proof/consistency": self._consistency,
            r"/reef/trust/root/(\d+)": self._root,
            r"/reef/blobs/([0-9a-f]{64})": self._blob,
            r"/reef/nodes/[^/]+/reports": self._report,
        }

    def _current(self, request: httpx.Request) -> httpx.Response:
        body = self.document
        if body is None:
            if (self.world.scenario_name, CHANNEL) not in self.world.state.current:
                return problem(404, "not-found", "nothing was promoted yet")
            body = self.signed()
        tag = f'"{sha256_hex(body)[:16]}"'
        if request.headers.get("if-none-match") == tag:
            return httpx.Response(304, headers={"etag": tag})
        return httpx.Response(200, content=body, headers={"etag": tag})

    def _events(self, request: httpx.Request) -> httpx.Response:
        query = request.url.params
        after, limit = int(query["after"]), int(query["limit"])
        found = [
            body
            for body in self.world.bodies[after + 1 :]
            if (event := json.loads(body))["scenario"] == query.get("scenario", event["scenario"])
            and event["type"] == query.get("type", event["type"])
        ]
        page, head = found[:limit], self.world.head
        last = json.loads(page[-1])["position"] if page else after
        view = {
            "events": [json.loads(body) for body in page],
            "next_after": last if len(found) > limit else max(head, after),
            "head": head,
        }
        return httpx.Response(200, json=view)

    def _inclusion(self, request: httpx.Request) -> httpx.Response:
        position, size = (int(request.url.params[name]) for name in ("position", "size"))
        tree = self._tree()
        view = {
            "position": position,
            "size": size,
            "leaf_hash": leaf_hash(self.world.bodies[position]).hex(),
            "proof": [each.hex() for each in tree.inclusion_proof(position, size)],
            "root": tree.root(size).hex(),
        }
        return httpx.Response(200, json=view)

    def _consistency(self, request: httpx.Request) -> httpx.Response:
        first, second = (int(request.url.params[name]) for name in ("from", "to"))
        proof = [each.hex() for each in self._tree().consistency_proof(first, second)]
        return httpx.Response(200, json={"first": first, "second": second, "proof": proof})

    def _tree(self) -> MerkleTree:
        return MerkleTree(map(leaf_hash, self.world.bodies))

    def _root(self, _request: httpx.Request, version: str) -> httpx.Response:
        text = self.roots.get(int(version))
        if text is None:
            return problem(404, "not-found", f"no root {version}")
        return httpx.Response(200, content=text.encode())

    def _scenarios(self, _request: httpx.Request) -> httpx.Response:
        view = views.scenario_view(self.world.state, self.world.scenario)
        return _json(wire.ScenariosView(scenarios=[view]))

    def _candidates(self, request: httpx.Request) -> httpx.Response:
        state, scenario = self.world.state, self.world.scenario
        found = [
            views.candidate_view(state, scenario, candidate)
            for candidate in scenario.candidates.values()
        ]
        wanted = request.url.params.get("status")
        return _json(
            wire.CandidatesView(
                candidates=[each for each in found if wanted in (None, each.status)]
            )
        )

    def _release(self, _request: httpx.Request, release_id: str) -> httpx.Response:
        release = self.world.scenario.releases.get(release_id)
        if release is None:
            return problem(404, "not-found", "no such release")
        return _json(views.release_view(self.world.state, self.world.scenario, release))

    def _attestation(self, _request: httpx.Request, candidate: str) -> httpx.Response:
        for event in self._all(ev.GatePassed):
            if getattr(event.data, "candidate_id", None) == candidate:
                return httpx.Response(200, json=getattr(event.data, "attestation", None))
        return problem(400, "bad-request", "no gate passed")

    def _bundle(self, request: httpx.Request, release_id: str) -> httpx.Response:
        if request.method == "POST":
            return self._signed(release_id, request.content)
        for event in self._all(ev.ReleaseSigned):
            if getattr(event.data, "release_id", None) == release_id:
                digest = getattr(event.data, "bundle", "")
                return httpx.Response(200, content=self.world.blobs.read_sync(digest, 1 << 20))
        return problem(404, "not-found", "not signed")

    def _signed(self, release_id: str, bundle: bytes) -> httpx.Response:
        """Append the signature, as the service does, or say why not."""
        gate_id = self.world.scenario.candidates[release_id].gates[-1]
        key_id = json.loads(bundle)["dsseEnvelope"]["signatures"][0]["keyid"]
        data = ev.ReleaseSigned(
            release_id=release_id,
            gate_id=gate_id,
            key_id=key_id,
            bundle=self.world.blobs.put_bytes_sync(bundle),
        )
        try:
            position = self.world.append(data, actor="signer")
        except Refused as error:
            return problem(422, "refused", error.detail)
        return _json(wire.WrittenView(position=position, event_id=self.world.new_id()))

    def _file(self, request: httpx.Request, release_id: str, path: str) -> httpx.Response:
        for file in self.files(release_id):
            if file.path == path:
                return self._blob(request, file.sha256)
        return problem(404, "not-found", "no such file")

    def files(self, release_id: str) -> list[FileEntry]:
        """The files that were submitted as *release_id*."""
        for event in self._all(ev.CandidateSubmitted):
            data = event.data
            if isinstance(data, ev.CandidateSubmitted) and data.candidate_id == release_id:
                return data.files
        return []

    def _blob(self, request: httpx.Request, digest: str) -> httpx.Response:
        data = self.world.blobs.read_sync(digest, 1 << 20)
        wanted = re.fullmatch(r"bytes=(\d+)-", request.headers.get("range", ""))
        if wanted is None:
            return httpx.Response(200, content=data)
        start = int(wanted[1])
        return httpx.Response(
            206,
            content=data[start:],
            headers={"content-range": f"bytes {start}-{len(data) - 1}/{len(data)}"},
        )

    def _report(self, request: httpx.Request) -> httpx.Response:
        self.reports.append(msgspec.json.decode(request.content, type=wire.NodeReport))
        return httpx.Response(201, json={"position": 0, "event_id": "x"})

    def _all(self, kind: type[ev.EventData]) -> list[Event]:
        found = []
        for body in reversed(self.world.bodies):
            with suppress(MalformedData):
                event = ev.decode(body)
                if isinstance(event.data, kind):
                    found.append(event)
        return found


@dataclass(kw_only=True)
class FakeEngine:
    """An engine that computes what the world's model does with the weights that it read.

    `error` is added to every log-probability and `logprob` replaces them all; `before_reading`
    runs between the node's last look at the files and this engine's; `reported` replaces the
    digests that it reports; with `keeps` it goes on with the weights that it had; without
    `reads_foundation` it knows no adapters; `refuses` and `away` make it fail.
    """

    error: float = 0.0
    logprob: float | None = None
    before_reading: Callable[[Path], None] = lambda _directory: None
    reported: dict[str, str] | None = None
    keeps: bool = False
    reads_foundation: bool = True
    refuses: bool = False
    away: bool = False
    loads: list[str] = field(default_factory=list)
    serving: str | None = None
    weights: str = "00000000"

    def load(self, release: OnDisk, foundation: OnDisk | None = None) -> LoadedFiles:
        self._reach()
        self.before_reading(release.directory)
        if self.refuses:
            raise Refused("this is no model")
        self.loads.append(release.release_id)
        self.serving = release.release_id
        read = _digests(release)
        if not self.keeps:
            self.weights = next(read[name] for name in read if name.endswith(".safetensors"))
        below = None
        if foundation is not None and self.reads_foundation:
            self.before_reading(foundation.directory)
            below = LoadedFoundation(release_id=foundation.release_id, files=_digests(foundation))
        return LoadedFiles(
            release_id=release.release_id, files=self.reported or read, foundation=below
        )

    def score(self, prompt_token_ids: Sequence[int], token_ids: Sequence[int]) -> list[float]:
        self._reach()
        if self.logprob is not None:
            return [self.logprob for _ in token_ids]
        return [value + self.error for value in byte_logprobs(self.weights, token_ids)]

    def health(self) -> EngineHealth:
        self._reach()
        return EngineHealth(loaded=self.serving is not None, release_id=self.serving)

    def restart(self) -> None:
        """Forget what is loaded, as a new process has."""
        self.serving = None

    def _reach(self) -> None:
        if self.away:
            raise Unavailable("the engine is away")


def _digests(release: OnDisk) -> dict[str, str]:
    return {
        name: hashlib.sha256((release.directory / name).read_bytes()).hexdigest()
        for name in release.files
    }


def _json(view: msgspec.Struct) -> httpx.Response:
    return httpx.Response(200, content=msgspec.json.encode(view))


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
