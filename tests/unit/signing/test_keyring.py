"""`init_keys`: a complete set of keys or nothing, never over another one."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reef_release.errors import SettingsError
from reef_release.signing import keyring
from reef_release.signing.keyring import init_keys
from reef_release.signing.keys import Role, load_key, load_public
from reef_release.signing.root import open_root

OTHERS = [role for role in Role if role is not Role.ROOT]


def listing(directory: Path) -> dict[str, int]:
    """Every path below *directory* with its mode."""
    return {
        str(path.relative_to(directory)): path.stat().st_mode & 0o777
        for path in directory.rglob("*")
    }


def test_every_role_has_its_own_closed_directory(tmp_path: Path) -> None:
    directory = tmp_path / "not" / "there" / "keys"
    made = init_keys(directory)
    expected = {"root": 0o700, "root.json": 0o644}
    for place in [*(role.value for role in OTHERS), "root/1", "root/2", "root/3"]:
        expected |= {place: 0o700, f"{place}/private.pem": 0o600, f"{place}/public.pem": 0o644}
    assert listing(directory) == expected
    assert made.directory == directory
    assert made.root_path == directory / "root.json"
    assert list(directory.parent.iterdir()) == [directory]


def test_the_keys_on_disk_are_those_of_the_root_and_of_the_summary(tmp_path: Path) -> None:
    expires = datetime(2030, 1, 1, tzinfo=UTC)
    made = init_keys(tmp_path / "keys", threshold=2, root_count=3, expires=expires)
    root = open_root(made.root_path.read_text())
    assert (root.version, root.threshold) == (made.version, made.threshold) == (1, 2)
    assert root.expires_at == "2030-01-01T00:00:00.000000Z"
    for role in OTHERS:
        key = load_key(made.directory / role.value / "private.pem", role)
        public = load_public(made.directory / role.value / "public.pem", role)
        assert root.keys_by_role[role] == (public,)
        assert key.public == public
        assert made.key_ids[role.value] == key.key_id
    numbered = {
        load_key(made.directory / "root" / name / "private.pem", Role.ROOT).key_id: name
        for name in ("1", "2", "3")
    }
    assert {key.key_id for key in root.keys_by_role[Role.ROOT]} == set(numbered)
    assert {made.key_ids[f"root/{name}"]: name for name in numbered.values()} == numbered


def test_an_empty_directory_is_filled(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    assert init_keys(tmp_path / "keys").root_path.exists()


def test_nothing_is_ever_overwritten(tmp_path: Path) -> None:
    init_keys(tmp_path / "keys")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}
    with pytest.raises(SettingsError, match="never overwritten"):
        init_keys(tmp_path / "keys")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()} == before


@pytest.mark.parametrize("kind", ["file", "directory with one file", "link to nowhere"])
def test_whatever_stands_there_already_stays(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "keys"
    match kind:
        case "file":
            place.write_text("precious")
        case "directory with one file":
            place.mkdir()
            (place / "precious").touch()
        case "link to nowhere":
            place.symlink_to(tmp_path / "nowhere" / "file")
            (tmp_path / "nowhere").write_text("not a directory")
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(SettingsError):
        init_keys(place)
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(("threshold", "root_count"), [(0, 3), (4, 3), (1, 0), (-1, -1)])
def test_a_threshold_that_does_not_fit_is_refused(
    threshold: int, root_count: int, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match="does not fit"):
        init_keys(tmp_path / "keys", threshold, root_count)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_in_the_middle_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_arguments: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(keyring, "create_root", fail)
    with pytest.raises(SettingsError, match="No space left"):
        init_keys(tmp_path / "keys")
    assert list(tmp_path.iterdir()) == []


def test_a_set_that_appears_meanwhile_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill = keyring._fill

    def slow(draft: Path, *arguments: object) -> dict[str, str]:
        (tmp_path / "keys").mkdir()
        (tmp_path / "keys" / "root.json").write_text("of another process")
        return fill(draft, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(keyring, "_fill", slow)
    with pytest.raises(SettingsError, match="never overwritten"):
        init_keys(tmp_path / "keys")
    assert (tmp_path / "keys" / "root.json").read_text() == "of another process"
    assert list(tmp_path.iterdir()) == [tmp_path / "keys"]
