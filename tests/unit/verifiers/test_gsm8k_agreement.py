"""answer@1 beside 1,600 real model solutions that people have judged.

The label says whether the last line "A: x" is right. The same must come out when that line is
written in another form, and when something is said after it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from reef_release.verifiers.registry import get
from reef_release.verifiers.v1.work_steps import shown_steps


class Solution(NamedTuple):
    work: str
    stated: str
    answer: str
    is_correct: bool


@pytest.fixture(scope="module")
def solutions(shared_data: Path) -> list[Solution]:
    return list(_read(shared_data / "gsm8k_model_solutions_400.jsonl"))


def _read(path: Path) -> Iterator[Solution]:
    for line in path.read_text().splitlines():
        problem = json.loads(line)
        for solution in problem["solutions"]:
            work, _, last = solution["text"].rpartition("\n")
            stated = last.removeprefix("A: ") if last.startswith("A: ") else ""
            work = work if stated else solution["text"]
            yield Solution(work, stated, problem["answer"], solution["is_correct"])


def _grouped(stated: str) -> str:
    whole, dot, decimals = stated.replace(",", "").partition(".")
    return stated if "/" in stated else f"{int(whole):,}{dot}{decimals}"


def _money(stated: str) -> str:
    amount = _grouped(stated)
    sign = "-" if amount.startswith("-") else ""
    cents = "" if "." in amount or "/" in amount else ".00"
    return f"{sign}${amount.removeprefix('-')}{cents}"


FORMS: dict[str, Callable[[str], str]] = {
    "A: x": lambda x: f"A: {x}",
    "A: $x.00": lambda x: f"A: {_money(x)}",
    "#### x": lambda x: f"#### {x}",
    "####x,xxx": lambda x: f"####{_grouped(x)}",
    "boxed": lambda x: f"\\boxed{{{x}}}",
    "boxed in a sentence": lambda x: f"Therefore she makes $\\boxed{{{_grouped(x)}}}$ dollars.",
    "boxed with text": lambda x: f"\\[ \\boxed{{{x} \\text{{ dollars}}}} \\]",
    "$x.00 alone": _money,
    "x alone": lambda x: x,
    "x = ...": lambda x: f"x = {x}",
    "the answer is x dollars": lambda x: f"So the answer is {x} dollars.",
    "the answer is x,xxx": lambda x: f"The answer is {_grouped(x)}.",
    "the final answer is **x**": lambda x: f"The final answer is **{x}**.",
    "x is the answer": lambda x: f"{x} is the answer.",
    "Final Answer heading": lambda x: f"### Final Answer\n\n{_grouped(x)}",
    "bold label": lambda x: f"**Final Answer:** {_money(x)}",
    "Answer: x apples": lambda x: f"Answer: {x} apples",
    "unicode minus": lambda x: f"Answer: {x.replace('-', chr(0x2212))}",
    "tokens apart": lambda x: f"So the answer is {x} .",
    "answer tag": lambda x: f"<answer>{x}</answer>",
    "after reasoning": lambda x: f"</think>\nThe answer is {x}.",
    "a sentence of the story": lambda x: f"So she has {_grouped(x)} left.",
    "a total": lambda x: f"In total it comes to {_money(x)}.",
}
TAILS = (
    "",
    " I hope this helps! Let me know if you have any other question." + " Keep at it!" * 25,
    "\nLet me double-check: 3 * 6 = 18, so it is right.",
    "\nDo you want to see what happens with 24 eggs instead of 16?",
    "\n\nQ: Tom has 5 pens and loses 2 of them. How many are left?\nA: 3",
)


@pytest.mark.parametrize("form", FORMS)
def test_every_label_is_met_in_every_form(solutions: list[Solution], form: str) -> None:
    check = get("answer@1").check
    disagreeing = []
    for index, solution in enumerate(solutions):
        # Each form meets each tail on a fifth of the solutions, and on other ones than before.
        tail = TAILS[(index + list(FORMS).index(form)) % len(TAILS)]
        reply = f"{solution.work}\n{FORMS[form](solution.stated)}" if solution.stated else ""
        result = check((reply or solution.work) + tail, solution.answer)
        if result.passed != solution.is_correct:
            disagreeing.append((reply[-80:], tail, result))
    print(f"{form}: {len(solutions) - len(disagreeing)} of {len(solutions)} labels met")
    assert disagreeing == []


def test_nearly_every_right_solution_shows_its_work(solutions: list[Solution]) -> None:
    right = [solution for solution in solutions if solution.is_correct]
    shown = sum(len(shown_steps(solution.work)) >= 2 for solution in right)
    print(f"{shown} of {len(right)} right solutions show two steps")
    assert shown >= 0.98 * len(right)


def test_no_solution_written_by_hand_rules_is_marked(solutions: list[Solution]) -> None:
    assert [s.work for s in solutions if not get("style@1").check(s.work, s.answer).passed] == []
