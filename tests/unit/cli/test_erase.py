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
from reef_release.privacy_wire import ErasureRequest, ErasureView

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
