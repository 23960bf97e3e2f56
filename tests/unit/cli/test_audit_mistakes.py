"""What is not given right to an audit is said first and alone: it is no sign of tampering."""

from __future__ import annotations

import json
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from reef_release.audit import export
from reef_release.cli import audit as verbs
from reef_release.cli.app import app
from reef_release.domain.canonical import canonical_json
from reef_release.errors import BadRequest, ReefError, SettingsError
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


def changed_manifest(home: Path, to: Path, **fields: Any) -> str:
    """A copy of the second export whose manifest says something else."""
    shutil.copytree(home / "two", to)
    manifest = json.loads((to / "manifest.json").read_bytes())
    manifest["since"].update(fields)
    manifest.update({name: value for name, value in fields.items() if name == "origin"})
    (to / "manifest.json").write_bytes(canonical_json(manifest))
    return str(to)


@pytest.mark.parametrize("verb", ["verify", "replay"])
def test_exports_that_do_not_follow_one_another_are_no_tampering(
    home: Path, tmp_path: Path, verb: str
) -> None:
    later = changed_manifest(home, tmp_path / "later", size=99)
    other = changed_manifest(home, tmp_path / "other", origin="another/log")
    (tmp_path / "nothing").mkdir()
    for words, why, what in (
        (("one", "--since", "one"), "is a whole export", "without --since"),
        ((later, "--since", "one"), "goes on from an export of 99 events", "the oldest first"),
        ((other, "--since", "one"), "'another/log'", "exports of one log"),
        (("two", "--since", "two"), "goes on from an earlier export", "--since FOLDER"),
        ((str(tmp_path / "nothing"),), "is no export", "`audit export` wrote"),
        ((str(tmp_path / "nowhere"),), "is no export", "the folder of an export"),
        (("one", "--look-in", "nowhere"), "--look-in, is no folder", "leave --look-in out"),
        (("one", "--report", str(tmp_path)), "it is a folder", "Name a file"),
        (("one", "--report", "no/where.html"), "is not there", "Name a file"),
        (("one", "--earlier", "nowhere"), "cannot be read", "`checkpoint` of an export"),
    ):
        done = audit(home, verb, *words)
        assert isinstance(done.exception, ReefError), words
        assert why in done.exception.detail
        assert what in done.exception.next_step
        assert done.output == ""


def test_a_replay_ends_with_where_the_reasons_stand_unless_they_were_written(
    home: Path, tmp_path: Path
) -> None:
    said = audit(home, "replay", "one").output
    assert said.rstrip().splitlines()[-1].endswith("with --report FILE.html.")
    said = audit(home, "replay", "one", "--report", str(tmp_path / "page.html")).output
    assert "FILE.html" not in said


def test_weights_in_a_folder_that_is_not_there_are_not_taken_from_elsewhere(home: Path) -> None:
    done = audit(home, "replay", "one", "--weights", "nowhere")
    assert isinstance(done.exception, SettingsError)
    assert "--weights, is no folder" in str(done.exception)


def test_what_is_no_state_of_this_log_says_what_to_do(home: Path, tmp_path: Path) -> None:
    good = tmp_path / "good"
    assert audit(home, "verify", "one", "--state", str(good)).exit_code == 0
    text = good.read_bytes()
    bad = tmp_path / "bad"
    for data in (b"", b"garbage", b"[]", b"{}", b'{"sha256":"","state":{}}', text[:-9], b"\xff"):
        bad.write_bytes(data)
        done = audit(home, "verify", "two", "--state", str(bad))
        assert isinstance(done.exception, ReefError), data
        assert done.exception.next_step
        assert bad.read_bytes() == data
    for place in (tmp_path, tmp_path / "no" / "where"):
        done = audit(home, "verify", "one", "--state", str(place))
        assert isinstance(done.exception, SettingsError)
        assert "The state cannot" in str(done.exception)
    # The state of this very export, and no state of a whole one.
    done = audit(home, "verify", "one", "--state", str(good))
    assert isinstance(done.exception, BadRequest)
    assert "is a whole export" in str(done.exception)
    assert good.read_bytes() == text


def test_what_is_no_event_or_no_proof_says_what_to_do(home: Path, tmp_path: Path) -> None:
    junk = tmp_path / "junk"
    for data in (b"", b"junk\n", b"\xff\xfe", b"c2sp.org/tlog-proof@v1\nindex 0\n"):
        junk.write_bytes(data)
        done = audit(home, "event", str(junk), str(junk))
        assert done.exit_code == 1
        told = str(done.exception) if isinstance(done.exception, ReefError) else done.output
        assert "/reef/log/proof?position=N" in told, data
    for words in (("nowhere", str(junk)), (str(junk), "nowhere")):
        done = audit(home, "event", *words)
        assert isinstance(done.exception, SettingsError)
        assert done.exception.next_step


def test_a_bad_export_says_that_it_is_bad_and_what_to_do(home: Path, tmp_path: Path) -> None:
    for name, change in (
        ("checkpoint", lambda data: b"junk"),
        ("manifest.json", lambda data: b"junk"),
        ("events/000000000000.jsonl", lambda data: data[:-100]),
        ("events/000000000000.jsonl", lambda data: data[: data.index(b"\n") + 1]),
        ("events/000000000000.jsonl", lambda data: b"\x00\xff" + data),
    ):
        folder = tmp_path / "bad"
        shutil.copytree(home / "one", folder)
        (folder / name).write_bytes(change((folder / name).read_bytes()))
        for verb in ("verify", "replay"):
            done = audit(home, verb, str(folder))
            assert done.exit_code == 1
            assert done.exception is None or isinstance(done.exception, SystemExit)
            assert "Bad: " in done.output
            assert "Make another export; if it stays so, keep both" in done.output
            assert "Errno" not in done.output
        shutil.rmtree(folder)


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
