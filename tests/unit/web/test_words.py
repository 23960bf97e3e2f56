"""Words for numbers, times and names."""

from __future__ import annotations

from reef_release.web.words import coded


def test_every_second_piece_of_a_text_with_backticks_is_code() -> None:
    assert coded("set `a<b` & go") == ["set ", "a<b", " & go"]
    assert coded("one ` alone") == ["one ` alone"]
