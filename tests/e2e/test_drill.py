"""The whole drill, as a stranger runs it: every attack on a stack of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from reef_release.drill.catalogue import catalogue

_REEF = [sys.executable, "-m", "reef_release.cli"]


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    done = subprocess.run(
        [*_REEF, "drill", "--json"],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.stdout, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    problems = [(row["name"], row["problem"]) for row in found["rows"] if row["problem"]]
    assert (done.returncode, problems) == (0, [])
    return found


def test_every_attack_is_tried_and_stopped_and_none_is_left_out(report: dict[str, Any]) -> None:
    tried = {row["name"]: row["verdict"] for row in report["rows"]}
    assert {attack.name for attack in catalogue()} < set(tried)
    assert set(tried.values()) == {"stopped"}
    assert (report["ok"], report["left_out"]) == (True, 0)
    assert report["ran"] == report["stopped"] == len(tried)


def test_every_stop_is_specific_and_every_row_shows_its_twin(report: dict[str, Any]) -> None:
    for row in report["rows"]:
        assert row["twin"], row["name"]
        assert row["seen"], row["name"]
        for seen in row["seen"]:
            assert seen["by"], row["name"]
            assert seen["code"], row["name"]
            assert (seen["event"] is None) == (seen["position"] is None), row["name"]


def test_what_is_served_stays_until_the_good_candidate_at_the_end(report: dict[str, Any]) -> None:
    *attacks, last = report["rows"]
    assert {row["serving"] for row in attacks} == {report["served_before"]}
    assert last["name"] == "a-good-candidate-gets-through"
    assert last["serving"] == report["served_after"] != report["served_before"]
