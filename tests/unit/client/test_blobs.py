"""Files up and down: resumed where they stopped, limited, hashed, and whole or not there."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from reef_release.artifacts.errors import DigestMismatch
from reef_release.client import ReefClient
from reef_release.client.errors import BadAnswer
from reef_release.errors import Forbidden, Unavailable
from tests.fakes import NO_WAIT, problem

DATA = bytes(range(256)) * 5000
DIGEST = hashlib.sha256(DATA).hexdigest()


class Store:
    """The blob routes of a service; `cut` breaks every connection after so many bytes."""

    def __init__(self, cut: int | None = None) -> None:
        self.cut = cut
        self.blobs: dict[str, bytes] = {}
        self.partials: dict[str, bytes] = {}
        self.log: list[tuple[str, str]] = []

    def client(self) -> ReefClient:
        return ReefClient(
            "http://reef.test", retry=NO_WAIT, transport=httpx.MockTransport(self.handle)
        )

    def handle(self, request: httpx.Request) -> httpx.Response:
        digest = request.url.path.rpartition("/")[2]
        span = request.headers.get("content-range") or request.headers.get("range") or ""
        self.log.append((request.method, span))
        return getattr(self, request.method.lower())(request, digest)  # type: ignore[no-any-return]

    def head(self, _request: httpx.Request, digest: str) -> httpx.Response:
        if digest in self.blobs:
            return httpx.Response(200)
        offset = len(self.partials.get(digest, b""))
        return httpx.Response(404, headers={"upload-offset": str(offset)})

    def put(self, request: httpx.Request, digest: str) -> httpx.Response:
        match = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", request.headers["content-range"])
        assert match is not None
        start, last, total = map(int, match.groups())
        held = self.partials.get(digest, b"")
        if start != len(held):
            return problem(409, "offset-conflict", offset=len(held))
        body = request.read()
        assert len(body) == int(request.headers["content-length"]) == last + 1 - start
        self.partials[digest] = held + body[: self.cut]
        if self.cut is not None and len(body) > self.cut:
            raise httpx.WriteError("reset")
        if len(self.partials[digest]) < total:
            return httpx.Response(202)
        self.blobs[digest] = self.partials.pop(digest)
        return httpx.Response(201)

    def get(self, request: httpx.Request, digest: str) -> httpx.Response:
        data = self.blobs[digest]
        match = re.fullmatch(r"bytes=(\d+)-", request.headers.get("range", ""))
        start = int(match[1]) if match else 0
        headers = {"content-range": f"bytes {start}-{len(data) - 1}/{len(data)}"} if match else {}
        return httpx.Response(
            206 if match else 200, headers=headers, content=self._flow(data[start:])
        )

    def _flow(self, data: bytes) -> Iterator[bytes]:
        yield data[: self.cut]
        if self.cut is not None and len(data) > self.cut:
            raise httpx.ReadError("reset")


# Up


def test_a_blob_is_uploaded_once() -> None:
    store = Store()
    client = store.client()
    assert client.put_blob(DATA) == DIGEST
    assert store.blobs == {DIGEST: DATA}
    client.put_blob(DATA)
    assert [method for method, _ in store.log] == ["HEAD", "PUT", "HEAD"]


def test_an_upload_that_breaks_off_goes_on_where_it_stopped() -> None:
    store = Store(cut=500_000)
    store.client().put_blob(DATA)
    assert store.blobs == {DIGEST: DATA}
    sent = [span for method, span in store.log if method == "PUT"]
    assert sent == [
        "bytes 0-1279999/1280000",
        "bytes 500000-1279999/1280000",
        "bytes 1000000-1279999/1280000",
    ]


def test_an_upload_goes_on_after_the_client_was_restarted() -> None:
    store = Store()
    store.partials[DIGEST] = DATA[:1_200_000]
    store.client().put_blob(DATA)
    assert store.log[-1] == ("PUT", "bytes 1200000-1279999/1280000")


def test_an_upload_at_the_wrong_place_is_told_the_right_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = Store()
    store.partials[DIGEST] = DATA[:700]
    monkeypatch.setattr(
        store, "head", lambda *_: httpx.Response(404, headers={"upload-offset": "0"})
    )
    store.client().put_blob(DATA)
    assert store.blobs == {DIGEST: DATA}


def test_an_upload_without_progress_ends() -> None:
    store = Store(cut=0)
    with pytest.raises(Unavailable):
        store.client().put_blob(DATA)


def test_a_refused_upload_is_not_repeated() -> None:
    store = Store()
    store.put = lambda *_: problem(403, "forbidden")  # type: ignore[method-assign]
    with pytest.raises(Forbidden):
        store.client().put_blob(DATA)
    assert len(store.log) == 2


def test_an_empty_blob_is_a_blob() -> None:
    puts = []

    def handle(request: httpx.Request) -> httpx.Response:
        if request.method == "HEAD":
            return httpx.Response(404)
        puts.append((request.headers.get("content-range"), request.read()))
        return httpx.Response(201)

    client = ReefClient("http://reef.test", transport=httpx.MockTransport(handle))
    client.put_blob(b"")
    assert puts == [(None, b"")]


def test_a_directory_is_uploaded_as_the_entries_of_a_manifest(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b"{}")
    (tmp_path / "model.safetensors").write_bytes(DATA)
    store = Store(cut=900_000)
    entries = store.client().upload_directory(tmp_path)
    assert [(each.path, each.size_bytes) for each in entries] == [
        ("config.json", 2),
        ("model.safetensors", len(DATA)),
    ]
    assert {each.sha256 for each in entries} == set(store.blobs)


# Down


@pytest.fixture
def stored() -> Store:
    store = Store()
    store.blobs[DIGEST] = DATA
    return store


def test_a_download_is_whole_private_and_verified(stored: Store, tmp_path: Path) -> None:
    target = tmp_path / "file"
    stored.client().download_blob(DIGEST, len(DATA), target)
    assert target.read_bytes() == DATA
    assert target.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["file"]


def test_a_download_that_breaks_off_goes_on_where_it_stopped(stored: Store, tmp_path: Path) -> None:
    stored.cut = 500_000
    stored.client().download_blob(DIGEST, len(DATA), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == DATA
    assert stored.log == [("GET", ""), ("GET", "bytes=500000-"), ("GET", "bytes=1000000-")]


def test_a_download_goes_on_after_a_restart(stored: Store, tmp_path: Path) -> None:
    (tmp_path / "file.partial").write_bytes(DATA[:1000])
    stored.client().download_blob(DIGEST, len(DATA), tmp_path / "file")
    assert stored.log == [("GET", "bytes=1000-")]
    assert (tmp_path / "file").read_bytes() == DATA


def test_a_service_without_ranges_starts_again(stored: Store, tmp_path: Path) -> None:
    (tmp_path / "file.partial").write_bytes(b"y" * 1000)
    stored.get = lambda *_: httpx.Response(200, content=DATA)  # type: ignore[method-assign]
    stored.client().download_blob(DIGEST, len(DATA), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == DATA


@pytest.mark.parametrize("start", [b"y" * 1000, b"y" * 2_000_000])
def test_a_partial_of_another_file_is_thrown_away(
    stored: Store, tmp_path: Path, start: bytes
) -> None:
    target, partial = tmp_path / "file", tmp_path / "file.partial"
    partial.write_bytes(start)
    if len(start) < len(DATA):
        with pytest.raises(DigestMismatch):
            stored.client().download_blob(DIGEST, len(DATA), target)
        assert os.listdir(tmp_path) == []
    stored.client().download_blob(DIGEST, len(DATA), target)
    assert target.read_bytes() == DATA


@pytest.mark.parametrize(
    "span",
    ["bytes 0-1279999/1280000", "bytes 1000-1279998/1280000", "bytes 1000-1279999/1280001", ""],
)
def test_a_range_that_was_not_asked_for_is_refused(
    stored: Store, tmp_path: Path, span: str
) -> None:
    (tmp_path / "file.partial").write_bytes(DATA[:1000])
    stored.get = (
        lambda *_: httpx.Response(  # type: ignore[method-assign]
            206, headers={"content-range": span}, content=DATA[1000:]
        )
    )
    with pytest.raises(BadAnswer):
        stored.client().download_blob(DIGEST, len(DATA), tmp_path / "file")
    assert os.listdir(tmp_path) == []


def test_a_longer_file_is_given_up_at_once(stored: Store, tmp_path: Path) -> None:
    stored.get = lambda *_: httpx.Response(200, content=DATA + b"!")  # type: ignore[method-assign]
    with pytest.raises(BadAnswer, match="longer than"):
        stored.client().download_blob(DIGEST, len(DATA), tmp_path / "file")
    assert os.listdir(tmp_path) == []


def test_a_download_without_progress_ends_and_keeps_what_it_has(
    stored: Store, tmp_path: Path
) -> None:
    (tmp_path / "file.partial").write_bytes(DATA[:1000])
    stored.cut = 0
    with pytest.raises(Unavailable):
        stored.client().download_blob(DIGEST, len(DATA), tmp_path / "file")
    assert len(stored.log) == NO_WAIT.attempts
    stored.cut = None
    stored.client().download_blob(DIGEST, len(DATA), tmp_path / "file")
    assert stored.log[-1] == ("GET", "bytes=1000-")


def test_a_slow_download_is_given_up_by_its_rate(
    stored: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("reef_release.client.blobs.time.monotonic", lambda: now[0])

    def drip() -> Iterator[bytes]:
        for start in range(0, len(DATA), 1000):
            now[0] += 10.0
            yield DATA[start : start + 1000]

    stored.get = lambda *_: httpx.Response(200, content=drip())  # type: ignore[method-assign]
    with pytest.raises(Unavailable, match="too slowly"):
        stored.client().download_blob(DIGEST, len(DATA), tmp_path / "file")
    assert (tmp_path / "file.partial").stat().st_size < 10_000


def test_a_link_in_the_place_of_the_partial_is_not_followed(stored: Store, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "file.partial").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic link"):
        stored.client().download_blob(DIGEST, len(DATA), tmp_path / "file")
    assert victim.read_bytes() == b"precious"


def test_a_small_blob_is_hashed_in_memory(stored: Store) -> None:
    client = stored.client()
    assert client.read_blob(DIGEST, len(DATA)) == DATA
    stored.blobs[DIGEST] = DATA[:-1] + b"!"
    with pytest.raises(DigestMismatch):
        client.read_blob(DIGEST, len(DATA))
    with pytest.raises(BadAnswer):
        client.read_blob(DIGEST, len(DATA) - 1)
