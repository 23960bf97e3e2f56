"""What verbs print: nothing that somebody wrote reaches the terminal but as text."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from reef_release.cli.output import (
    complain,
    console,
    emit,
    errors,
    fail,
    print_list,
    print_table,
    write_json,
)
from reef_release.domain.reasons import Reason
from reef_release.errors import NotFound
from tests.hostile_world import HOSTILE, hidden_in

ERROR = NotFound(
    HOSTILE, next_step=HOSTILE, reasons=[Reason(code="x", message=HOSTILE, where=HOSTILE)]
)


@pytest.mark.parametrize(
    "say",
    [
        lambda: emit({"reason": HOSTILE}, as_json=False),
        lambda: emit({"reason": HOSTILE}, as_json=True),
        lambda: emit({}, as_json=False, text=f"Held: {HOSTILE}"),
        lambda: print_table(HOSTILE, [HOSTILE], [[HOSTILE], ["plain"]]),
        lambda: console.print(HOSTILE, style="bold"),
        lambda: errors.print(HOSTILE, markup=False, soft_wrap=True),
        lambda: complain(ERROR),
        lambda: fail(ERROR),
        lambda: fail(ERROR, as_json=True),
    ],
)
def test_nothing_hidden_is_printed(
    say: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    with suppress(SystemExit):
        say()
    printed = "".join(capsys.readouterr())
    assert hidden_in(printed) == set()
    assert "202E" in printed.upper()
    assert "שלום" in printed or "\\u05e9" in printed


def test_programs_get_the_same_value(capsys: pytest.CaptureFixture[str]) -> None:
    value: dict[str, Any] = {HOSTILE: [HOSTILE, "\U000e0041", 3]}
    write_json(value)
    emit(value, as_json=False)
    compact, _, readable = capsys.readouterr().out.partition("\n")
    assert json.loads(compact) == json.loads(readable) == value


def test_a_column_is_as_wide_as_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    print_list("Tags", ["tag", "calls"], [["a\u202eb", "1"], ["plain", "2"]])
    shown = capsys.readouterr().out.splitlines()
    assert shown[2:] == ["a⟦U+202E⟧b  1", "plain       2"]
