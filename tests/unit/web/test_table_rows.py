"""Rows of tables: every cell names its column, and says that it is a cell."""

from __future__ import annotations

import pytest
from markupsafe import Markup

from reef_release.web.table_rows import labelled

HEADS = ["Position", ("Won & lost", "number")]


def test_each_cell_has_the_heading_of_its_column() -> None:
    rows = Markup(
        '<tr id="e7"><th scope="row">#7</th><td class="number">1</td></tr>\n'
        "<tr><td></td><td>2</td></tr>"
    )
    assert labelled(rows, HEADS) == Markup(
        '<tr role="row" id="e7"><th role="rowheader" data-label="Position" scope="row">#7</th>'
        '<td role="cell" data-label="Won &amp; lost" class="number">1</td></tr>\n'
        '<tr role="row"><td role="cell" data-label="Position"></td>'
        '<td role="cell" data-label="Won &amp; lost">2</td></tr>'
    )


def test_what_a_cell_holds_is_left_alone() -> None:
    rows = Markup("<tr><td>&lt;td <track> <thing></td><td></td></tr>")
    assert "&lt;td <track> <thing></td>" in labelled(rows, HEADS)


def test_a_row_with_more_cells_than_headings_is_a_defect() -> None:
    with pytest.raises(IndexError):
        labelled(Markup("<tr><td></td><td></td><td></td></tr>"), HEADS)
