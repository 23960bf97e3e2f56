"""`ReefClient`: every route of the service as a method, in terms of `reef_release.wire`.

Synchronous, since workers, nodes and the command line are. Every method raises `ReefError`s
only: those that the service answered with, `Unavailable` when it cannot be reached, and
`BadAnswer` when it speaks another protocol. Nothing that comes back is trusted here; whoever
needs trust verifies signatures and proofs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from reef_release import account_wire, traffic_wire, wire
from reef_release.artifacts.collector import collect
from reef_release.artifacts.errors import DigestMismatch
from reef_release.client import blobs
from reef_release.client.errors import BadAnswer, decoded
from reef_release.client.paths import JSON, VIEW_BYTES, path_of, scenario_path
from reef_release.client.privacy import Privacy
from reef_release.client.training import Training
from reef_release.client.transport import Answer, Retry, Transport
from reef_release.client.watch import Watching
from reef_release.domain.canonical import canonical_json, parse_json, sha256_hex
from reef_release.domain.events import FileEntry
from reef_release.errors import BadRequest

__all__ = ["Current", "EventPage", "ReefClient"]

_T = TypeVar("_T")
_DOCUMENT_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Current:
    """A current document (DSSE envelope, JSON bytes) and its entity tag.

    `document` is None when it is still the one of the tag that was sent.
    """

    document: bytes | None
    etag: str | None


@dataclass(frozen=True, kw_only=True)
class EventPage:
    """Events as their canonical bytes, which are the leaves of the log's tree."""

    events: tuple[bytes, ...]
    next_after: int
    head: int


class ReefClient:
    """A client of one service with one token; use it as a context or `close` it."""

    def __init__(
        self,
        base_url: str,
        token: str | None = None,
        *,
        timeout_s: float = 30.0,
        retry: Retry | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """*transport* replaces the network, for tests. Raises `SettingsError` for a bad URL."""
        self._http = Transport(
            base_url, token=token, timeout_s=timeout_s, retry=retry, transport=transport
        )
        self.training = Training(self._http)
        """The routes of a trainer."""
        self.privacy = Privacy(self._http)
        """The routes of whoever erases what people wrote."""
        self.watching = Watching(self._http)
        """The routes of whoever watches what is served."""

    def __enter__(self) -> ReefClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # Scenarios

    def create_scenario(self, request: wire.ScenarioRequest) -> wire.ScenarioView:
        """Create a scenario with its schema and its signed policy."""
        return self._send("POST", "/reef/scenarios", request, wire.ScenarioView)

    def scenarios(self) -> list[wire.ScenarioView]:
        """All scenarios."""
        return self._get("/reef/scenarios", wire.ScenariosView).scenarios

    def scenario(self, scenario: str) -> wire.ScenarioView:
        """One scenario."""
        return self._get(scenario_path(scenario), wire.ScenarioView)

    def change_policy(self, scenario: str, policy: dict[str, Any], reason: str) -> wire.WrittenView:
        """Put another signed policy into force."""
        request = wire.PolicyRequest(policy=policy, reason=reason)
        return self._send("PUT", scenario_path(scenario, "policy"), request, wire.WrittenView)

    def account(self, scenario: str) -> account_wire.AccountView:
        """What a scenario serves and why, what was refused and why, the last levers."""
        return self._get(scenario_path(scenario, "account"), account_wire.AccountView)

    def hold(self, scenario: str, reason: str) -> wire.WrittenView:
        """Stop promotions until `resume`."""
        return self._reason(scenario_path(scenario, "hold"), reason)

    def resume(self, scenario: str, reason: str) -> wire.WrittenView:
        """Allow promotions again."""
        return self._reason(scenario_path(scenario, "resume"), reason)

    def roll_back(
        self, scenario: str, release_id: str, reason: str, channel: str = "stable"
    ) -> wire.WrittenView:
        """Serve an earlier promoted release of the channel again."""
        request = wire.RollbackRequest(release_id=release_id, reason=reason, channel=channel)
        return self._send("POST", scenario_path(scenario, "rollback"), request, wire.WrittenView)

    # Candidates

    def submit(
        self, scenario: str, manifest: wire.CandidateManifest, wait_s: int = 60
    ) -> wire.CandidateView:
        """Submit a candidate whose files are uploaded; its admission is awaited for *wait_s*.

        Submitting again is answered with what became of it. Raises `Refused` with every reason.
        """
        answer = self._http.call(
            "POST",
            scenario_path(scenario, "candidates"),
            limit_bytes=VIEW_BYTES,
            params={"wait": wait_s},
            headers=JSON,
            body=msgspec.json.encode(manifest),
            idempotent=True,
            wait_s=wait_s,
        )
        return decoded(answer.body, wire.CandidateView)

    def candidates(self, scenario: str, status: str | None = None) -> list[wire.CandidateView]:
        """The candidates of a scenario, all or those of one *status*, in order of submission."""
        params = {} if status is None else {"status": status}
        return self._get(
            scenario_path(scenario, "candidates"), wire.CandidatesView, params
        ).candidates

    def candidate(self, scenario: str, candidate_id: str) -> wire.CandidateView:
        """One candidate."""
        return self._get(scenario_path(scenario, "candidates", candidate_id), wire.CandidateView)

    def candidate_account(
        self, scenario: str, candidate_id: str
    ) -> account_wire.CandidateAccountView:
        """What became of a candidate and why, rule by rule, and what comes next."""
        path = scenario_path(scenario, "candidates", candidate_id, "account")
        return self._get(path, account_wire.CandidateAccountView)

    def revoke_candidate(self, scenario: str, candidate_id: str, reason: str) -> wire.WrittenView:
        """Bar a candidate from being promoted or rolled back to from now on."""
        return self._reason(scenario_path(scenario, "candidates", candidate_id, "revoke"), reason)

    # Gates

    def claim_gate(
        self, scenario: str, worker: str, key_id: str | None = None
    ) -> wire.GateAssignment | None:
        """A gate to work on with the gate key *key_id*; None when there is none now."""
        request = wire.GateClaimRequest(worker=worker, key_id=key_id)
        answer = self._post(scenario_path(scenario, "gates", "claim"), request)
        return None if answer.status == 204 else decoded(answer.body, wire.GateAssignment)

    def post_trial(self, scenario: str, gate_id: str, trial: wire.TrialRequest) -> wire.TrialView:
        """Record one trial."""
        return self._send(
            "POST", scenario_path(scenario, "gates", gate_id, "trials"), trial, wire.TrialView
        )

    def post_decision(
        self, scenario: str, gate_id: str, decision: wire.DecisionRequest
    ) -> wire.DecisionView:
        """Record the signed decision."""
        return self._send(
            "POST",
            scenario_path(scenario, "gates", gate_id, "decision"),
            decision,
            wire.DecisionView,
        )

    def renew_lease(self, lease_id: str) -> wire.LeaseView:
        """Keep a claimed gate, turn or batch for longer."""
        answer = self._http.call(
            "POST",
            path_of("reef", "leases", lease_id, "renew"),
            limit_bytes=VIEW_BYTES,
            idempotent=True,
        )
        return decoded(answer.body, wire.LeaseView)

    def release_lease(self, lease_id: str) -> None:
        """Give a claimed gate back before its lease expires."""
        self._http.call(
            "POST", path_of("reef", "leases", lease_id, "release"), limit_bytes=VIEW_BYTES
        )

    # Traffic

    def record(
        self, scenario: str, interaction: traffic_wire.InteractionRequest
    ) -> traffic_wire.Receipt:
        """Record one interaction; with an id of its own it may be sent again. Raises `Conflict`."""
        answer = self._http.call(
            "POST",
            scenario_path(scenario, "interactions"),
            limit_bytes=VIEW_BYTES,
            headers=JSON,
            body=msgspec.json.encode(interaction),
            idempotent=interaction.interaction_id is not None,
        )
        return decoded(answer.body, traffic_wire.Receipt)

    def signal(self, scenario: str, hours: int = 24) -> traffic_wire.SignalView:
        """Signal health: in total, and by hour for the last *hours* hours with calls."""
        return self._get(
            scenario_path(scenario, "signal"), traffic_wire.SignalView, {"hours": hours}
        )

    # Judging

    def claim_turn(self, scenario: str, worker: str) -> wire.TurnAssignment | None:
        """A completed turn to judge; None when there is none now."""
        answer = self._post(
            scenario_path(scenario, "turns", "claim"), wire.ClaimRequest(worker=worker)
        )
        return None if answer.status == 204 else decoded(answer.body, wire.TurnAssignment)

    def post_judgment(
        self, scenario: str, turn_id: str, judgment: wire.JudgmentRequest
    ) -> wire.WrittenView:
        """Record all votes on a turn, or the error that prevented them.

        A turn takes one judgment, so this may be repeated. Raises `Conflict` when it has another.
        """
        answer = self._http.call(
            "POST",
            scenario_path(scenario, "turns", turn_id, "judgment"),
            limit_bytes=VIEW_BYTES,
            headers=JSON,
            body=msgspec.json.encode(judgment),
            idempotent=True,
        )
        return decoded(answer.body, wire.WrittenView)

    def post_probe(self, scenario: str, probe: wire.JudgeProbe) -> None:
        """Say how the judge did on turns with known answers; the service draws the consequence."""
        self._http.call(
            "POST",
            scenario_path(scenario, "judge", "probes"),
            limit_bytes=VIEW_BYTES,
            headers=JSON,
            body=msgspec.json.encode(probe),
            idempotent=True,
        )

    # Releases

    def releases(self, scenario: str) -> list[wire.ReleaseView]:
        """All signed releases, in order of signing."""
        return self._get(scenario_path(scenario, "releases"), wire.ReleasesView).releases

    def release(self, scenario: str, release_id: str) -> wire.ReleaseView:
        """One release."""
        return self._get(scenario_path(scenario, "releases", release_id), wire.ReleaseView)

    def bundle(self, scenario: str, release_id: str) -> bytes:
        """The weights signature of a release."""
        return self._bytes(scenario_path(scenario, "releases", release_id, "bundle"))

    def attestation(self, scenario: str, release_id: str) -> bytes:
        """The gate decision (DSSE) that a release rests on."""
        return self._bytes(scenario_path(scenario, "releases", release_id, "attestation"))

    def post_bundle(self, scenario: str, release_id: str, bundle: bytes) -> wire.WrittenView:
        """Hand in the weights signature of a candidate whose gate passed."""
        answer = self._http.call(
            "POST",
            scenario_path(scenario, "releases", release_id, "bundle"),
            limit_bytes=VIEW_BYTES,
            headers=JSON,
            body=bundle,
        )
        return decoded(answer.body, wire.WrittenView)

    def download_release_file(
        self,
        scenario: str,
        release_id: str,
        file: FileEntry,
        target: Path,
        *,
        min_rate_bytes_per_s: int = blobs.MIN_RATE_BYTES_PER_S,
    ) -> None:
        """One file of a release into *target*; see `blobs.download` for what is checked."""
        route = scenario_path(scenario, "releases", release_id, "files")
        blobs.download(
            self._http,
            f"{route}/{quote(file.path, safe='/')}",
            target,
            sha256=file.sha256,
            size_bytes=file.size_bytes,
            min_rate_bytes_per_s=min_rate_bytes_per_s,
        )

    def revoke_release(self, scenario: str, release_id: str, reason: str) -> wire.WrittenView:
        """Bar a release from being promoted or rolled back to from now on."""
        return self._reason(scenario_path(scenario, "releases", release_id, "revoke"), reason)

    def approve_release(self, scenario: str, release_id: str, reason: str) -> wire.WrittenView:
        """Approve of a candidate that passed its gate."""
        return self._reason(scenario_path(scenario, "releases", release_id, "approve"), reason)

    # Serving

    def current(
        self, scenario: str, channel: str = "stable", *, etag: str | None = None, wait_s: int = 0
    ) -> Current:
        """What a channel serves; with *etag* and *wait_s*, as soon as that changes.

        Raises `NotFound` before the first promotion.
        """
        answer = self._http.call(
            "GET",
            scenario_path(scenario, "current"),
            limit_bytes=_DOCUMENT_BYTES,
            params={"channel": channel, **({"wait": wait_s} if wait_s else {})},
            headers={"If-None-Match": etag} if etag else None,
            wait_s=wait_s,
        )
        tag = answer.headers.get("etag")
        if answer.status == 304:
            return Current(document=None, etag=tag or etag)
        return Current(document=answer.body, etag=tag)

    def report(self, node_id: str, report: wire.NodeReport) -> wire.WrittenView:
        """Say what a node loaded or why it refused."""
        path = path_of("reef", "nodes", node_id, "reports")
        return self._send("POST", path, report, wire.WrittenView)

    # The log and its trust

    def events(
        self,
        after: int = -1,
        *,
        limit: int = 1000,
        scenario: str | None = None,
        type: str | None = None,  # noqa: A002 - the query parameter's name
    ) -> EventPage:
        """A page of events after the position *after*."""
        chosen = {"scenario": scenario, "type": type}
        params = {key: value for key, value in chosen.items() if value is not None}
        view = self._get(
            "/reef/events", wire.EventsView, {"after": after, "limit": limit, **params}
        )
        if view.next_after < after or len(view.events) > limit:
            raise BadAnswer(
                "The page of events does not fit the question.",
                next_step="Check that this URL is the service's.",
            )
        return EventPage(
            events=tuple(_canonical(bytes(each)) for each in view.events),
            next_after=view.next_after,
            head=view.head,
        )

    def checkpoint(self) -> str:
        """The newest checkpoint: a C2SP signed note."""
        return _text(self._bytes("/reef/log/checkpoint"))

    def inclusion(self, position: int, size: int) -> wire.InclusionView:
        """The proof that an event stands in the tree of *size* events."""
        params = {"position": position, "size": size}
        return self._get("/reef/log/proof/inclusion", wire.InclusionView, params)

    def consistency(self, first: int, second: int) -> wire.ConsistencyView:
        """The proof that the tree of *second* events continues that of *first*."""
        params = {"from": first, "to": second}
        return self._get("/reef/log/proof/consistency", wire.ConsistencyView, params)

    def trust_root(self, version: int | None = None) -> str:
        """Trust root metadata: the newest, or *version*. Raises `NotFound`."""
        tail = () if version is None else (str(version),)
        return _text(self._bytes(path_of("reef", "trust", "root", *tail)))

    def publish_root(self, metadata: str, reason: str) -> wire.WrittenView:
        """Put the next trust root into force; its own signatures decide whether it comes."""
        request = wire.RootRequest(metadata=metadata, reason=reason)
        return self._send("PUT", "/reef/trust/root", request, wire.WrittenView)

    def trust_keys(self) -> list[wire.KeyView]:
        """Every key that the log knows."""
        return self._get("/reef/trust/keys", wire.KeysView).keys

    def revoke_key(self, key_id: str, reason: str) -> wire.WrittenView:
        """Take the force of whatever a key signs from now on."""
        return self._reason(path_of("reef", "trust", "keys", key_id, "revoke"), reason)

    # Blobs

    def upload_directory(self, directory: Path) -> list[FileEntry]:
        """Upload a candidate's files, those that the service lacks; for `CandidateManifest`.

        Raises `BadRequest` and `Refused` as `artifacts.collector.collect` does.
        """
        files = collect(directory)
        for file in files:
            self._upload(file.sha256, file.size_bytes, file.chunks)
        return [file.entry for file in files]

    def put_blob(self, data: bytes) -> str:
        """Store small bytes; returns their SHA-256, by which events name them."""
        digest = sha256_hex(data)
        self._upload(digest, len(data), lambda: [data])
        return digest

    def read_blob(self, sha256: str, limit_bytes: int) -> bytes:
        """A small blob, checked. Raises `DigestMismatch`."""
        data = self._bytes(path_of("reef", "blobs", sha256), limit_bytes)
        if hashlib.sha256(data).hexdigest() != sha256:
            raise DigestMismatch(
                f"The service sent other bytes for the blob {sha256}.",
                next_step="Repeat; if it stays so, the service's copy is damaged or forged.",
            )
        return data

    def download_blob(
        self,
        sha256: str,
        size_bytes: int,
        target: Path,
        *,
        min_rate_bytes_per_s: int = blobs.MIN_RATE_BYTES_PER_S,
    ) -> None:
        """A large blob into *target*; see `blobs.download` for what is checked."""
        blobs.download(
            self._http,
            path_of("reef", "blobs", sha256),
            target,
            sha256=sha256,
            size_bytes=size_bytes,
            min_rate_bytes_per_s=min_rate_bytes_per_s,
        )

    # The service itself

    def health(self) -> bytes:
        """Whether the process answers at all."""
        return self._bytes("/healthz")

    def ready(self) -> bytes:
        """Whether the service can work. Raises `Unavailable` with what is missing."""
        return self._bytes("/readyz")

    def _upload(self, digest: str, size_bytes: int, chunks: Callable[[], Iterable[bytes]]) -> None:
        blobs.upload(
            self._http, path_of("reef", "blobs", digest), size_bytes=size_bytes, chunks=chunks
        )

    def _get(self, path: str, kind: type[_T], params: Mapping[str, str | int] | None = None) -> _T:
        return decoded(
            self._http.call("GET", path, limit_bytes=VIEW_BYTES, params=params).body, kind
        )

    def _bytes(self, path: str, limit_bytes: int = _DOCUMENT_BYTES) -> bytes:
        return self._http.call("GET", path, limit_bytes=limit_bytes).body

    def _post(self, path: str, request: msgspec.Struct) -> Answer:
        return self._http.call(
            "POST",
            path,
            limit_bytes=VIEW_BYTES,
            headers=JSON,
            body=msgspec.json.encode(request),
        )

    def _send(self, method: str, path: str, request: msgspec.Struct, kind: type[_T]) -> _T:
        # A PUT of a policy appends an event, so it is not repeated like that of a blob.
        answer = self._http.call(
            method,
            path,
            limit_bytes=VIEW_BYTES,
            headers=JSON,
            body=msgspec.json.encode(request),
            idempotent=False,
        )
        return decoded(answer.body, kind)

    def _reason(self, path: str, reason: str) -> wire.WrittenView:
        return self._send("POST", path, wire.ReasonRequest(reason=reason), wire.WrittenView)


def _canonical(event: bytes) -> bytes:
    """The stored bytes of an event: however the JSON around it was written, these are one."""
    try:
        return canonical_json(parse_json(event))
    except BadRequest as error:
        raise BadAnswer(f"An event of the page has no canonical form: {error.detail}") from error


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadAnswer("The answer is not UTF-8 text.") from error
