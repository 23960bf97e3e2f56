"""The second checker as somebody meets it who has an export, a trust root and no help.

Whatever it is given, it answers in words and with an exit status, does a bounded amount of work,
and reads nothing outside the export.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from reef_release.audit import export
from reef_release.domain import events as ev
from reef_release.signing.keys import Role, create_key
from reef_release.verifiers.registry import verdict
from tests.unit.audit.check_export import TOOLS, load_checker
from tests.unit.audit.conftest import Story
from tests.unit.audit.tampering import Tampered
from tests.unit.audit.test_since import Parts
from tests.world import World, WorldSource

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def root(tmp_path: Path, story: Story) -> Path:
    path = tmp_path / "root.json"
    path.write_text(story.anchor, "utf-8")
    return path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the checker; its exit status and all that it printed."""

    def run(*arguments: object) -> tuple[int, str]:
        try:
            status = load_checker().main([str(each) for each in arguments])
        except SystemExit as stop:
            status = stop.code
        printed = capsys.readouterr()
        return status, printed.out + printed.err

    return run


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    return Parts(tmp_path)


def problems(run: Run, *arguments: object) -> list[dict[str, Any]]:
    status, printed = run(*arguments, "--json")
    found: list[dict[str, Any]] = json.loads(printed)["problems"]
    assert status == (1 if found else 0)
    return found


# What it is


def test_it_is_one_file_of_at_most_400_lines_that_imports_nothing_of_ours() -> None:
    (file,) = TOOLS.rglob("*.py")
    text = file.read_text("utf-8")
    assert file.name == "check_export.py"
    assert len(text.split("\n")) - 1 <= 400
    assert max(map(len, text.split("\n"))) <= 100
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names.add(str(node.module).partition(".")[0])
    assert names - set(sys.stdlib_module_names) == {"cryptography"}


def test_the_file_runs_alone(story: Story, root: Path, tmp_path: Path) -> None:
    shutil.copy(TOOLS / "check_export.py", tmp_path)
    command = [sys.executable, "-E", "-s", str(tmp_path / "check_export.py")]
    command += [str(story.folder), "--root", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"events: {len(story.world.bodies)}" in done.stdout


@pytest.mark.parametrize("answer", ["18", "12"])
def test_where_it_judges_a_reply_it_judges_as_ours(answer: str) -> None:
    directory = Path(__file__).parents[1] / "verifiers"
    replies = {
        node.value
        for path in sorted(directory.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    judge = load_checker().Replay.judge
    said = {
        reply: own
        for reply in replies
        if (own := judge(None, reply, {"answer": answer, "question": reply}))
    }
    assert len(said) > 5
    for reply, own in said.items():
        ours = verdict(sorted(own), reply, answer).checks
        assert own == {name: check.passed for name, check in ours.items()}, reply


# How it is called


def test_help_says_what_each_exit_status_means(run: Run) -> None:
    status, printed = run("--help")
    assert status == 0
    assert "usage: check_export.py" in printed
    assert "Exit status: 0 good, 1 problems, 2 it was not checked." in " ".join(printed.split())


def test_a_call_that_cannot_be_answered_says_why_and_ends_with_two(
    run: Run, story: Story, root: Path, tmp_path: Path
) -> None:
    broken, empty = tmp_path / "broken.json", tmp_path / "empty.json"
    broken.write_bytes(b"\xff\xfe")
    empty.write_text("{}", "utf-8")
    calls: list[tuple[Sequence[object], str]] = [
        ([], "the following arguments are required: export, --root"),
        ([story.folder], "the following arguments are required: --root"),
        (
            [tmp_path / "nothing", "--root", root],
            "No such file or directory",
        ),
        ([story.folder, "--root", tmp_path / "no.json"], "No such file or directory"),
        ([story.folder, "--root", tmp_path], "Is a directory"),
        ([story.folder, "--root", broken], "can't decode"),
        ([story.folder, "--root", empty], "give the folder of an export, and root.json"),
    ]
    for arguments, words in calls:
        status, printed = run(*arguments)
        assert status == 2
        assert words in " ".join(printed.split())
        assert printed.startswith("usage: ")


# What it says


def test_a_good_result_says_what_it_rests_on(run: Run, story: Story, root: Path) -> None:
    status, printed = run(story.folder, "--root", root)
    assert status == 0
    digest = load_checker().sha(story.anchor.encode()).hex()
    assert f"trust_anchor: {digest}" in printed
    assert "judged answer@1" in printed


def test_the_same_stands_in_the_json(run: Run, story: Story, root: Path) -> None:
    status, printed = run(story.folder, "--root", root, "--json")
    result = json.loads(printed)
    assert status == 0
    assert result["events"] == len(story.world.bodies)
    assert (result["problems"], len(result["promotions"])) == ([], 3)
    assert result["counts"]["judged answer@1"] > 10


def test_a_problem_is_told_by_position_type_and_what_was_expected_and_found(
    run: Run, tampered: Tampered, root: Path
) -> None:
    position = tampered.position_of("gate.opened")
    right = tampered.events()[position]["data"]["seed"]
    tampered.edit_data(position, seed="ab" * 32)
    tampered.resign()
    status, printed = run(tampered.path, "--root", root)
    first = next(line for line in printed.splitlines() if line.startswith("position"))
    assert status == 1
    found = "ab" * 32
    said = f'seed: expected "{right}", found "{found}"'
    assert first == f"position {position}, gate.opened: {said}"
    assert "need(" not in printed


def test_a_missing_field_is_told_by_its_name(run: Run, tampered: Tampered, root: Path) -> None:
    position = tampered.position_of("gate.trial", 0)
    events = tampered.events()
    del events[position]["data"]["verdict"]
    tampered.write_events(events)
    tampered.resign()
    (first, *_) = problems(run, tampered.path, "--root", root)
    assert first["problem"] == "expected a field verdict, found none"


def test_what_an_export_says_cannot_steer_a_terminal(
    run: Run, tampered: Tampered, root: Path
) -> None:
    (tampered.path / "\x1b[2Jgood\u202e").symlink_to(root)
    _, printed = run(tampered.path, "--root", root)
    assert "\\x1b[2Jgood\\u202e" in printed
    assert all(each.isprintable() for each in printed.replace("\n", ""))


def test_a_reply_that_is_not_plain_is_counted_by_verifier(
    run: Run, world: World, tmp_path: Path, root: Path
) -> None:
    gate = world.open_gate(world.admitted())
    task = world.gate_of(gate).tasks[0]
    reply = f"Let me think aloud, dear reader: it must be that the answer is {task.answer}."
    body = world.put_trial(world.trial_body(gate, "+", reply=reply))
    world.append(world.trial(gate, "+", body=body))
    folder = tmp_path / "export"
    export(WorldSource(world), folder)
    root.write_text(world.anchor, "utf-8")
    status, printed = run(folder, "--root", root)
    assert status == 0
    assert "unjudged answer@1': 1" in printed


def test_a_part_of_an_export_is_refused_with_what_is_wanted(
    run: Run, parts: Parts, root: Path
) -> None:
    root.write_text(parts.world.anchor, "utf-8")
    assert problems(run, parts.whole, "--root", root) == []
    (problem,) = problems(run, parts.folders[1], "--root", root)
    assert "it is whole, as made by: reef-release audit export FOLDER" in problem["problem"]


# Files that are none, or too large


@pytest.mark.parametrize("place", ["blobs", "events", "checkpoint", "manifest"])
@pytest.mark.parametrize("kind", ["pipe", "directory", "link"])
def test_it_reads_regular_files_alone(
    run: Run, story: Story, root: Path, tmp_path: Path, kind: str, place: str
) -> None:
    folder = shutil.copytree(story.folder, tmp_path / "export")
    odd = {
        "blobs": folder / "blobs" / ("0" * 64),
        "events": next((folder / "events").iterdir()),
        "checkpoint": folder / "checkpoint",
        "manifest": folder / "manifest.json",
    }[place]
    odd.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(odd)
    elif kind == "directory":
        odd.mkdir()
        (odd / "file").touch()
    else:
        odd.symlink_to("/dev/zero")
    assert problems(run, folder, "--root", root)


@pytest.mark.parametrize("place", ["blobs", "events", "trust"])
def test_it_follows_no_linked_folder(
    run: Run, story: Story, root: Path, tmp_path: Path, place: str
) -> None:
    folder = shutil.copytree(story.folder, tmp_path / "export")
    shutil.rmtree(folder / place)
    (folder / place).symlink_to(story.folder / place)
    found = problems(run, folder, "--root", root)
    assert place in {each["place"] for each in found}


def test_it_takes_a_checkpoint_byte_by_byte(run: Run, tampered: Tampered, root: Path) -> None:
    note = tampered.path / "checkpoint"
    note.write_bytes(note.read_bytes().replace(b"\n", b"\r\n"))
    assert problems(run, tampered.path, "--root", root)


@pytest.mark.parametrize("data", [b"", b"\xff\x00", b"[[[[", b"null", b"[" * 100_000])
@pytest.mark.parametrize("place", ["manifest.json", "checkpoint", "events", "trial"])
def test_files_that_are_not_what_they_should_be_are_problems(
    run: Run, tampered: Tampered, root: Path, place: str, data: bytes
) -> None:
    if place == "events":
        (path,) = (tampered.path / "events").iterdir()
    elif place == "trial":
        trial = tampered.events()[tampered.position_of("gate.trial", 0)]
        path = tampered.blob(trial["data"]["body"])
    else:
        path = tampered.path / place
    path.write_bytes(data)
    assert problems(run, tampered.path, "--root", root)


@pytest.mark.parametrize("place", ["manifest.json", "checkpoint", "events"])
def test_a_huge_sparse_file_is_never_read(
    run: Run, tampered: Tampered, root: Path, place: str
) -> None:
    events = next((tampered.path / "events").iterdir())
    os.truncate(events if place == "events" else tampered.path / place, 1 << 40)
    assert problems(run, tampered.path, "--root", root)


def test_weights_are_hashed_and_never_read_as_a_whole(
    run: Run, tampered: Tampered, story: Story, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = story.world.scenario.candidates[story.r1].submitted.files
    weights = {each.sha256 for each in files if each.path.endswith(".safetensors")}
    replay = load_checker().Replay
    read, names = replay.read, list[str]()

    def reading(self: Any, folder: str, name: str) -> Any:
        names.append(name)
        return read(self, folder, name)

    monkeypatch.setattr(replay, "read", reading)
    assert problems(run, tampered.path, "--root", root) == []
    assert not weights & {*names}
    tampered.blob(min(weights)).write_bytes(b"other weights")
    (problem,) = problems(run, tampered.path, "--root", root)
    assert problem["place"] == f"blobs/{min(weights)}"


# Work that somebody else can make it do


class Counted:
    """Counts how many signatures are verified; each asks first how ECDSA hashes."""

    def __init__(self, module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        ecdsa = module.ec.ECDSA

        def counted(*arguments: Any) -> Any:
            self.count += 1
            return ecdsa(*arguments)

        monkeypatch.setattr(module.ec, "ECDSA", counted)


def crowded_root(text: str, version: int, keys: int, times: int) -> str:
    """A root with so many keys more, and for each key so many signatures that are none."""
    document = json.loads(text)
    signed = document["signed"]
    signed["version"] = version
    key = next(iter(signed["keys"].values()))
    for number in range(keys):
        raw = create_key(Role.ROOT).public.ed25519_bytes().hex()
        signed["keys"][f"{number:064}"] = {**key, "keyval": {"public": raw}}
    names = [*signed["keys"]]
    document["signatures"] = [{"keyid": name, "sig": "00" * 64} for name in names * times]
    return json.dumps(document)


@pytest.mark.parametrize(("keys", "times"), [(0, 50), (60, 3), (90, 1)])
def test_a_root_that_nobody_signed_costs_a_bounded_number_of_signatures(
    run: Run,
    world: World,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    keys: int,
    times: int,
) -> None:
    text = crowded_root(world.anchor, 2, keys, times)
    folder = tmp_path / "export"
    export(WorldSource(world), folder)
    root.write_text(world.anchor, "utf-8")
    counted = Counted(load_checker(), monkeypatch)
    assert problems(run, folder, "--root", root) == []
    before, counted.count = counted.count, 0
    rotated = [
        world.append_raw(ev.RootRotated(version=2, metadata=text, reason="in a crowd"))
        for _ in range(10)
    ]
    export(WorldSource(world), tmp_path / "again")
    found = problems(run, tmp_path / "again", "--root", root)
    assert {each["position"] for each in found} == set(rotated)
    assert counted.count - before <= 10 * len(world.root_keys)


def test_a_note_and_an_envelope_cost_at_most_64_signatures(
    run: Run, tampered: Tampered, story: Story, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = tampered.note()
    line = note.splitlines()[-1]
    tampered.set_note(note + f"{line}\n" * 5000)
    position = tampered.position_of("gate.failed")
    attestation = tampered.events()[position]["data"]["attestation"]
    attestation["signatures"] *= 100
    tampered.edit_data(position, attestation=attestation)
    counted = Counted(load_checker(), monkeypatch)
    assert problems(run, tampered.path, "--root", root)
    signed = [event for event in tampered.events() if event["type"] != "gate.trial"]
    assert counted.count <= 64 * 2 + len(signed) + 2


def test_a_gate_by_a_checkpoint_that_is_none_is_told_in_words(
    run: Run, world: World, root: Path, tmp_path: Path
) -> None:
    position = world.append_raw(world.opening(world.admitted(), checkpoint_position=9999))
    export(WorldSource(world), tmp_path / "export")
    root.write_text(world.anchor, "utf-8")
    (problem,) = problems(run, tmp_path / "export", "--root", root)
    assert (problem["position"], problem["place"]) == (position, "gate.opened")
    assert problem["problem"].startswith("checkpoint position: expected ")
