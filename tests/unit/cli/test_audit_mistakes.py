"""What is not given right to an audit is said first and alone: it is no sign of tampering."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from reef_release.audit import export
from reef_release.cli import audit as verbs
from reef_release.cli.app import app
from reef_release.errors import SettingsError
from tests.world import World, WorldSource


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log in two exports, and its trust root."""
    base = Path(tmp_path_factory.mktemp("audit"))
    world = World(base / "world")
    world.create_scenario()
    export(WorldSource(world), base / "one", include_weights=True)
    world.submit()
    world.checkpoint()
    export(WorldSource(world), base / "two", include_weights=True, since=[base / "one"])
    (base / "root.json").write_text(world.anchor, "utf-8")
    return base


def audit(home: Path, *words: str, root: str = "root.json") -> Result:
    given = [str(home / each) if each in ("one", "two") else each for each in words]
    return CliRunner().invoke(app, ["audit", *given, "--root", str(home / root)])


@pytest.mark.parametrize("verb", ["verify", "replay"])
def test_an_export_that_goes_on_says_first_and_alone_what_it_needs(home: Path, verb: str) -> None:
    done = audit(home, verb, "two")
    assert isinstance(done.exception, SettingsError)
    assert "goes on from an earlier export: it holds only the events" in str(done.exception)
    assert "--since FOLDER" in str(done.exception)
    assert done.output == ""
    assert audit(home, verb, "two", "--since", "one").exit_code == 0


def test_a_state_takes_the_place_of_the_earlier_export(home: Path, tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    assert isinstance(audit(home, "verify", "two", "--state", state).exception, SettingsError)
    assert audit(home, "verify", "one", "--state", state).exit_code == 0
    assert audit(home, "verify", "two", "--state", state).exit_code == 0


@pytest.mark.parametrize("verb", ["verify", "replay"])
@pytest.mark.parametrize("text", ["-----BEGIN PUBLIC KEY-----\n", "{}", '{"version": 1}', ""])
def test_what_is_no_trust_root_is_refused_at_once(home: Path, verb: str, text: str) -> None:
    (home / "public.pem").write_text(text, "utf-8")
    done = audit(home, verb, "one", root="public.pem")
    assert isinstance(done.exception, SettingsError)
    assert "public.pem is no trust root that can be used" in str(done.exception)
    assert "`root.json`" in str(done.exception)
    assert ".." not in str(done.exception)
    assert done.output == ""


def test_no_problem_ends_with_two_full_stops(home: Path, tmp_path: Path) -> None:
    (home / "other.json").write_text(World(tmp_path / "other").anchor, "utf-8")
    done = audit(home, "verify", "one", root="other.json")
    assert done.exit_code == 1
    assert "is not the anchor that this reader was given." in done.output
    assert ".." not in done.output


def test_an_export_says_which_events_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path / "world")
    monkeypatch.setattr(verbs, "connect", lambda _url, _token: nullcontext())
    monkeypatch.setattr(verbs, "ClientSource", lambda _client: WorldSource(world))
    one, two = str(tmp_path / "january"), str(tmp_path / "february")
    world.create_scenario()
    done = CliRunner().invoke(app, ["audit", "export", one])
    first = world.head + 1
    assert done.output == f"{first} events are in {one}.\n"
    world.submit()
    world.checkpoint()
    done = CliRunner().invoke(app, ["audit", "export", two, "--since", one])
    size = world.head + 1
    assert f"{size - first} events are in {two}, from position {first} on;" in done.output
    assert f"it goes on from {one}, and together they are the {size} of the log." in done.output
