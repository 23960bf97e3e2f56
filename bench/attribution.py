"""How often a judge finds what a reaction is about: `python bench/attribution.py [--short]`.

The labelled cases are `judge/data/attribution.jsonl`; the rules of the scripted judge were written
with the half `tune`, so only the half `held` measures them. Both halves have one author, who is
that of the rules, too; `later` (`attribution_later.jsonl`) was written after the rules, in other
words, other situations and partly in languages that the rules do not know. Beside each judge
stands the baseline that takes every reaction to be about the last reply and, for `score`, to
reject it, as most do.

`prompt, recorded` reads answers of a large language model to the very prompts that the judge sends,
recorded in `attribution_answers.jsonl` for `held` and `later`; when the prompts change they say
nothing any more and are left out. A model of your own is measured with --endpoint.

decided: of the cases in which the judge gives a score other than 0 (only those train anything),
those with the right reply and the right score. Of all cases: about: the right reply; score: the
right score; words: what was rejected and what must stay, each the same characters to more than
half (F1 of character pairs, 1 for two empty texts); exact: all three.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from judge.answer import read_answer
from judge.backend import Backend, HttpBackend
from judge.prompts import PROMPT_DIGEST, shown_replies
from judge.scripted.backend import ScriptedBackend
from judge.voting import ask
from reef_release.domain.judging import Judgment, judge_votes
from reef_release.wire import Message, NextState, TurnAssignment

DATA = Path(__file__).resolve().parents[1] / "judge" / "data"
FILES = {
    "held": "attribution.jsonl",
    "tune": "attribution.jsonl",
    "later": "attribution_later.jsonl",
}
MEASURES = ("about", "score", "words", "exact")
_SAME = 0.5

Answer = tuple[int, int, str, str]


def read_cases(split: str) -> list[dict[str, Any]]:
    lines = (DATA / FILES[split]).read_text("utf-8").splitlines()
    return [case for case in map(json.loads, lines) if case["split"] == split]


def turn_of(case: dict[str, Any]) -> TurnAssignment:
    """The case as the service would hand it out."""
    return TurnAssignment(
        scenario="attribution",
        turn_id=case["id"],
        session_id=case["id"],
        lease_id="",
        lease_expires_at="",
        messages=[{"role": "user", "content": case["asked"]}],
        reply=case["reply"],
        next_state=NextState(role="user", messages=[{"role": "user", "content": case["reaction"]}]),
        earlier=[
            Message(index=index, turn_id=f"{case['id']}-{index}", reply=reply)
            for index, reply in enumerate(case["earlier"], 1)
        ],
    )


def baseline(case: dict[str, Any]) -> Answer:
    return len(case["earlier"]) + 1, -1, "", ""


class RecordedAnswers:
    """Whose answers to the prompts of the cases stand in a file."""

    def __init__(self) -> None:
        lines = (DATA / "attribution_answers.jsonl").read_text("utf-8").splitlines()
        self.prompt_digest = json.loads(lines[0])["prompt_digest"]
        self._answers = {each["id"]: each["answer"] for each in map(json.loads, lines[1:])}

    def covers(self, cases: Sequence[dict[str, Any]]) -> bool:
        return self.prompt_digest == PROMPT_DIGEST and all(
            case["id"] in self._answers for case in cases
        )

    def answer(self, case: dict[str, Any]) -> Answer:
        turn = turn_of(case)
        vote = read_answer(self._answers[case["id"]], shown_replies(turn).keys())
        found = judge_votes([vote], last=len(case["earlier"]) + 1)
        return found.about, found.score, found.rejected, found.keep


def judged(backend: Backend, votes: int) -> Callable[[dict[str, Any]], Answer]:
    def answer(case: dict[str, Any]) -> Answer:
        found: Judgment = judge_votes(
            ask(backend, turn_of(case), votes), last=len(case["earlier"]) + 1
        )
        return found.about, found.score, found.rejected, found.keep

    return answer


def pairs(text: str) -> Counter[str]:
    letters = "".join(re.findall(r"\w", text.casefold()))
    return Counter(letters[at : at + 2] for at in range(len(letters) - 1))


def same_words(found: str, label: str) -> bool:
    one, other = pairs(found), pairs(label)
    if not one or not other:
        return not one and not other
    return 2 * (one & other).total() / (one.total() + other.total()) > _SAME


def measure(case: dict[str, Any], found: Answer) -> dict[str, bool]:
    label = case["label"]
    about, score, rejected, keep = found
    right = {
        "about": about == label["about"],
        "score": score == label["score"],
        "words": same_words(rejected, label["rejected"]) and same_words(keep, label["keep"]),
    }
    return {**right, "exact": all(right.values()), "scored": score != 0}


def interval(right: int, asked: int) -> tuple[float, float]:
    """The Wilson interval at 95 per cent."""
    z, rate = 1.96, right / asked
    middle = (rate + z * z / (2 * asked)) / (1 + z * z / asked)
    reach = z * math.sqrt(rate * (1 - rate) / asked + z * z / (4 * asked * asked))
    reach /= 1 + z * z / asked
    return middle - reach, middle + reach


def report(
    name: str,
    cases: Sequence[dict[str, Any]],
    answer: Callable[[dict[str, Any]], Answer],
    *,
    as_json: bool,
) -> None:
    results = [(case, measure(case, answer(case))) for case in cases]
    decided = [result for _, result in results if result["scored"]]
    right = sum(result["about"] and result["score"] for result in decided)
    if as_json:
        shares = {
            each: round(sum(result[each] for _, result in results) / len(results), 4)
            for each in MEASURES
        }
        counts = {"cases": len(results), "decided": len(decided), "decided_right": right}
        print(json.dumps({"judge": name, **counts, **shares}), flush=True)
        return
    row = [f"{name:<28}", f"decided {right}/{len(decided)}"]
    for each in MEASURES:
        count = sum(result[each] for _, result in results)
        low, high = interval(count, len(results))
        row.append(f"{each} {count / len(results):.3f} [{low:.2f}, {high:.2f}]")
    print("  ".join(row), flush=True)
    categories = dict.fromkeys(case["category"] for case in cases)
    for category in categories:
        of_it = [result for case, result in results if case["category"] == category]
        shares = "  ".join(
            f"{each} {sum(result[each] for result in of_it):>2}/{len(of_it)}" for each in MEASURES
        )
        print(f"    {category:<24}  {shares}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="the same; it takes a second")
    parser.add_argument("--split", choices=list(FILES), default="held")
    parser.add_argument("--endpoint", help="also measure the model at this address")
    parser.add_argument("--model", default="policy", help="its name there")
    parser.add_argument("--votes", type=int, default=3)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--json", action="store_true", help="one line of JSON for each judge")
    given = parser.parse_args()
    cases = read_cases(given.split)
    if not given.json:
        print(f"{len(cases)} cases, {given.split}")
    report("always the last reply", cases, baseline, as_json=given.json)
    report("scripted", cases, judged(ScriptedBackend(), 1), as_json=given.json)
    recorded = RecordedAnswers()
    if recorded.covers(cases):
        report("prompt, recorded", cases, recorded.answer, as_json=given.json)
    if given.endpoint:
        key = os.environ.get("REEF_JUDGE_KEY")
        with HttpBackend(
            given.endpoint, given.model, key=key, temperature=given.temperature
        ) as backend:
            name = f"prompt, {given.model}"
            report(name, cases, judged(backend, given.votes), as_json=given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
