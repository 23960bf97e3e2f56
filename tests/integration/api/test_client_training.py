"""A trainer with the project's own client, and a server that is killed while it trains."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from reef_release import training_wire as tw
from reef_release.client import ReefClient
from reef_release.domain.canonical import sha256_hex
from reef_release.domain.weights import candidate_id
from reef_release.errors import BadRequest, Conflict
from reef_release.ids import uuid7
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import Site, model_files
from tests.integration.api.traffic import judged_turn

pytestmark = pytest.mark.anyio


@pytest.fixture
def server(site: Site) -> Iterator[ServerProcess]:
    """A server process that forms a batch of every judged turn."""
    (site.home / "reef.toml").write_text("batch_size = 1\n")
    with ServerProcess(site) as server:
        yield server


async def test_a_batch_is_trained_by_the_client_alone_although_the_server_is_killed(
    server: ServerProcess,
) -> None:
    story = server.story()
    async with story.http:
        await story.create_scenario()
        base = await story.release()
        turn = await judged_turn(story)
        with ReefClient(server.url, story.site.token("train")) as client:
            training = client.training
            batch = None
            while batch is None:
                batch = training.claim(story.scenario, "trainer-1")
            assert [sample.turn_id for sample in batch.samples] == [turn]
            line = uuid7()
            lease_id, batch_id = batch.lease_id, batch.batch_id
            started = tw.StartedData(
                batch_id=batch_id, line=line, parent=base, settings={"clip": 0.2}, seed=7
            )
            first = training.post(story.scenario, lease_id, started)
            step = tw.StepData(
                batch_id=batch_id, line=line, step=1, epoch=1, metrics={"loss": math.nan}
            )
            with pytest.raises(BadRequest, match="not finite"):
                training.post(story.scenario, lease_id, step)
            step = tw.StepData(batch_id=batch_id, line=line, step=1, epoch=1, metrics={"loss": 0.5})
            training.post(story.scenario, lease_id, step)
            server.kill()
            server.restart()
            client.renew_lease(lease_id)
            assert training.post(story.scenario, lease_id, started) == first
            view = training.batch(story.scenario, batch_id)
            assert (view.stage, view.lease_id, view.steps) == ("training", lease_id, 1)
            files = model_files(next(story.site.numbers))
            weights = candidate_id({path: sha256_hex(data) for path, data in files.items()})
            completed = tw.CompletedData(batch_id=batch_id, line=line, weights_id=weights, steps=1)
            training.post(story.scenario, lease_id, completed)
            server.kill()
            server.restart()
            (going,) = training.batches(story.scenario).lines
            assert going == training.line(story.scenario, line)
            assert (going.batches, going.weights_id) == ([batch_id], weights)
            assert training.claim(story.scenario, "trainer-1") is None
            candidate = await story.submit(files, batches=going.batches)
            assert candidate["candidate_id"] == weights
            with pytest.raises(Conflict, match="may still be promoted"):
                training.give_back(story.scenario, batch_id, lease_id)
