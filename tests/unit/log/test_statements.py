"""Named SQL files, and the codes that stand in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reef_release.log.outcomes import REASONS
from reef_release.log.statements import load_statements


def test_statements_are_found_by_name_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "some.sql"
    path.write_text("-- About.\n\n-- name: one\n-- Why.\nselect 1\n\n-- name: two\nselect 2\n")
    assert load_statements(path) == {"one": "-- Why.\nselect 1", "two": "select 2"}
    assert list(load_statements(path)) == ["one", "two"]


def test_a_name_stands_for_one_statement(tmp_path: Path) -> None:
    path = tmp_path / "some.sql"
    path.write_text("-- name: one\nselect 1\n-- name: one\nselect 2\n")
    with pytest.raises(ValueError, match="twice"):
        load_statements(path)


def test_every_code_that_the_database_refuses_with_has_a_message(repository: Path) -> None:
    text = "".join(
        path.read_text("utf-8") for path in (repository / "migrations" / "sql").glob("*/*.sql")
    )
    codes = {
        *re.findall(r"'\{([a-z-]+)\}'", text),
        *re.findall(r"'([a-z-]+)'::text", text),
        *re.findall(r"then '([a-z-]+)'\n", text),
        *re.findall(r"\('([a-z-]+)' \|\| place\)", text),
        *re.findall(r"format\('([a-z-]+) ", text),
    }
    no_codes = {"object", "create", "grant"}  # a type of JSON, and statements that are made
    assert codes - no_codes == set(REASONS)
