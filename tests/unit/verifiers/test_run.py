"""JSON lines in, JSON lines out."""

from __future__ import annotations

import json

import pytest

from reef_release.errors import BadRequest, NotFound
from reef_release.verifiers.run import run_lines


def _line(name: object = "a", reply: object = "A: 7", answer: object = "7") -> str:
    return json.dumps({"id": name, "reply": reply, "answer": answer, "model": "ignored"})


def test_results_come_in_the_order_of_the_lines_under_the_names_as_given() -> None:
    lines = [_line("b"), "\n", _line("a", "A: 8"), _line(3, "A: 7", 7)]
    results = [json.loads(line) for line in run_lines(["answer", "style@1"], lines)]
    assert [(result["id"], result["passed"]) for result in results] == [
        ("b", True),
        ("a", False),
        (3, True),
    ]
    assert results[1]["checks"] == {
        "answer": {
            "passed": False,
            "found": "8 in 'A: 8'",
            "why": "The final answer is not the right one.",
        },
        "style@1": {"passed": True, "found": "", "why": "The reply is plain sentences."},
    }


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        ("{", "Line 2 is not a check"),
        ("[]", "Line 2 is not a check"),
        ('{"id": "a", "reply": "A: 7"}', "missing required field `answer`"),
        (_line(reply=7), "Expected `str`"),
        (_line(answer=0.5), "Line 2 is not a check"),
        ('{"id": "\udc80"}', "Line 2 is not a check"),
        (_line(answer="Tom"), "Line 2: answer@1 compares numbers"),
    ],
)
def test_a_malformed_line_is_named_after_the_results_before_it(bad: str, what: str) -> None:
    results = run_lines(["answer"], [_line(), bad, _line()])
    assert json.loads(next(results))["passed"]
    with pytest.raises(BadRequest) as malformed:
        next(results)
    assert what in malformed.value.detail
    assert malformed.value.next_step


def test_an_unknown_or_repeated_verifier_is_refused_before_anything_is_read() -> None:
    unread = iter([_line()])
    with pytest.raises(NotFound):
        run_lines(["answer", "grammar"], unread)
    for names in ([], ["answer", "answer@1"]):
        with pytest.raises(BadRequest):
            run_lines(names, unread)
    assert next(unread) == _line()
