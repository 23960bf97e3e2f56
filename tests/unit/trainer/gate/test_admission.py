"""A candidate whose admission was forged: nobody signs for it, and it is not even loaded."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import structlog.testing

from tests.unit.trainer.gate.conftest import Site
from tests.world import safetensors

GOOD = {"config.json": b"{}", "model.safetensors": safetensors(9)}

FORGED: dict[str, tuple[Mapping[str, bytes], str]] = {
    "code": (GOOD | {"modeling_evil.py": b"import os"}, "code-file"),
    "a directory": (GOOD | {"sub/vocab.json": b"{}"}, "bad-path"),
    "auto_map": (
        GOOD | {"config.json": b'{"auto_map":{"AutoModel":"modeling_evil.Evil"}}'},
        "auto-map",
    ),
    "another configuration": (GOOD | {"config.json": b'{"layers":2}'}, "config-changed"),
    "NaN": (GOOD | {"model.safetensors": safetensors(9)[:-4] + b"\x00\x00\xc0\x7f"}, "non-finite"),
    "no weights": ({"config.json": b"{}"}, "missing-tensor"),
}


def forged(site: Site, contents: Mapping[str, bytes]) -> str:
    """An admission that never was: the log's rule cannot tell."""
    candidate = site.world.submit(contents)
    site.world.admit(candidate)
    site.world.checkpoint()
    return candidate


@pytest.mark.parametrize("name", FORGED)
def test_a_candidate_that_is_none_to_admit_ends_errored_unloaded(site: Site, name: str) -> None:
    contents, code = FORGED[name]
    candidate = forged(site, contents)
    with structlog.testing.capture_logs() as logs:
        assert site.run() == 2
    gates = [g for g in site.world.scenario.gates.values() if g.opened.candidate_id == candidate]
    assert [gate.outcome for gate in gates] == ["errored", "errored"]
    assert {trial.error for gate in gates for trial in gate.trials} == {"crashed"}
    assert candidate not in site.engines.loads
    assert site.world.serving != candidate
    assert any(code in entry["why"] for entry in logs if entry["event"] == "trial failed")


def test_no_file_is_downloaded_under_a_name_that_no_candidate_has(site: Site) -> None:
    candidate = forged(site, FORGED["code"][0])
    site.run()
    assert not (site.directory / "gate-1" / candidate).exists()


def test_the_honest_twin_is_admitted_and_passes(site: Site) -> None:
    candidate = forged(site, GOOD)
    assert site.run() == 1
    assert site.gate.outcome == "passed"
    assert candidate in site.engines.loads


def test_what_the_policy_allows_is_admitted(site: Site) -> None:
    site.world.change_policy(allowed_changes=["config"])
    forged(site, FORGED["another configuration"][0])
    assert site.run() == 1
    assert site.gate.outcome == "passed"


@pytest.mark.parametrize("damage", [b"rotten", None])
def test_a_file_that_rotted_on_disk_is_downloaded_again_and_no_fault_of_the_candidate(
    site: Site, damage: bytes | None
) -> None:
    candidate = forged(site, GOOD)
    weights = site.directory / "gate-1" / candidate / "model.safetensors"
    weights.parent.mkdir(parents=True)
    weights.write_bytes(damage or safetensors(8))
    assert site.run() == 1
    assert site.gate.outcome == "passed"
    assert weights.read_bytes() == GOOD["model.safetensors"]
