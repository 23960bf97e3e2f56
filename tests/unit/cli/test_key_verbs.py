"""Keys, policies and nodes at the command line: what is wrong is said before anything is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from reef_release.cli.candidates import _signed_policy, _suite
from reef_release.cli.rotation import rotate, sign
from reef_release.domain.canonical import canonical_json, sha256_hex
from reef_release.errors import BadRequest, SettingsError
from reef_release.node.opening import floor_of
from reef_release.node.trusted import Memory
from reef_release.signing.keyring import init_keys
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
