"""Clients over recorded conversations: how many links are found, and how many of them are true."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from bench.correlation import TARGETS, correlated, rates
from tests.unit.domain.correlation.variants import CLIENTS, Client, feed, play, score


@pytest.fixture(scope="module")
def conversations(shared_data: Path) -> list[dict[str, Any]]:
    lines = (shared_data / "airline_conversations_60.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def generator(shared_data: Path) -> Any:
    path = shared_data.parent / "bench" / "session_traffic.py"
    spec = importlib.util.spec_from_file_location("session_traffic", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("client", TARGETS)
def test_the_targets_are_reached(
    client: str, conversations: list[dict[str, Any]], generator: Any
) -> None:
    rows = generator.traffic(conversations, client, 1)
    recall, precision = rates(rows, correlated(rows))
    assert recall >= TARGETS[client][0]
    assert precision >= TARGETS[client][1]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_clients_of_other_kinds_are_bound_truly(
    client: Client, conversations: list[dict[str, Any]]
) -> None:
    rows = play(client, [each["messages"] for each in conversations[:20]], seed=7)
    result = score(rows, feed(rows))
    assert result.precision >= client.least_precision, result.wrong
    assert result.recall >= client.least_recall, result.reasons
