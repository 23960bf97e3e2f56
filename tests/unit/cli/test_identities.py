"""Ids typed short: one is meant, or the verb says why not."""

from __future__ import annotations

import pytest

from reef_release.cli.identities import whole_id
from reef_release.errors import BadRequest, NotFound

KNOWN = ["ab" * 32, "ac" * 32, "b0" * 32]


def test_the_beginning_of_one_id_stands_for_it() -> None:
    assert whole_id("ab", KNOWN, "release") == "ab" * 32
    assert whole_id("b", KNOWN, "release") == "b0" * 32
    assert whole_id("ab" * 32, KNOWN, "release") == "ab" * 32


def test_a_beginning_of_two_ids_stands_for_neither() -> None:
    with pytest.raises(BadRequest, match="2 ids of a release begin with 'a'") as caught:
        whole_id("a", KNOWN, "release")
    assert "more letters" in caught.value.next_step


@pytest.mark.parametrize("given", ["c", "b1", "AB", "ab" * 32 + "0"])
def test_a_beginning_of_none_is_not_found(given: str) -> None:
    with pytest.raises(NotFound):
        whole_id(given, KNOWN, "release")


def test_nothing_stands_for_nothing() -> None:
    with pytest.raises(BadRequest):
        whole_id("", ["ab" * 32], "release")
