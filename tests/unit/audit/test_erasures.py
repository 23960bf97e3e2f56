"""Erased bodies in an audit: told, no problem, and found where a copy was kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from reef_release.audit import replay, verify
from reef_release.cli import app
from reef_release.domain import events as ev
from reef_release.domain.canonical import sha256_hex
from tests.calls import recorded
from tests.world import World

BODY = b"salted bytes of a call"
DIGEST = sha256_hex(BODY)
ERASED = ev.BodyErased(digest=DIGEST, kind="call", turn_id="a", reason="asked for")


@pytest.fixture
def erased(world: World) -> World:
    """A world with a release, and a call whose body was erased."""
    world.release()
    world.append(recorded("a", body=DIGEST))
    world.append(ERASED, actor="alice")
    return world


@pytest.mark.parametrize("audit", [verify, replay], ids=["verify", "replay"])
def test_an_erased_body_is_told_and_is_no_problem(
    erased: World, exported: Callable[[World], Path], audit: Callable[..., Any]
) -> None:
    report = audit(exported(erased), erased.anchor)
    assert report.good, report.problems
    assert (report.erasures.count, report.erasures.present) == (1, 0)
    assert report.erasures.reasons == {"asked for": 1}
    [body] = report.erasures.bodies
    assert (body.digest, body.kind, body.turn_id, body.actor) == (DIGEST, "call", "a", "alice")
    assert (body.position, body.present_in) == (erased.head, [])


@pytest.mark.parametrize("audit", [verify, replay], ids=["verify", "replay"])
@pytest.mark.parametrize("place", ["blobs/{0}", "blobs/{1}/{2}", "partial/{0}.0123456789abcdef"])
def test_a_body_that_an_older_folder_still_holds_is_told_with_its_file(
    erased: World,
    exported: Callable[[World], Path],
    audit: Callable[..., Any],
    place: str,
    tmp_path: Path,
) -> None:
    file = tmp_path / "older" / place.format(DIGEST, DIGEST[:2], DIGEST[2:])
    file.parent.mkdir(parents=True)
    file.write_bytes(BODY)
    report = audit(exported(erased), erased.anchor, kept=[tmp_path / "older"])
    assert report.good
    assert report.erasures.present == 1
    assert report.erasures.bodies[0].present_in == [str(file)]


@pytest.mark.parametrize("audit", [verify, replay], ids=["verify", "replay"])
def test_an_erased_body_in_the_export_itself_is_a_problem(
    erased: World, exported: Callable[[World], Path], audit: Callable[..., Any]
) -> None:
    folder = exported(erased)
    (folder / "blobs" / DIGEST).write_bytes(BODY)
    report = audit(folder, erased.anchor)
    assert {problem.code for problem in report.problems} == {"erased", "unlisted-file"}
    assert report.erasures.present == 1


@pytest.mark.parametrize("audit", [verify, replay], ids=["verify", "replay"])
def test_a_forged_erasure_of_a_gate_trial_erases_nothing_and_is_told(
    world: World, exported: Callable[[World], Path], audit: Callable[..., Any]
) -> None:
    world.release()
    gate = next(iter(world.scenario.gates.values()))
    trial = gate.trials[0].body or ""
    world.append(recorded("a", body=trial))
    forged = ev.BodyErased(digest=trial, kind="call", turn_id="a", reason="x")
    assert world.attack(forged) == ["kept"]
    folder = exported(world)
    report = audit(folder, world.anchor)
    assert [(problem.code, problem.position) for problem in report.problems] == [
        ("kept", world.head)
    ]
    assert report.erasures.count == 0
    (folder / "blobs" / trial).unlink()
    codes = {problem.code for problem in audit(folder, world.anchor).problems}
    assert "blob-missing" in codes


def test_the_command_line_says_what_was_erased(
    erased: World, exported: Callable[[World], Path], tmp_path: Path
) -> None:
    root = tmp_path / "root.json"
    root.write_text(erased.anchor)
    folder = exported(erased)
    for verb in ("verify", "replay"):
        done = CliRunner().invoke(app, ["audit", verb, str(folder), "--root", str(root)])
        assert done.exit_code == 0, done.output
        assert "Erased: 1 bodies ('asked for' 1)" in done.output
        assert DIGEST in done.output
