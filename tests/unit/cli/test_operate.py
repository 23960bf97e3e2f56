"""The operator's levers and checks, against answers as the service gives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from reef_release.cli import development, operate
from reef_release.cli.app import app
from reef_release.cli.output import fail
from reef_release.client import ReefClient
from reef_release.domain.canonical import canonical_json
from reef_release.errors import Forbidden, NotFound, ReefError, Unauthorized
from tests.fakes import problem

RELEASES = ["ab" * 32, "cd" * 32]
TASK = {"id": "t1", "question": "What is 1 plus 1?", "answer": "2"}


def release(release_id: str) -> dict[str, Any]:
    return {
        "release_id": release_id,
        "channel": "stable",
        "gate_id": "g",
        "bundle": "00" * 32,
        "canary": None,
        "files": [],
        "signed_position": 1,
        "promoted_position": 2,
        "revoked": False,
    }


def scenario() -> dict[str, Any]:
    return {
        "name": "homework",
        "schema": "00" * 32,
        "policy_digest": "00" * 32,
        "policy": {},
        "held_reason": None,
        "channels": {},
        "gates": [],
        "nodes": [],
        "position": 5,
    }


def answer(request: httpx.Request) -> httpx.Response:
    """A service with the scenario `homework` and two releases, and no suite that one may read."""
    path = request.url.path
    if path.endswith("/releases"):
        return httpx.Response(200, json={"releases": [release(each) for each in RELEASES]})
    if request.method == "POST":
        return httpx.Response(201, json={"position": 7, "event_id": "e"})
    if path == "/reef/scenarios/homework":
        return httpx.Response(200, json=scenario())
    if path == "/reef/events":
        return httpx.Response(200, json={"events": [], "next_after": 5, "head": 5})
    return problem(404, "not-found", "There is no scenario 'homwork'.")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[httpx.Request]:
    requests: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return answer(request)

    def connect(url: str, _token: Path | None) -> ReefClient:
        return ReefClient(url, transport=httpx.MockTransport(handle))

    for module in (development, operate):
        monkeypatch.setattr(module, "connect", connect)
    return requests


@pytest.mark.parametrize("verb", [("rollback",), ("revoke", "release")])
def test_a_lever_takes_the_short_id_that_status_shows(
    verb: tuple[str, ...], asked: list[httpx.Request]
) -> None:
    words = [*verb, RELEASES[1][:16], "--scenario", "homework", "--reason", "worse"]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0
    (posted,) = (request for request in asked if request.method == "POST")
    assert RELEASES[1] in posted.url.path + posted.content.decode()
    assert done.stdout.startswith("Recorded at position 7. ")
    assert RELEASES[1][:12] in done.stdout


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(
    ("verb", "said"),
    [("hold", "Promotions of homework are held until"), ("resume", "Promotions of homework go on")],
)
def test_a_lever_says_what_it_means_from_now_on(verb: str, said: str) -> None:
    words = [verb, "--scenario", "homework", "--reason", "a complaint"]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert said in done.stdout


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    path = tmp_path / "development.jsonl"
    path.write_bytes(canonical_json(TASK) + b"\n")
    return path


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(
    ("name", "said"), [("homwork", "no scenario 'homwork'"), ("homework", "names a suite")]
)
def test_tasks_are_compared_with_nothing_only_by_an_error(
    name: str, said: str, tasks: Path
) -> None:
    with pytest.raises(NotFound, match=said):
        CliRunner().invoke(
            app,
            ["scenario", "check-development", str(tasks), "--scenario", name],
            catch_exceptions=False,
        )


def test_a_long_list_of_shared_tasks_is_cut() -> None:
    assert development._some([str(n) for n in range(20)]).endswith(", 19")
    assert "19 and 5 more" in development._some([str(n) for n in range(25)])


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("error", [Unauthorized("No."), Forbidden("No.", next_step="Ask.")])
def test_whoever_is_refused_for_a_token_is_told_where_it_is_read_from(
    error: ReefError, as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        fail(error, as_json=as_json)
    captured = capsys.readouterr()
    said = captured.out if as_json else captured.err
    assert "--token-file, else from REEF_TOKEN" in said
    if error.next_step:
        assert said.index("REEF_TOKEN") < said.index(error.next_step)
    with pytest.raises(SystemExit):
        fail(NotFound("No."), as_json=as_json)
    captured = capsys.readouterr()
    assert "REEF_TOKEN" not in captured.out + captured.err
