"""Draws, verdicts, rules and shares of a budget, for `check_export.py`.

Everything follows from a policy, a suite, a seed and replies, as docs/reference/export-format.md
says to the byte; numbers are exact fractions. It needs the standard library alone.
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_left
from collections.abc import Generator, Iterator
from fractions import Fraction
from math import ceil
from types import SimpleNamespace
from typing import Any

MAX_TRIALS = 2000
DECIMAL = r"(?a)(?:0|[1-9]\d{0,8})(?:\.\d{1,9})?"
# A plain reply: clauses of common words and one equation each, and at the end the claim.
N, MARK = r"(?:0|[1-9]\d{0,8})", r"(?m:^(?:\d\. |- |\*\*Step \d:\*\* ))?"
WORDS = "(?:(?i:first|then|after|next|now|we|i|so|that|and|start|with|have|get|know) )*"
OTHER = "(?:as|equ|ex|gi|gro|gue|hal|has|is|it|less|ma|min|no|one|per|pl|sco|this|tim|un|was|yes)"
UNIT = rf"(?: (?!{OTHER}|\w*(?:ths|zen|dred|ten|sand|lion|arter|ird|pair|akh|ore))[a-z]{{2,}}s)?"
SAYS = r"(?:[Ss]o )?[Tt]he answer is|[Ss]o it is|(?m:^)(?:(?:\*\*)?Final answer:(?:\*\*)?|A:)"
PLAIN = rf"(?a)(?:{MARK}{WORDS}{N} [-+*/] {N} = {N}{UNIT}(?:[.,] |\.?\n))*(?:{SAYS}) ({N}){UNIT}\.?"
encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


class Wrong(Exception):
    """Something is not as it must be, in words for whoever reads the result."""


class Record(SimpleNamespace):
    """Named values; one that an event lacks is told by its name."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"expected a field {name}, found none")


def need(**holds: Any) -> None:
    """Names are the words of a finding; a pair is what stands there and what must stand there."""
    for name, each in holds.items():
        words = name.replace("_", " ")
        if isinstance(each, tuple) and each[0] != each[1]:
            found, expected = (json.dumps(value, default=str)[:300] for value in each)
            raise Wrong(f"{words}: expected {expected}, found {found}")
        if not each:
            raise Wrong(f"expected that {words}, found otherwise")


def sha(*data: bytes) -> bytes:
    return hashlib.sha256(b"".join(data)).digest()


def canonical(data: bytes) -> Any:
    """The value of canonical JSON, which has no fractions."""
    value = json.loads(data, parse_float=int, parse_constant=int)
    need(the_JSON_is_canonical=encode(value).encode() == data)
    return value


def decimal(text: str) -> Fraction:
    need(decimals_of_a_policy_have_their_form=re.fullmatch(DECIMAL, text))
    return Fraction(text)


def draw(seed: bytes, tasks: list[Any], count: int) -> list[Any]:
    """The first *count* of *tasks* in the order of the draw."""
    need(the_suite_has_enough_tasks=count <= len(tasks))
    left, picked = list(tasks), []
    for index in range(count):
        digest = sha(seed, index.to_bytes(8, "big"))
        while (number := int.from_bytes(digest, "big")) >= 2**256 - 2**256 % len(left):
            digest = sha(digest)
        picked.append(left.pop(number % len(left)))
    return picked


def pay(budget: Any, number: int, promotions: int, spent: Fraction) -> tuple[Any, Fraction]:
    """What draw *number* pays by e-LOND (alpha * gamma, while some is left), and what is spent."""
    alpha, gamma = decimal(budget["alpha"]), budget["gamma"]
    first, decay = gamma["first_block"], gamma["decay"]
    block = ((number - 1) // first + 1).bit_length() - 1
    own = alpha * decay / ((block + decay) * (block + decay + 1) * first * 2**block)
    own = min(own, max(alpha - spent, Fraction(0)))
    level = own * (promotions + 1) if budget["procedure"] == "false_discovery_rate" else own
    share = {"number": number, "promotions": promotions, "spent": str(spent)}
    return share | {"share": str(own), "level": str(min(level, Fraction(1)))}, spent + own


def judge(reply: str, task: Any) -> dict[str, bool]:
    """Verdicts on a plain reply, of which all units stand in the question; else none."""
    claim, answer, steps = re.fullmatch(PLAIN, reply), task["answer"], set[Any]()
    marked = bool(re.match(r"1\. |- ", reply)) or "**" in reply or "Final answer:" in reply
    units = {*re.findall(r"\d ([a-z]+)", reply)} - {*re.findall("[a-z]+", task["question"])}
    listed = re.search(r"(?m)^(\d\.|-) ", reply)
    if units or not claim or not re.fullmatch(N, answer) or (listed and not marked):
        return {}
    for a, sign, b, result in re.findall(rf"({N}) ([-+*/]) ({N}) = ({N})", reply):
        idle = str(int(sign in "*/")) in (b, a if sign in "+*" else "") or sign + b == "/0"
        x, y = Fraction(a), Fraction(b)
        right = {"+": x + y, "-": x - y, "*": x * y, "/": x / (y or 1)}[sign]
        if right == int(result) and not idle:
            steps.add((sign, *(sorted((a, b)) if sign in "+*" else (a, b))))
    return {"answer@1": claim[1] == answer, "work_steps@1": len(steps) > 1, "style@1": not marked}


def nodes(rule: Any) -> Iterator[Any]:
    """*rule* and all rules in it, in document order."""
    yield rule
    for part in rule.get("rules", ()):
        yield from nodes(part)


def protected_tasks(rule: Any) -> list[str]:
    lists = [each["tasks"] for each in nodes(rule) if each["kind"] == "protected"]
    return [*dict.fromkeys(task for tasks in lists for task in tasks)]


def drawn_tasks(rule: Any) -> int:
    return max(int(each.get("max_trials", 0)) for each in nodes(rule))


def tasks_wanted(rule: Any) -> int:
    """The most tasks that a gate under *rule* may need."""
    return drawn_tasks(rule) + len(protected_tasks(rule))


Course = Generator[str, Any, str]


class Rule:
    """A rule that reads the slots of a gate; `now` is its outcome, "" while it has none.

    A slot has `passed` (verdicts of candidate and incumbent, None without one), `protected` (the
    task when it is a protected one) and `replies` (tokens, attempts and cut ones, of both).
    """

    def __init__(self, rule: Any, level: Fraction | None) -> None:
        self.rule, self.level, self.most = rule, level, rule.get("max_trials", 1)
        need(max_trials_is_from_1_to_2000=1 <= self.most <= MAX_TRIALS)
        tested = rule["kind"] in ("improves", "non_regression") or rule.get("alpha")
        self.course: Course = getattr(self, "betting" if tested else f"by_{rule['kind']}")()
        self.now, self.over = "", False
        self._send(None)

    def take(self, slot: Any) -> None:
        """The next slot; protected tasks are slots of the rule that names them alone."""
        if "rules" in self.rule or slot.protected in self.rule.get("tasks", [None]):
            self._send(slot)

    def _send(self, slot: Any) -> None:
        try:
            self.now = self.now if self.over else self.course.send(slot)
        except StopIteration as end:
            self.now, self.over = end.value, True

    def by_consecutive_passes(self) -> Course:
        run = failures = 0
        for _ in range(self.most):
            own, _ = (yield "").passed
            run, failures = (run + 1, failures) if own else (0, failures + 1)
            if run == self.rule["k"] or failures == self.rule["max_failures"]:
                return "passed" if run == self.rule["k"] else "failed"
        return "inconclusive"

    def by_pass_rate(self) -> Course:
        good, left, least = 0, self.most, decimal(self.rule["bar"]) * self.most
        while good < least <= good + left:
            own, _ = (yield "").passed
            good, left = good + own, left - 1
        return "passed" if good >= least else "failed"

    def betting(self) -> Course:
        """The tests: `kept` is each bet with what ties and losses have left of its stake."""
        bar, tie = (decimal(self.rule.get(each, "0")) for each in ("bar", "margin"))
        best, worst = 1 + tie - bar, -bar or tie - 1
        level = decimal(self.rule["alpha"]) if self.rule["alpha"] else self.level
        need(the_test_has_a_level=level)
        kept = [(Fraction(bet, 16) / -worst, Fraction(1)) for bet in range(1, 16, 2)]
        trials, wins, total = 0, 0, Fraction(0)
        while True:
            needed = self._wins_needed(best, kept, level or Fraction(1))
            if -total >= self.rule.get("max_deficit", self.most + 1):
                return "failed"
            if wins >= needed:
                return "passed"
            if trials + max(0, ceil(-total / best)) + needed - wins > self.most:
                return "inconclusive"
            own, other = (yield "").passed
            sign = own - (not own if bar else other)
            score = (tie, best, worst)[sign]
            if total >= 0:
                wins += sign > 0
                kept = kept if sign > 0 else [(bet, left * (1 + bet * score)) for bet, left in kept]
            trials, total = trials + 1, total + score

    def _wins_needed(self, best: Fraction, kept: list[Any], level: Fraction) -> int:
        """The least number of wins whose stakes are enough; more wins are never less."""

        def stake(wins: int) -> Fraction:
            return sum(((1 + bet * best) ** wins * left for bet, left in kept), Fraction(0))

        return bisect_left(range(self.most + 1), 8 / level, key=stake)

    def by_protected(self) -> Course:
        for _ in set(self.rule["tasks"]):
            own, other = (yield "").passed
            if not own and other is not False:
                return "failed"
        return "passed"

    def by_metric(self) -> Course:
        """Sums of what is measured and of what it is measured by, for both sides."""
        now, sums = "", [[0, 0], [0, 0]]
        for trials in range(1, self.most + 1):
            slot = yield now
            for side, (tokens, attempts, cut) in zip(sums, slot.replies, strict=True):
                rate = self.rule["metric"] == "truncation_rate"
                side[0] += cut if rate else tokens
                side[1] += attempts if rate else 1
            (value, by), (other, its) = sums
            if self.rule["of"] == "ratio":
                value, by = value * its, by * other
            low, high = self.rule["at_least"], self.rule["at_most"]
            holds = low is None or value >= decimal(low) * by
            holds = holds and (high is None or value <= decimal(high) * by)
            now = "passed" if holds and trials >= self.rule["min_trials"] else ""
        return now or "failed"

    def by_all_of(self) -> Course:
        parts = [Rule(part, self.level) for part in self.rule["rules"]]
        order = ["failed", "inconclusive", "", "passed"]
        order = order if self.rule["kind"] == "all_of" else order[::-1]
        while not (now := min((part.now for part in parts), key=order.index)):
            slot = yield ""
            for part in parts:
                part.take(slot)
        return now

    by_any_of = by_all_of


class Gate:
    """An opened gate: *d* is the event, *doc* the policy's document, *share* its of the budget."""

    def __init__(self, d: Any, doc: Any, suite: bytes, share: Any) -> None:
        self.d, self.doc, self.share, part = d, doc, share, doc[d.phase]
        self.verifiers = part["verifiers"]
        self.measured = any(each["kind"] == "metric" for each in nodes(part["rule"]))
        self.rule = Rule(part["rule"], Fraction(share["level"]) if share else None)
        self.protected = protected_tasks(part["rule"])
        tasks = {
            task["id"]: task for task in map(json.loads, filter(bytes.strip, suite.split(b"\n")))
        }
        others = [task for name, task in tasks.items() if name not in self.protected]
        drawn = draw(bytes.fromhex(d.seed), others, drawn_tasks(part["rule"]))
        self.tasks = [*(tasks[name] for name in self.protected), *drawn]
        self.sides = ["candidate", "incumbent"][: 1 + (d.base is not None)]
        self.slot, self.trials, self.attempts = 0, list[Any](), list[Any]()
        self.passed, self.replies = list[Any](), list[Any]()
        self.unjudged, self.judged = list[str](), list[str]()
        # For whoever follows the log: what it is of, where it stands, how it ended by whose key.
        self.candidate, self.policy, self.position = Record(), Record(), 0
        self.outcome, self.key, self.approvals = "", "", set[str]()

    def due(self) -> str:
        """The outcome that is due, "" while a trial is."""
        errors = sum(trial["error"] is not None for trial in self.trials)
        return "errored" if errors > self.doc["max_errors"] else self.rule.now

    def take(self, d: Any, record: bytes | None) -> None:
        """The next trial; *record* is what its body names."""
        need(outcome_that_was_due_before_this_trial=(self.due(), ""))
        self.judged, self.unjudged = [], []
        side, task = self.sides[len(self.passed)], self.tasks[self.slot]
        need(slot=(d.slot, self.slot), side=(d.side, side), task=(d.task_id, task["id"]))
        need(attempt=(d.attempt, len(self.attempts)))
        need(there_is_either_a_verdict_or_an_error=(d.verdict is None) != (d.error is None))
        need(a_verdict_has_a_body=record or d.verdict is None)
        need(the_error_is_a_known_one=d.error in (None, "crashed", "timed-out", "truncated"))
        body = json.loads(record[32:]) if record else {"token_ids": []}
        if record:
            self._check(body, side, task, d.verdict is not None)
        passed = None if d.verdict is None else self._verdict(d.verdict, body["reply"], task)
        self.attempts.append(d.error)
        tokens = len(body["token_ids"])
        kept = {name: getattr(d, name) for name in ("attempt", "body", "error", "side", "slot")}
        kept |= {"task_id": d.task_id, "passed": passed}
        self.trials.append(kept | {"tokens": tokens if record and self.measured else None})
        if passed is not None:
            self.replies.append((tokens, len(self.attempts), self.attempts.count("truncated")))
            self.passed.append(passed)
            self.attempts = []
        if len(self.passed) == len(self.sides):
            self._close(task["id"] if task["id"] in self.protected else None)

    def _check(self, body: Any, side: str, task: Any, whole: bool) -> None:
        number = sha(b"sampling", bytes.fromhex(self.d.seed), self.slot.to_bytes(8, "big"))
        release = self.d.base if side == "incumbent" else self.d.candidate_id
        need(task_of_the_record=(body["task_id"], task["id"]), its_side=(body["side"], side))
        need(release_of_the_record=(body["release_id"], release))
        need(sampling_seed=(body["sampling_seed"], int.from_bytes(number[:4], "big") >> 1))
        need(there_are_tokens=body["token_ids"])
        need(log_probabilities=(len(body["logprobs"]), len(body["token_ids"])))
        need(whole_replies_alone_have_a_verdict=(body["finish_reason"] == "stop") == whole)

    def _verdict(self, verdict: Any, reply: str, task: Any) -> bool:
        said, own = verdict["checks"], judge(reply, task)
        need(verifiers=(sorted(said), sorted(self.verifiers)))
        for name in said:
            need(**{f"verdict of {name}": (said[name], own.get(name, said[name]))})
        need(verdict_of_all_verifiers=(verdict["passed"], all(said.values())))
        self.judged = [name for name in said if name in own]
        self.unjudged = [name for name in said if name not in own]
        return bool(verdict["passed"])

    def _close(self, protected: str | None) -> None:
        """The slot is whole: the rule is asked."""
        replies = [*self.replies, (0, 0, 0)][:2]
        slot = Record(passed=[*self.passed, None][:2], protected=protected, replies=replies)
        self.rule.take(slot)
        self.slot, self.passed, self.replies = self.slot + 1, [], []

    def facts(self) -> dict[str, Any]:
        """What the signed decision must say of the trials; older policies know of no budget."""
        old = "budget" not in self.doc
        hidden = ["error", "tokens"] if old else []
        trials = [{n: v for n, v in each.items() if n not in hidden} for each in self.trials]
        found = {"verifiers": self.verifiers, "trial_count": len(trials)}
        found |= {} if old else {"budget": self.share}
        return found | {"trials_digest": sha(encode(trials).encode()).hex()}
