"""The examples of docs/agents.md record what they say, as they stand there."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import uuid

import msgspec
import pytest

from reef_release import wire
from reef_release.client import ReefClient
from reef_release.ids import uuid7
from reef_release.traffic_wire import InteractionRequest, LineOutcome, Receipt
from tests.integration.api.server import ServerProcess
from tests.unit.docs import pages

PAGE = pages.REPOSITORY / "docs" / "agents.md"


def block(language: str, words: str) -> str:
    (found,) = (
        each.text for each in pages.blocks(PAGE) if each.language == language and words in each.text
    )
    return found


@pytest.fixture
def environment(running: ServerProcess) -> dict[str, str]:
    """What the examples ask for; their scenario exists."""
    site, story = running.site, running.story()
    with ReefClient(running.url, site.token("operate")) as operator:
        schema = operator.put_blob(site.model_schema())
        operator.put_blob(story.suite)
        operator.create_scenario(
            wire.ScenarioRequest(name="homework", schema=schema, policy=story.signed_policy())
        )
    return {**os.environ, "REEF_URL": running.url, "REEF_TOKEN": site.token("ingest")}


def test_the_examples_record_interactions(environment: dict[str, str]) -> None:
    if shutil.which("curl") is not None:
        line = ["sh", "-c", block("console", "interactions")]
        done = subprocess.run(line, env=environment, capture_output=True, check=True)
        receipt = msgspec.json.decode(done.stdout, type=Receipt)
        assert [note.code for note in receipt.notes] == ["no-token-data"]
    program = [sys.executable, "-c", block("python", "interactions")]
    done = subprocess.run(program, env=environment, capture_output=True, check=True)
    outcome = msgspec.convert(ast.literal_eval(done.stdout.decode()), LineOutcome)
    assert outcome.receipt is not None
    assert [note.code for note in outcome.receipt.notes] == ["unknown-release"]


def test_the_page_names_every_field_of_an_interaction() -> None:
    prose = pages.prose(PAGE)
    for field in InteractionRequest.__struct_fields__:
        assert f"`{field}`" in prose


def test_the_page_tells_how_to_make_a_uuid7() -> None:
    recipe = next(
        words for words in pages.prose(PAGE).split("`") if words.startswith("uuid.UUID(int=")
    )
    program = f"import secrets, time, uuid; print({recipe})"
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    made_id = uuid.UUID(made.stdout.decode().strip())
    assert (made_id.version, made_id.variant) == (7, uuid.RFC_4122)
    now = uuid.UUID(uuid7()).int >> 80
    assert 0 <= now - (made_id.int >> 80) < 600_000
