"""A worker whose key was revoked: it ends, and leaves its gate to one whose key counts."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import httpx
import pytest
import structlog

from reef_release.client import ReefClient
from reef_release.domain import events as ev
from reef_release.domain.reasons import Reason
from reef_release.errors import Unavailable
from reef_release.signing.keyring import PRIVATE_NAME, init_keys
from reef_release.signing.keys import Role, create_key
from tests.fakes import problem
from tests.unit.trainer.gate.conftest import Site
from trainer.gate import __main__ as program
from trainer.gate.worker import GateWorker, KeyDoesNotCount


def outcomes(site: Site, candidate: str) -> list[str | None]:
    gates = site.world.scenario.gates.values()
    return [gate.outcome for gate in gates if gate.opened.candidate_id == candidate]


def rotate(site: Site) -> None:
    """The next root lists another gate key, and the workers from now on sign with it."""
    world = site.world
    fresh = create_key(Role.GATE)
    world.keys[Role.GATE] = fresh
    text = world.root_text(world.keys, version=2)
    world.append(ev.RootRotated(version=2, metadata=text, reason="another gate key"))
    data = ev.KeyAdded(
        key_id=fresh.key_id, role="gate", public_key=fresh.public.pem, root_version=2
    )
    world.append(data)


def test_a_worker_whose_key_was_revoked_stops_and_another_takes_the_gate_at_once(
    site: Site, candidate: str
) -> None:
    site.world.revoke_key(Role.GATE)
    with pytest.raises(KeyDoesNotCount, match="does not count as a gate key") as stopped:
        site.worker().run()
    assert "keys rotate" in str(stopped.value)
    assert site.gate.outcome is None
    assert site.service.count("/decision") == 1

    rotate(site)
    assert site.run("gate-2") == 2
    assert outcomes(site, candidate) == ["errored", "passed"]


def test_a_gate_that_cannot_be_given_back_still_ends_the_worker(site: Site, candidate: str) -> None:
    site.world.revoke_key(Role.GATE)

    def change(request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        gone = request.url.path.endswith("/release")
        return problem(404, "not-found") if gone else answer

    site.service.change = change
    with pytest.raises(KeyDoesNotCount):
        site.worker().run()


@pytest.mark.parametrize(("error", "status"), [(KeyDoesNotCount, 1), (Unavailable, 2)])
def test_the_program_ends_with_status_1_only_for_its_key(
    error: type[Exception],
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(_worker: GateWorker, *, once: bool) -> NoReturn:
        raise error(f"not {once}")

    monkeypatch.setattr(GateWorker, "run", run)
    monkeypatch.setattr(structlog, "configure", lambda **_given: None)  # It is every test's.
    key = init_keys(tmp_path / "keys").directory / "gate" / PRIVATE_NAME
    words = ["--url", "http://127.0.0.1:9", "--name", "gate-1", "--key", str(key)]
    monkeypatch.setattr(sys, "argv", ["gate", *words, "--models", str(tmp_path / "models")])
    assert program.main() == status
    assert "error: not False" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("once", "ended", "said"),
    [(True, 0, "No gate was due: "), (True, 1, "Ended 1 gate.\n"), (False, 1, "")],
)
def test_the_program_says_what_it_did_once(
    once: bool,
    ended: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    waiting = SimpleNamespace(
        candidate_id="ab" * 32, reasons=[Reason(code="too-few-workers", message="passed by 1 of 2")]
    )
    monkeypatch.setattr(ReefClient, "scenarios", lambda _client: [SimpleNamespace(name="homework")])
    monkeypatch.setattr(ReefClient, "candidates", lambda _client, _name, _status: [waiting])
    monkeypatch.setattr(GateWorker, "run", lambda _worker, *, once: ended)
    monkeypatch.setattr(structlog, "configure", lambda **_given: None)  # It is every test's.
    key = init_keys(tmp_path / "keys").directory / "gate" / PRIVATE_NAME
    words = ["--url", "http://127.0.0.1:9", "--name", "gate-1", "--key", str(key)]
    words += ["--models", str(tmp_path / "models"), *(["--once"] if once else [])]
    monkeypatch.setattr(sys, "argv", ["gate", *words])
    assert program.main() == 0
    out = capsys.readouterr().out
    assert out.startswith(said) if said else out == ""
    whom = "  homework: candidate abababababab is passed by 1 of 2\n"
    assert (whom in out) is (once and not ended)
