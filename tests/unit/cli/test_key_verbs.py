"""Keys, policies and nodes at the command line: what is wrong is said before anything is done."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from reef_release.cli import output
from reef_release.cli.candidates import _signed_policy, _suite
from reef_release.cli.key_files import require_listed_role
from reef_release.cli.keys import show
from reef_release.cli.output import print_list
from reef_release.cli.rotation import rotate, sign
from reef_release.domain.canonical import canonical_json, sha256_hex
from reef_release.errors import BadRequest, SettingsError
from reef_release.node.opening import floor_of
from reef_release.node.trusted import Memory
from reef_release.signing.keyring import init_keys, new_key
from reef_release.signing.keys import Role, create_key, load_key, save_key
from reef_release.signing.policy import sign_policy


def test_a_wrong_root_is_refused_before_the_file_is_touched(tmp_path: Path) -> None:
    made = init_keys(tmp_path / "keys", threshold=2, root_count=3)
    second, third = tmp_path / "root-2.json", tmp_path / "root-3.json"
    rotate(root=made.root_path, out=second, days=30)
    for number in ("1", "2"):
        key = made.directory / "root" / number / "private.pem"
        sign(file=second, key=key, root=made.root_path)
    rotate(root=second, out=third, days=30)
    before = third.read_bytes()
    key = made.directory / "root" / "1" / "private.pem"
    with pytest.raises(BadRequest, match="does not follow directly"):
        sign(file=third, key=key, root=made.root_path)
    stranger = tmp_path / "stranger.pem"
    save_key(create_key(Role.ROOT), stranger)
    with pytest.raises(SettingsError, match="would not count"):
        sign(file=third, key=stranger, root=second)
    assert third.read_bytes() == before


def test_signing_twice_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = init_keys(tmp_path / "keys", threshold=2, root_count=3)
    second = tmp_path / "root-2.json"
    rotate(root=made.root_path, out=second, days=30)
    key = made.directory / "root" / "1" / "private.pem"
    sign(file=second, key=key, root=made.root_path)
    assert "had signed already" not in capsys.readouterr().out
    sign(file=second, key=key, root=made.root_path)
    assert "had signed already" in capsys.readouterr().out


def test_a_public_key_does_not_sign(tmp_path: Path) -> None:
    made = init_keys(tmp_path / "keys")
    public = made.directory / "gate" / "public.pem"
    with pytest.raises(SettingsError, match="holds a public key"):
        load_key(public, Role.GATE)


def test_an_unsigned_policy_and_another_suite_are_told_before_anything_is_sent(
    tmp_path: Path,
) -> None:
    suite = tmp_path / "suite.jsonl"
    suite.write_bytes(b"tasks")
    policy = canonical_json({"suite": sha256_hex(b"tasks")})
    (tmp_path / "policy.json").write_bytes(policy)
    with pytest.raises(SettingsError) as caught:
        _signed_policy(tmp_path / "policy.json")
    assert "Sign it first" in caught.value.next_step
    signed = sign_policy(policy, create_key(Role.POLICY))
    assert _suite(suite, signed) == b"tasks"
    suite.write_bytes(b"other tasks")
    with pytest.raises(SettingsError, match="the policy names the suite"):
        _suite(suite, signed)


def test_a_node_that_has_seen_nothing_gives_no_floor() -> None:
    with pytest.raises(SettingsError, match="not accepted any document"):
        floor_of(Memory(anchor="00" * 32, scenario="homework", channel="stable"))


def test_a_key_of_another_role_signs_no_policy(tmp_path: Path) -> None:
    made = init_keys(tmp_path / "keys")
    gate = made.directory / "gate" / "private.pem"
    elsewhere = tmp_path / "elsewhere"
    wrong = load_key(gate, Role.POLICY)
    for path, root, beside in (
        (gate, None, made.directory),
        (gate, None, elsewhere),
        (tmp_path / "moved.pem", made.root_path, elsewhere),
    ):
        with pytest.raises(SettingsError, match="holds a gate key"):
            require_listed_role(wrong, path, root, beside)
    right = load_key(made.directory / "policy" / "private.pem", Role.POLICY)
    require_listed_role(right, gate, None, made.directory)
    # One of a root to come, and one whose root is not here.
    require_listed_role(create_key(Role.POLICY), gate, None, made.directory)
    require_listed_role(wrong, tmp_path / "moved.pem", None, elsewhere)
    with pytest.raises(SettingsError, match="cannot be read"):
        require_listed_role(right, gate, tmp_path / "absent.json", made.directory)


def test_files_are_shown_beside_the_keys_that_they_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = init_keys(tmp_path / "keys")
    (made.directory / "odd").mkdir()
    (made.directory / "odd" / "public.pem").write_text("no key")
    show(directory=made.directory, as_json=True)
    rows = json.loads(capsys.readouterr().out)["keys"]
    files = {(role, path) for role, _, path in rows}
    assert ("gate", str(made.directory / "gate" / "public.pem")) in files
    assert ("root", str(made.directory / "root" / "2" / "public.pem")) in files
    assert len(rows) == len(made.key_ids)


@pytest.mark.parametrize("role", ["release", "pointer"])
def test_a_public_key_file_is_told_by_id_and_role(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], role: str
) -> None:
    made = init_keys(tmp_path / "keys")
    public = made.directory / role / "public.pem"
    show(file=public, directory=made.directory)
    told = capsys.readouterr().out.replace("\n", " ")
    assert made.key_ids[role] in told
    assert f"is a {role} key of the trust root" in told
    show(file=public, directory=tmp_path / "absent")
    assert "only a trust root tells" in capsys.readouterr().out.replace("\n", " ")
    new_key(Role.GATE, tmp_path / "new")
    show(file=tmp_path / "new" / "public.pem", directory=made.directory)
    assert "is not listed" in capsys.readouterr().out.replace("\n", " ")
    with pytest.raises(SettingsError, match="does not hold a public key"):
        show(file=made.directory / role / "private.pem", directory=made.directory)


def test_a_key_id_stands_whole_in_its_line_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = StringIO()
    monkeypatch.setattr(output, "console", Console(file=told, width=40))
    print_list("Keys", ["role", "key id", "file"], [["gate", "ab" * 32, "k"], ["log", "cd", ""]])
    assert told.getvalue().splitlines() == [
        "Keys",
        f"role  key id{' ' * 58}  file",
        f"gate  {'ab' * 32}  k",
        "log   cd",
    ]
