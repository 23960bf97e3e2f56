"""Which attacks there are: one for every known row, and every bad candidate among them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reef_release.artifacts.bad_candidates import BAD_CANDIDATES
from reef_release.drill.catalogue import catalogue, chosen
from reef_release.errors import BadRequest

ROWS = 62
_ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+?) \|$", re.MULTILINE)


def test_every_row_has_an_attack_and_no_attack_has_another_row() -> None:
    rows = {row for attack in catalogue() for row in attack.rows}
    assert rows == set(range(1, ROWS + 1))


def test_the_rows_are_those_of_the_list_of_known_attacks(repository: Path) -> None:
    known = repository.parent / "shared" / "cases" / "attacks.md"
    if not known.exists():
        pytest.skip("the list of known attacks does not lie beside this checkout")
    listed = {int(number): attempt for number, attempt, _ in _ROW.findall(known.read_text("utf-8"))}
    attacks = catalogue()
    missing = {
        number: attempt
        for number, attempt in listed.items()
        if not any(number in attack.rows for attack in attacks)
    }
    assert missing == {}
    assert set(listed) == set(range(1, ROWS + 1))


def test_every_bad_candidate_is_thrown() -> None:
    names = {attack.name for attack in catalogue()}
    assert {bad.name for bad in BAD_CANDIDATES} <= names


def test_every_attack_says_what_must_stop_it() -> None:
    for attack in catalogue():
        assert attack.stops, attack.name
        assert attack.tries, attack.name
        assert all(stop.by and stop.code for stop in attack.stops), attack.name


def test_a_quick_attack_needs_tokens_alone() -> None:
    quick = chosen([], quick=True)
    assert len(quick) >= 10
    assert not any(attack.needs for attack in quick)


def test_attacks_are_chosen_by_name_or_row() -> None:
    assert [attack.name for attack in chosen(["trailing-byte"], quick=False)] == ["trailing-byte"]
    assert {attack.rows[0] for attack in chosen(["1"], quick=False)} == {1}
    with pytest.raises(BadRequest, match="no attack nonsense"):
        chosen(["nonsense"], quick=False)
