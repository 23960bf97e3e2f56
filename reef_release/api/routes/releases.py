"""Releases: their signatures, attestations and files, and the signer's way to add a bundle."""

from __future__ import annotations

from typing import Any

from litestar import Controller, Request, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, RawBody
from litestar.response import Stream

from reef_release.api.access import commands, requires
from reef_release.api.given import passed_gate
from reef_release.api.problems import READ_PROBLEMS, SIGNED_ANSWERS, WRITE_PROBLEMS
from reef_release.api.ranges import stream_blob
from reef_release.api.request_bodies import described_body
from reef_release.api.service import Service
from reef_release.api.views import release_view
from reef_release.domain import events as ev
from reef_release.domain.canonical import canonical_json
from reef_release.domain.state import Release, Scenario
from reef_release.errors import Forbidden, NotFound, PayloadTooLarge
from reef_release.signing.keys import PublicKey, Role
from reef_release.signing.weights import verify_bundle
from reef_release.tokens import Principal, TokenRole
from reef_release.wire import ReleasesView, ReleaseView, WrittenView

__all__ = ["ReleaseController"]

_READERS = requires(
    TokenRole.AUDIT,
    TokenRole.GATE,
    TokenRole.OPERATE,
    TokenRole.SERVE,
    TokenRole.SIGN,
    TokenRole.TRAIN,
)
_BUNDLE_LIMIT_BYTES = 4 * 1024 * 1024
_JSON = "application/json"


class ReleaseController(Controller):
    """Releases of one scenario."""

    path = "/reef/scenarios/{scenario:str}/releases"
    guards = (_READERS,)

    @get(summary="List releases", responses=READ_PROBLEMS)
    async def index(
        self, scenario: FromPath[str], service: NamedDependency[Service]
    ) -> ReleasesView:
        """Signed releases in order of signing."""
        found = service.scenario(scenario)
        return ReleasesView(
            releases=[
                release_view(service.state, found, release) for release in found.releases.values()
            ]
        )

    @get("/{release_id:str}", summary="Show a release", responses=READ_PROBLEMS)
    async def show(
        self,
        scenario: FromPath[str],
        release_id: FromPath[str],
        service: NamedDependency[Service],
    ) -> ReleaseView:
        """A release and its files."""
        found = service.scenario(scenario)
        return release_view(service.state, found, _release(found, release_id))

    @get(
        "/{release_id:str}/bundle",
        summary="The weights signature",
        media_type=_JSON,
        responses=SIGNED_ANSWERS,
    )
    async def bundle(
        self,
        scenario: FromPath[str],
        release_id: FromPath[str],
        service: NamedDependency[Service],
    ) -> bytes:
        """The OpenSSF Model Signing bundle, as the signer made it."""
        release = _release(service.scenario(scenario), release_id)
        return await service.blobs.read(release.bundle, _BUNDLE_LIMIT_BYTES)

    @post(
        "/{release_id:str}/bundle",
        guards=[commands(TokenRole.SIGN)],
        summary="Add the weights signature",
        operation_class=described_body(
            "A sigstore bundle over the weights' statement; at most 4 MiB.",
            {"application/json": {"type": "object"}},
        ),
        responses=WRITE_PROBLEMS,
    )
    async def add_bundle(
        self,
        request: Request[Principal, Any, Any],
        scenario: FromPath[str],
        release_id: FromPath[str],
        body: RawBody,
        service: NamedDependency[Service],
    ) -> WrittenView:
        """The signer's bundle for a candidate whose gate passed; the promotion follows."""
        if len(body) > _BUNDLE_LIMIT_BYTES:
            raise PayloadTooLarge("A bundle has at most 4 MiB.")
        gate = passed_gate(service.scenario(scenario), release_id)
        keys = [
            PublicKey(Role.RELEASE, key.public_key) for key in service.state.active_keys("release")
        ]
        signed = verify_bundle(body, release_id, keys)
        appended, event_id = await service.commands.append(
            request.user.name,
            scenario,
            ev.ReleaseSigned(
                release_id=release_id,
                gate_id=gate.opened.gate_id,
                key_id=signed.key_id,
                bundle=await service.blobs.put_bytes(body),
            ),
        )
        return WrittenView(position=appended.position, event_id=event_id)

    @get(
        "/{release_id:str}/attestation",
        summary="The gate decision",
        media_type=_JSON,
        responses=SIGNED_ANSWERS,
    )
    async def attestation(
        self,
        scenario: FromPath[str],
        release_id: FromPath[str],
        service: NamedDependency[Service],
    ) -> bytes:
        """The signed SLSA verification summary of the gate that passed."""
        gate = passed_gate(service.scenario(scenario), release_id)
        return canonical_json(gate.attestation)

    @get(
        "/{release_id:str}/files/{path:str}",
        summary="One file of a release",
        media_type="application/octet-stream",
        responses=READ_PROBLEMS,
    )
    async def file(
        self,
        request: Request[Principal, Any, Any],
        scenario: FromPath[str],
        release_id: FromPath[str],
        path: FromPath[str],
        service: NamedDependency[Service],
    ) -> Stream:
        """Streamed; `Range` resumes."""
        found = service.scenario(scenario)
        release = _release(found, release_id)
        for file in found.candidates[release.release_id].submitted.files:
            if file.path == path:
                if service.readers.is_secret(file.sha256):
                    raise Forbidden(f"The file {path!r} is gate material, not weights.")
                return await stream_blob(service.blobs, file.sha256, request.headers)
        raise NotFound(f"Release {release_id} has no file {path!r}.")


def _release(scenario: Scenario, release_id: str) -> Release:
    release = scenario.releases.get(release_id)
    if release is None:
        raise NotFound(
            f"There is no signed release {release_id!r} in {scenario.name!r}.",
            next_step="A candidate becomes a release when its gate passed and it was signed.",
        )
    return release
