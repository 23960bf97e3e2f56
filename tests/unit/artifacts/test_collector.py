"""What `candidate submit DIR` and `scenario create --schema DIR` refuse to send anywhere."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from reef_release.artifacts.blobs import CHUNK_BYTES
from reef_release.artifacts.collector import collect
from reef_release.artifacts.schema import model_schema
from reef_release.artifacts.spoiling import Files
from reef_release.errors import BadRequest, Refused


@pytest.fixture
def directory(tmp_path: Path, model: Files) -> Path:
    path = tmp_path / "model"
    path.mkdir()
    for name, content in model.items():
        (path / name).write_bytes(content)
    return path


def refusals(directory: Path) -> set[tuple[str, str]]:
    with pytest.raises(Refused, match="cannot be part of a candidate") as caught:
        collect(directory)
    return {(reason.code, reason.where) for reason in caught.value.reasons}


def test_plain_files_are_listed_by_name_with_length_and_digest(
    directory: Path, model: Files
) -> None:
    files = collect(directory)
    assert [file.path for file in files] == sorted(model)
    for file in files:
        assert file.sha256 == hashlib.sha256(model[file.path]).hexdigest()
        assert file.size_bytes == len(model[file.path])
        assert b"".join(file.chunks()) == model[file.path]
        assert (file.entry.path, file.entry.sha256) == (file.path, file.sha256)


def link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def link_within(path: Path) -> None:
    path.symlink_to("config.json")


def dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


def hard_link(path: Path) -> None:
    other = path.parent.parent / "elsewhere"
    other.write_bytes(b"{}")
    os.link(other, path)


def bind_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's path has to be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)
    os.chdir(here)


@pytest.mark.parametrize(
    ("put", "code"),
    [
        (link, "symlink"),
        (link_within, "symlink"),
        (dangling_link, "symlink"),
        (hard_link, "hard-link"),
        (os.mkfifo, "special-file"),
        (bind_socket, "special-file"),
        (Path.mkdir, "directory"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_name_that_stands_for_no_plain_file_is_refused(
    directory: Path, put: Callable[[Path], None], code: str
) -> None:
    collect(directory)
    put(directory / "extra.json")
    assert refusals(directory) == {(code, "extra.json")}


def test_a_hard_link_between_two_files_of_the_candidate_is_refused_too(directory: Path) -> None:
    os.link(directory / "config.json", directory / "copy.json")
    assert refusals(directory) == {("hard-link", "config.json"), ("hard-link", "copy.json")}


def test_all_reasons_are_given_at_once(directory: Path) -> None:
    link(directory / "link.json")
    os.mkfifo(directory / "pipe")
    (directory / "Config.json").write_bytes(b"{}")
    (directory / "a b").write_bytes(b"")
    assert {code for code, _ in refusals(directory)} == {
        "symlink",
        "special-file",
        "name-collision",
        "bad-path",
    }


@pytest.mark.parametrize("name", ["config.json", "cafe.md", "CAFE.MD"])
def test_names_that_differ_only_by_case_or_unicode_form_are_refused(
    directory: Path, name: str
) -> None:
    twin = {"config.json": "CONFIG.json", "cafe.md": "\uff43afe.md", "CAFE.MD": "cafe.md"}[name]
    for each in (name, twin):
        (directory / each).write_bytes(b"{}")
    assert "name-collision" in {code for code, _ in refusals(directory)}


@pytest.mark.parametrize(
    "name",
    [
        ".hidden",
        "trailing.",
        "back\\slash",
        "new\nline",
        "bell\a",
        "zero\u200bwidth",
        "right\u202eleft",
        "cafe\u0301",
        "café",
        "a b",
        "-rf",
        "x" * 129,
        b"\xff.json",
    ],
)
def test_names_that_read_otherwise_elsewhere_are_refused(
    directory: Path, name: str | bytes
) -> None:
    with open(os.path.join(os.fsencode(directory), os.fsencode(name)), "wb"):
        pass
    [(code, where)] = refusals(directory)
    assert code == "bad-path"
    assert where.isprintable()


def test_a_file_that_changes_between_hash_and_upload_is_not_sent_whole(directory: Path) -> None:
    (directory / "README.md").write_bytes(bytes(3 * CHUNK_BYTES))
    [file] = [file for file in collect(directory) if file.path == "README.md"]
    (directory / "README.md").write_bytes(bytes(3 * CHUNK_BYTES - 1) + b"!")
    received = []

    def receive() -> None:
        received.extend(file.chunks())

    with pytest.raises(Refused, match="file-changed"):
        receive()
    assert len(b"".join(received)) < 3 * CHUNK_BYTES


def test_a_link_put_in_the_place_of_a_file_is_not_followed_by_the_upload(
    directory: Path,
) -> None:
    [file] = [file for file in collect(directory) if file.path == "config.json"]
    (directory / "config.json").unlink()
    (directory / "config.json").symlink_to("/etc/passwd")
    with pytest.raises(Refused, match="symlink"):
        list(file.chunks())


def test_a_file_that_is_swapped_between_look_and_open_is_noticed(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = directory.parent / "other"
    other.write_bytes(b"{}")
    real = os.open

    def swapping(path: object, flags: int, *rest: int) -> int:
        if str(path).endswith("/config.json"):
            os.replace(other, directory / "config.json")
        return real(path, flags, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", swapping)
    assert refusals(directory) == {("file-changed", "config.json")}


def test_what_is_no_directory_cannot_be_collected(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file", tmp_path / "nowhere"):
        with pytest.raises(BadRequest, match="cannot be listed"):
            collect(path)


def test_a_schema_is_made_of_collected_files_only(directory: Path) -> None:
    assert model_schema(directory)["tensors"]
    link(directory / "link.json")
    with pytest.raises(Refused, match="symlink"):
        model_schema(directory)
