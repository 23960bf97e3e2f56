"""What people are shown of the attacks, also on a narrow terminal."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from reef_release.cli import drill_output
from reef_release.cli.drill_output import print_attacks
from reef_release.drill.catalogue import catalogue


def test_on_a_narrow_terminal_no_name_and_no_code_is_broken_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = StringIO()
    monkeypatch.setattr(drill_output, "console", Console(file=told, width=80))
    print_attacks(catalogue(), as_json=False)
    text = told.getvalue()
    for attack in catalogue():
        assert f"name: {attack.name}\n" in text
        assert f"must be stopped by: {', '.join(map(str, attack.stops))}\n" in text
    assert text.count("quick: yes\n") == sum(attack.quick for attack in catalogue())
    assert text.count("needs: tokens\n") == sum(not attack.needs for attack in catalogue())
