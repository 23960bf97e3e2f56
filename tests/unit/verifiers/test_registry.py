"""Versions, names, and the verdict of several verifiers on one reply."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from reef_release.errors import BadRequest, NotFound
from reef_release.verifiers import v1
from reef_release.verifiers.registry import VERIFIERS, get, is_objective, resolve, verdict

_HOMEWORK = ("answer@1", "work_steps@1", "style@1")


def test_the_homework_criterion_needs_all_three() -> None:
    good = "First 3 * 4 = 12 apples. Then 12 - 5 = 7 apples. So the answer is 7."
    assert verdict(_HOMEWORK, good, "7").passed
    spoilt = {
        "answer@1": good.replace("answer is 7", "answer is 8"),
        "work_steps@1": "I counted them. So the answer is 7.",
        "style@1": good.replace("First", "**First**"),
    }
    for spec, reply in spoilt.items():
        outcome = verdict(_HOMEWORK, reply, "7")
        assert not outcome.passed
        assert [name for name, check in outcome.checks.items() if not check.passed] == [spec]


@pytest.mark.parametrize(
    ("reply", "failing"),
    [
        ("First 3 * 4 = 12 apples . Then 12 - 5 = 7 apples . So the answer is 7 .", set()),
        ("** Step 1 : ** 3 * 4 = 12\n** Final answer: ** 7", {"work_steps@1", "style@1"}),
        ("1. 3 * 4 = 12\nFinal answer: 7", {"work_steps@1", "style@1"}),
        ("- 3 * 4 = 12\n- 12 - 5 = 7\n** Final answer: ** 7", {"style@1"}),
        ("The answer is 7 .", {"work_steps@1"}),
    ],
)
def test_replies_with_spaces_around_their_tokens_are_read_like_others(
    reply: str, failing: set[str]
) -> None:
    checks = verdict(_HOMEWORK, reply, "7").checks
    assert {spec for spec, check in checks.items() if not check.passed} == failing


def test_a_bare_name_is_the_newest_version_for_the_command_line_only() -> None:
    assert resolve("answer") == resolve("answer@1") == "answer@1"
    with pytest.raises(NotFound):
        verdict(["answer"], "A: 7", "7")


@pytest.mark.parametrize("spec", ["answer@2", "answers", "answer@", "@1", "", "answer@1 "])
def test_an_unknown_spec_is_an_error_that_lists_the_known_ones(spec: str) -> None:
    for function in (get, resolve):
        with pytest.raises(NotFound) as unknown:
            function(spec)
        assert "answer@1, style@1, work_steps@1" in unknown.value.next_step
    assert is_objective(spec) is None


def test_only_the_answer_is_objective_by_itself() -> None:
    assert {spec: is_objective(spec) for spec in VERIFIERS} == {
        "answer@1": True,
        "work_steps@1": False,
        "style@1": False,
    }


@pytest.mark.parametrize("specs", [[], ["answer@1", "answer@1"]])
def test_a_verdict_needs_each_verifier_once(specs: list[str]) -> None:
    with pytest.raises(BadRequest):
        verdict(specs, "A: 7", "7")


def test_a_shipped_version_rests_on_nothing_that_may_change() -> None:
    allowed = re.compile(
        r"reef_release\.(?:errors|verifiers\.check|verifiers\.v1\.\w+)|msgspec|__future__"
        r"|collections\.abc|enum|fractions|html|itertools|re|typing|unicodedata"
    )
    modules = sorted(Path(v1.__path__[0]).glob("*.py"))
    assert len(modules) > 10
    for module in modules:
        for node in ast.walk(ast.parse(module.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert all(allowed.fullmatch(name) for name in names), (module.name, names)
