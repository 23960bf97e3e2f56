"""Exporting over HTTP: the client's routes, and what they may answer."""

from __future__ import annotations

from pathlib import Path

import httpx
import msgspec
import pytest

from reef_release.audit import export, replay
from reef_release.audit.http_source import ClientSource
from reef_release.client import ReefClient
from reef_release.client.transport import Retry
from reef_release.errors import Forbidden, Unavailable
from reef_release.wire import EventsView
from tests.unit.audit.conftest import Story
from tests.world import World, WorldSource


def service(world: World, page: int = 7) -> httpx.MockTransport:
    """The auditor's routes over a world: pages, the note, blobs."""
    source = WorldSource(world, page)

    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path == "/reef/log/checkpoint":
            return httpx.Response(200, text=source.checkpoint())
        if path == "/reef/events":
            after, limit = (int(request.url.params[name]) for name in ("after", "limit"))
            bodies = source.events(after, limit)
            view = EventsView(
                events=[msgspec.Raw(body) for body in bodies],
                next_after=after + len(bodies),
                head=world.head,
            )
            return httpx.Response(200, content=msgspec.json.encode(view))
        digest = path.removeprefix("/reef/blobs/")
        if not world.blobs.exists_sync(digest):
            return httpx.Response(404)
        return httpx.Response(200, content=b"".join(world.blobs.chunks_sync(digest)))

    return httpx.MockTransport(answer)


def client(transport: httpx.BaseTransport) -> ReefClient:
    retry = Retry(attempts=2, sleep=lambda seconds: None)
    return ReefClient("http://reef.test", "token", retry=retry, transport=transport)


@pytest.mark.parametrize("weights", [False, True])
def test_an_export_over_http_is_the_same_to_the_last_byte(
    story: Story, tmp_path: Path, weights: bool
) -> None:
    with client(service(story.world)) as http:
        export(ClientSource(http), tmp_path / "http", include_weights=weights)
    export(WorldSource(story.world), tmp_path / "direct", include_weights=weights)
    for path in (tmp_path / "direct").rglob("*"):
        if path.is_file():
            twin = tmp_path / "http" / path.relative_to(tmp_path / "direct")
            assert twin.read_bytes() == path.read_bytes()
    assert replay(tmp_path / "http", story.anchor).good


def test_a_blob_that_the_service_lost_does_not_end_the_export(story: Story, tmp_path: Path) -> None:
    honest = service(story.world)
    lost = story.world.suite

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith(lost):
            return httpx.Response(404)
        return honest.handler(request)  # type: ignore[return-value]

    with client(httpx.MockTransport(answer)) as http:
        manifest = export(ClientSource(http), tmp_path / "export")
    assert manifest.missing == [lost]
    assert "blob-missing" in {
        problem.code for problem in replay(tmp_path / "export", story.anchor).problems
    }


def test_a_blob_with_other_bytes_than_its_name_says_is_not_kept(
    story: Story, tmp_path: Path
) -> None:
    honest = service(story.world)

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith(story.world.suite):
            return httpx.Response(200, content=b"another suite")
        return honest.handler(request)  # type: ignore[return-value]

    with client(httpx.MockTransport(answer)) as http:
        manifest = export(ClientSource(http), tmp_path / "export")
    assert manifest.missing == [story.world.suite]


@pytest.mark.parametrize(("status", "error"), [(403, Forbidden), (503, Unavailable)])
def test_an_export_ends_when_the_service_refuses_or_is_away(
    story: Story, tmp_path: Path, status: int, error: type[Exception]
) -> None:
    honest = service(story.world)

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.startswith("/reef/blobs"):
            return httpx.Response(status)
        return honest.handler(request)  # type: ignore[return-value]

    with client(httpx.MockTransport(answer)) as http, pytest.raises(error):
        export(ClientSource(http), tmp_path / "export")
    assert list(tmp_path.iterdir()) == []
