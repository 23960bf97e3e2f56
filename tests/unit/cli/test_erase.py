"""`erase`: nothing to erase is said in words, and what there never was ends with status 1."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from reef_release.cli import erase as verb
from reef_release.cli.app import app
from reef_release.errors import NotFound
from reef_release.privacy_wire import BodyView, ErasureRequest, ErasureView, TrainedView

TAG = ["erase", "--tag", "nope", "-s", "homework", "--reason", "why"]


def erase(monkeypatch: pytest.MonkeyPatch, answer: Any, *words: str) -> Result:
    client = SimpleNamespace(privacy=SimpleNamespace(erase=answer))
    monkeypatch.setattr(verb, "connect", lambda _url, _token: nullcontext(client))
    return CliRunner().invoke(app, [*TAG, *words])


def stranger(_scenario: str, request: ErasureRequest) -> ErasureView:
    raise NotFound(f"No call in 'homework' has the tag {request.tag!r}.")


def test_a_tag_that_nothing_has_is_told_and_ends_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    done = erase(monkeypatch, stranger)
    assert done.exit_code == 1
    assert "No call in 'homework' has the tag 'nope'." in done.stderr
    assert done.stdout == ""
    done = erase(monkeypatch, stranger, "--json")
    assert done.exit_code == 1
    assert '"error":"not-found"' in done.stdout


@pytest.mark.parametrize("words", [[], ["--dry-run"]])
def test_what_is_erased_already_is_said_to_be(
    monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    nothing = ErasureView(bodies=[], calls=0, remaining=0)
    done = erase(monkeypatch, lambda _scenario, _request: nothing, *words)
    assert done.exit_code == 0
    assert done.stdout == "Nothing is left to erase: what there was is erased already.\n"


def by_age(monkeypatch: pytest.MonkeyPatch, view: ErasureView, *words: str) -> str:
    client = SimpleNamespace(privacy=SimpleNamespace(erase=lambda _scenario, _request: view))
    monkeypatch.setattr(verb, "connect", lambda _url, _token: nullcontext(client))
    given = ["erase", "--older-than", "1m", "-s", "homework", "--reason", "why", *words]
    done = CliRunner().invoke(app, given, catch_exceptions=False)
    assert done.exit_code == 0
    return " ".join(done.stdout.split())


@pytest.mark.parametrize("words", [[], ["--dry-run"]])
def test_what_is_old_and_kept_is_told_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    view = ErasureView(bodies=[], calls=0, remaining=0, old_calls=52, open_calls=50, needed_calls=1)
    said = by_age(monkeypatch, view, *words)
    assert said.startswith(
        "Nothing that old can be erased: 50 calls are in sessions that are still open"
    )
    assert "1 call is in sessions that a judge, a batch or a trainer still needs." in said


def test_what_was_never_there_is_not_said_to_be_erased(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = ErasureView(bodies=[], calls=0, remaining=0)
    assert by_age(monkeypatch, nothing) == "There is nothing that old."
    erased = ErasureView(bodies=[], calls=0, remaining=0, old_calls=3)
    assert by_age(monkeypatch, erased).startswith("Nothing is left to erase")


@pytest.mark.parametrize("words", [[], ["--dry-run"]])
def test_the_releases_trained_on_it_are_named_last(
    monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    body = BodyView(scenario="homework", turn_id="t", kind="call", digest="ab" * 32, at="2026")
    trained = TrainedView(release_id="2a37b552" + "0" * 56, position=328)
    view = ErasureView(bodies=[body], calls=1, remaining=0, trained_into=[trained], old_calls=1)
    said = by_age(monkeypatch, view, *words)
    assert "Trained into: 2a37b5520000 (position 328); see `reef-release revoke`" in said
