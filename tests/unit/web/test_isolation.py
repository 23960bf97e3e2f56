"""One place for every text on its way into a page: nothing hidden, and directions kept apart."""

from __future__ import annotations

import json
import re

import pytest

from reef_release.web.isolation import laid_out
from reef_release.web.render import environment, page

HEBREW = "שלום 12"


def shown(template: str, **given: object) -> str:
    return laid_out(environment().from_string(template).render(given))


def test_whatever_a_template_prints_is_named() -> None:
    template = '<p title="{{ x }}">{{ x }}{{ x | upper }}{{ "is " ~ x }}</p>'
    assert shown(template, x="a\u202e<") == (
        '<p title="a⟦U+202E⟧&lt;">a⟦U+202E⟧&lt;A⟦U+202E⟧&lt;is a⟦U+202E⟧&lt;</p>'
    )


def test_what_goes_round_the_printing_is_named_all_the_same() -> None:
    template = "{% macro b(x) %}<b>{{ x }}</b>{% endmacro %}{{ b(x) ~ x }}, {{ x | safe }}"
    assert shown(template, x="\u202e") == "<b>⟦U+202E⟧</b>⟦U+202E⟧, ⟦U+202E⟧"


def test_data_for_a_script_is_named_too() -> None:
    found = shown('<i data-x="{{ x | tojson | forceescape }}">', x={"n": ["\u202e\x1b"]})
    data = re.search('data-x="([^"]*)"', found)
    assert data is not None
    assert json.loads(data[1].replace("&#34;", '"')) == {"n": ["⟦U+202E⟧⟦U+001B⟧"]}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("<p>{{ x }} of 34</p>", f"<p><bdi>{HEBREW}</bdi> of 34</p>"),
        ('<p title="{{ x }} of 34">', f'<p title="{HEBREW} of 34">'),
        (
            "<title>{{ x }} of 34</title><p>{{ x }}",
            f"<title>{HEBREW} of 34</title><p><bdi>{HEBREW}</bdi>",
        ),
        ("<textarea>{{ x }}</textarea>", f"<textarea>{HEBREW}</textarea>"),
        ("<option>{{ x }}</option>", f"<option>{HEBREW}</option>"),
        (
            "<svg><g/><text>{{ x }}</text></svg>{{ x }}",
            f"<svg><g/><text>{HEBREW}</text></svg><bdi>{HEBREW}</bdi>",
        ),
        ("<p>{{ x[:0] }}plain</p>", "<p>plain</p>"),
    ],
)
def test_letters_from_right_to_left_keep_their_direction_to_themselves(
    template: str, expected: str
) -> None:
    assert shown(template, x=HEBREW) == expected


def test_marks_of_direction_of_a_user_are_no_marks_of_the_page() -> None:
    assert shown("<p>{{ x }}</p>", x="\u2069\u202eש\u2068") == (
        "<p><bdi>⟦U+2069⟧⟦U+202E⟧ש⟦U+2068⟧</bdi></p>"
    )


def test_a_lone_surrogate_makes_no_defect() -> None:
    made = page("sign_in.html", theme="auto", wanted="\ud800", error=None)
    assert "⟦U+D800⟧" in made.content.decode()
