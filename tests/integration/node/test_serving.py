"""From a submitted directory to a loaded engine: client, signer and node on a real service."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from anyio.to_thread import run_sync

from reef_release import wire
from reef_release.client import ReefClient
from reef_release.errors import Conflict, Forbidden, Refused
from reef_release.node.config import NodeConfig
from reef_release.node.explain import explain
from reef_release.node.node import Standing
from reef_release.node.run import run_node
from reef_release.signer import SignerConfig, run_signer
from reef_release.signing.keyring import PRIVATE_NAME, ROOT_NAME
from tests.fakes import FakeEngine
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import SCENARIO, Site, Story, model_files

pytestmark = pytest.mark.anyio

_T = TypeVar("_T")
_PATIENCE_S = 30.0


def node_config(server: ServerProcess, engine_url: str, **changes: Any) -> NodeConfig:
    site = server.site
    given: dict[str, Any] = {
        "url": server.url,
        "token": site.token("serve"),
        "scenario": SCENARIO,
        "node_id": "node-1",
        "anchor": site.home / "keys" / ROOT_NAME,
        "origin": site.settings().origin,
        "state": site.home / "node",
        "engine_url": engine_url,
        "poll_wait_s": 2,
        "shortest_poll_s": 0.05,
    }
    return NodeConfig(**(given | changes))


def sign_once(server: ServerProcess) -> int:
    keys = server.site.home / "keys"
    return run_signer(
        SignerConfig(
            url=server.url,
            token=server.site.token("sign"),
            key=keys / "release" / PRIVATE_NAME,
            root=keys / ROOT_NAME,
        ),
        once=True,
    )


def until(look: Callable[[], _T], good: Callable[[_T], bool]) -> _T:
    """What *look* sees as soon as it is good."""
    deadline = time.monotonic() + _PATIENCE_S
    while not good(seen := look()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return seen


async def serve_next(server: ServerProcess, story: Story) -> str:
    """A fresh release through gate and signer, without the story's own signer."""
    view = await story.submit()
    await story.gate()
    assert await run_sync(partial(sign_once, server)) == 1
    await story.promoted(view["candidate_id"])
    return str(view["candidate_id"])


async def node_at(config: NodeConfig, release: str) -> Standing:
    """Steps of a node until it serves *release*."""
    look = partial(run_node, config, once=True)
    return await run_sync(lambda: until(look, lambda standing: standing.release_id == release))


async def test_signed_releases_reach_the_engine_and_the_log_hears_of_it(
    server: ServerProcess, engine: FakeEngine, engine_url: str
) -> None:
    story, config = server.story(), node_config(server, engine_url)
    await story.create_scenario()
    assert (await run_sync(partial(run_node, config, once=True))).release_id is None

    origin = await serve_next(server, story)
    standing = await node_at(config, origin)
    assert standing == Standing(release_id=origin, serial=standing.serial, reasons=())
    assert standing.serial in await serials(story)
    better = await serve_next(server, story)
    assert (await node_at(config, better)).reasons == ()
    await story.lever("rollback", release_id=origin)
    assert (await node_at(config, origin)).reasons == ()
    # Each `run_node` is a new process: it loads the last good release first.
    assert engine.loads[-1] == origin

    loaded = await story.events(type="node.loaded")
    assert [event["data"]["release_id"] for event in loaded][-1] == origin
    found = explain(config)
    assert (found.may_be_served, found.release_id) == (True, origin)
    assert "release.rolled_back" in str(found.findings)
    await story.http.aclose()


async def serials(story: Story) -> list[int]:
    """Of all documents so far; the next one may come at any moment."""
    events = await story.events(type="checkpoint.published")
    return [int(event["position"]) for event in events]


async def test_a_running_node_follows_without_being_asked_and_stops_when_told(
    server: ServerProcess, engine: FakeEngine, engine_url: str
) -> None:
    story, config = server.story(), node_config(server, engine_url)
    await story.create_scenario()
    stop = threading.Event()
    results: list[Standing] = []
    node = threading.Thread(target=lambda: results.append(run_node(config, stop=stop)))
    node.start()
    try:
        for _ in range(2):
            release = await serve_next(server, story)
            assert await loaded(engine, release)
        # The service goes and comes back: the node stays, and follows again.
        server.kill()
        assert engine.serving == release
        server.restart()
        release = await serve_next(server, story)
        assert await loaded(engine, release)
    finally:
        stop.set()
        await run_sync(node.join)
        await story.http.aclose()
    assert results[0].release_id == release


async def loaded(engine: FakeEngine, release: str) -> bool:
    return await run_sync(lambda: until(lambda: engine.serving == release, bool))


async def test_the_client_uploads_submits_and_reads_back_what_the_service_says(
    server: ServerProcess, site: Site, tmp_path: Path
) -> None:
    story = server.story()
    await story.create_scenario()
    directory = tmp_path / "weights"
    directory.mkdir()
    for name, data in model_files(1).items():
        (directory / name).write_bytes(data)

    def work() -> None:
        operator = ReefClient(server.url, site.token("operate"))
        trainer = ReefClient(server.url, site.token("train"))
        files = operator.upload_directory(directory)
        assert operator.upload_directory(directory) == files
        manifest = wire.CandidateManifest(files=files)
        with pytest.raises(Forbidden):
            trainer.submit(SCENARIO, manifest)
        view = operator.submit(SCENARIO, manifest)
        assert operator.submit(SCENARIO, manifest).candidate_id == view.candidate_id
        with pytest.raises(Conflict):
            operator.submit(SCENARIO, wire.CandidateManifest(files=files, seed=9))
        assert operator.candidate(SCENARIO, view.candidate_id).status == "admitted"
        assert [each.name for each in operator.scenarios()] == [SCENARIO]
        with pytest.raises(Refused) as refused:
            operator.submit(SCENARIO, wire.CandidateManifest(files=files[:1]))
        assert refused.value.reasons
        operator.hold(SCENARIO, "wait")
        assert operator.scenario(SCENARIO).held_reason == "wait"
        operator.resume(SCENARIO, "go on")

        target = tmp_path / "copy"
        weights = files[1]
        (tmp_path / "copy.partial").write_bytes((directory / weights.path).read_bytes()[:5])
        operator.download_blob(weights.sha256, weights.size_bytes, target)
        assert target.read_bytes() == (directory / weights.path).read_bytes()

        auditor = ReefClient(server.url, site.token("audit"))
        page = auditor.events(limit=5)
        assert len(page.events) == 5
        assert auditor.checkpoint().startswith(site.settings().origin)
        assert auditor.trust_root(1) == site.anchor
        assert auditor.inclusion(0, 5).size == 5
        assert auditor.consistency(2, 5).second == 5
        assert auditor.ready()
        for client in (operator, trainer, auditor):
            client.close()

    await run_sync(work)
    await story.http.aclose()
