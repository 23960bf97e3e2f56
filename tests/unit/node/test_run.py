"""A node that serves nothing asks for its scenario; one that serves needs nobody's word."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from reef_release.client import ReefClient
from reef_release.errors import NotFound
from reef_release.node import run
from reef_release.node.config import NodeConfig
from reef_release.node.node import Standing
from tests.fakes import NO_WAIT, problem


def run_at(
    home: Path, monkeypatch: pytest.MonkeyPatch, answer: httpx.Response, serving: str | None
) -> Standing:
    """One step of a node that starts with *serving*, at a service that gives *answer*."""
    standing = Standing(release_id=serving, serial=0, reasons=())
    node = SimpleNamespace(start=lambda: standing, step=lambda *_: standing)
    transport = httpx.MockTransport(lambda _request: answer)
    monkeypatch.setattr(run, "Node", lambda *_: node)
    monkeypatch.setattr(run, "ReefClient", partial(ReefClient, retry=NO_WAIT, transport=transport))
    config = NodeConfig(
        url="http://reef.test",
        scenario="homwork",
        channel="stable",
        node_id="node-1",
        anchor=home / "root.json",
        origin="log",
        state=home / "node",
        engine_url="http://engine.test",
    )
    return run.run_node(config, once=True, stop=threading.Event())


def test_a_scenario_that_does_not_exist_is_an_error_for_a_new_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotFound, match="'homwork'") as caught:
        run_at(tmp_path, monkeypatch, problem(404, "not-found"), None)
    assert "--scenario" in caught.value.next_step


def test_no_service_stops_a_node_that_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    standing = run_at(tmp_path, monkeypatch, problem(404, "not-found"), "ab" * 32)
    assert standing.release_id == "ab" * 32
    assert run_at(tmp_path, monkeypatch, httpx.Response(503), None).release_id is None
