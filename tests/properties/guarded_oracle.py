"""Budgets, approvals and watches once more, as statements about a list of events.

As in `Oracle`, nothing here is shared with the fold: shares and bets are computed by the words of
the decision records, in fractions.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tests.properties.oracle import Fact, Oracle

__all__ = ["GuardedOracle"]


@dataclass
class Account:
    """What one scenario has spent, and for what."""

    draws: int = 0
    spent: Fraction = Fraction(0)
    promoted: list[int] = field(default_factory=list)
    """Positions of promotions of gates that had a share."""


@dataclass(frozen=True)
class Paid:
    """What was paid for one draw: its promotions before, its level; None without a budget."""

    promotions: int
    level: Fraction | None


class GuardedOracle(Oracle):
    """`Oracle` for policies with a budget, approvals and a watch."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.slots = 12
        self.accounts: dict[str, Account] = {}
        self.drawn: dict[tuple[str, str], Paid | None] = {}
        self.levels: dict[tuple[str, str], Fraction | None] = {}
        self.fallen: set[tuple[str, int]] = set()

    def saw(self, fact: Fact) -> None:
        if fact.type == "watch.fallen":
            self._fallen(fact)
        super().saw(fact)
        if fact.type == "checkpoint.published":
            self._pay(fact.data.size)
        elif fact.type == "gate.opened":
            self._open(fact)
        elif fact.type == "release.promoted" and self._paid_for(fact):
            self.account(fact.scenario).promoted.append(fact.position)

    def _paid_for(self, promoted: Fact) -> bool:
        return self.levels[promoted.scenario, promoted.data.gate_id] is not None

    def account(self, scenario: str) -> Account:
        """The account of *scenario* as it is now."""
        return self.accounts.setdefault(scenario, Account())

    # Decision 22: a draw is paid with the first checkpoint over the admission

    def _pay(self, size: int) -> None:
        for fact in list(self.history):
            if fact.type != "candidate.admitted" or fact.position >= size:
                continue
            key = (fact.scenario, fact.data.candidate_id)
            if key in self.drawn:
                continue
            channel = self._channel(*key)
            before = [each for each in self.moves(fact.scenario, channel) if each[0] < size]
            if not before:
                self.drawn[key] = None
                continue
            promotions = sum(each < size for each in self.account(fact.scenario).promoted)
            level = self._spend(fact.scenario, self._policy_before(fact.scenario, size), promotions)
            self.drawn[key] = Paid(promotions=promotions, level=level)

    def _open(self, fact: Fact) -> None:
        key = (fact.scenario, fact.data.candidate_id)
        policy = self._policy_at(fact.scenario, fact)
        paid = self.drawn[key]
        level = paid.level if paid is not None and policy["budget"] else None
        if policy["budget"] and fact.data.base:
            assert paid is not None, "a gate under a budget whose draw is of another time"
        before = [
            each.data.gate_id
            for each in self._of("gate.opened", scenario=fact.scenario)
            if each.data.candidate_id == fact.data.candidate_id and each.position < fact.position
        ]
        standing = self._passed_before(fact)
        if standing is not None and standing == before[-1]:
            # Both must pass: that is no likelier than that one of them does.
            level = self.levels[fact.scenario, standing]
        elif before:
            second = self._spend(fact.scenario, policy, paid.promotions if paid else 0)
            level = second if level is not None else None
        self.levels[fact.scenario, fact.data.gate_id] = level

    def _passed_before(self, opening: Fact) -> str | None:
        """The last gate that the candidate passed with the pointer as it stands, if any."""
        moves = self.moves(opening.scenario, opening.data.channel)
        since = moves[-1][0] if moves else -1
        passed = [
            fact.data.gate_id
            for fact in self._of("gate.passed", scenario=opening.scenario)
            if fact.data.candidate_id == opening.data.candidate_id
            and self._opened(opening.scenario, fact.data.gate_id).position > since
        ]
        return passed[-1] if passed else None

    def _spend(self, scenario: str, policy: Any, promotions: int) -> Fraction | None:
        """Pay for one draw; its level."""
        account = self.account(scenario)
        account.draws += 1
        budget = policy["budget"]
        if budget is None:
            return None
        alpha = Fraction(budget["alpha"])
        share = min(alpha * _gamma(account.draws, **budget["gamma"]), alpha - account.spent)
        share = max(share, Fraction(0))
        account.spent += share
        assert account.spent <= max(alpha, account.spent - share), "more than alpha was spent"
        several = budget["procedure"] == "false_discovery_rate"
        return min(share * (promotions + 1 if several else 1), Fraction(1))

    def _channel(self, scenario: str, candidate: str) -> str:
        (submitted,) = (
            fact
            for fact in self._of("candidate.submitted", scenario=scenario)
            if fact.data.candidate_id == candidate
        )
        return str(submitted.data.channel)

    def _policy_before(self, scenario: str, size: int) -> Any:
        *_, newest = (
            fact
            for fact in self._of("scenario.created", "policy.changed", scenario=scenario)
            if fact.position < size
        )
        return self._signer_of(newest.data.policy)[1]

    # Decision 21: a pass is a bet that was won at the level

    def _rule_holds(self, scenario: str, opened: Fact, part: Any) -> None:
        if part["rule"]["kind"] != "improves":
            super()._rule_holds(scenario, opened, part)
            return
        level = self.levels[scenario, opened.data.gate_id]
        if level is None:
            level = Fraction(part["rule"]["alpha"])
        wins = losses = 0
        parts = [Fraction(1)] * 8
        for candidate, incumbent in self._pairs(scenario, opened):
            score = int(candidate) - int(incumbent)
            if wins >= losses:
                parts = [
                    stake * (1 + score * Fraction(2 * number + 1, 16))
                    for number, stake in enumerate(parts)
                ]
            wins += score == 1
            losses += score == -1
        assert sum(parts) / 8 * level >= 1, "a pass without the evidence that its level asks for"

    def _pairs(self, scenario: str, opened: Fact) -> list[tuple[bool, bool]]:
        told: dict[tuple[int, str], bool] = {}
        for fact in self._of("gate.trial", scenario=scenario):
            if fact.data.gate_id == opened.data.gate_id and fact.data.verdict is not None:
                told[fact.data.slot, fact.data.side] = fact.data.verdict.passed
        pairs: list[tuple[bool, bool]] = []
        while all((len(pairs), side) in told for side in ("candidate", "incumbent")):
            slot = len(pairs)
            pairs.append((told[slot, "candidate"], told[slot, "incumbent"]))
        return pairs

    # Decision 25: as many people as the policy of the gate asks for

    def _promoted(self, fact: Fact) -> None:
        super()._promoted(fact)
        opened = self._opened(fact.scenario, fact.data.gate_id)
        wanted = self._policy_at(fact.scenario, opened)["approvals"]
        people = {
            json.loads(self._bodies[each.position])["actor"]
            for each in self._of("release.approved", scenario=fact.scenario)
            if (each.data.gate_id, each.data.release_id)
            == (fact.data.gate_id, fact.data.release_id)
        }
        assert len(people) >= wanted, f"{len(people)} of {wanted} approvals"

    # Decision 27: a finding follows from the trials of what is served

    def _fallen(self, fact: Fact) -> None:
        data, scenario = fact.data, fact.scenario
        position, release = self.moves(scenario, data.channel)[-1]
        assert (data.pointer_position, data.release_id) == (position, release), "no longer served"
        assert (scenario, position) not in self.fallen, "a release falls once"
        self.fallen.add((scenario, position))
        key_id, finding = self._signer_of(data.attestation)
        self._counts(key_id, "gate", fact.position)
        trials = [
            each
            for each in self._of("watch.trial", scenario=scenario)
            if each.data.pointer_position == position
        ]
        first = trials[0]
        *_, policy = (
            self._signer_of(each.data.policy)[1]
            for each in self._of("scenario.created", "policy.changed", scenario=scenario)
            if each.position < first.position
        )
        rule = policy["watch"]
        bar, low = Fraction(rule["bar"]), Fraction(rule["fallen"])
        words: list[bool] = []
        earlier = 0
        for each in trials:
            if each.data.anew:
                earlier, words = earlier + len(words), []
            if each.data.verdict is None:
                continue
            body = self._read_body(each.data.body)
            assert (body["side"], body["release_id"]) == ("served", release), "other weights"
            tasks = {task["id"]: task for task in self._read_suite(policy["suite"])}
            right = body["reply"].endswith(f" {tasks[each.data.task_id]['answer']}.")
            assert each.data.verdict.passed == right, "a lying verdict"
            words.append(right)
        begun = Fraction(0)
        for number, passed in enumerate(words, earlier + 1):
            ratio = low / bar if passed else (1 - low) / (1 - bar)
            begun = (begun + Fraction(1, number * (number + 1))) * ratio
        evidence = begun + Fraction(1, earlier + len(words) + 1)
        assert evidence * Fraction(rule["alpha"]) >= 1, "it has not fallen"
        assert (finding["trials"], finding["release_id"]) == (len(words), release)


def _gamma(number: int, first_block: int, decay: int) -> Fraction:
    """The part of alpha of the draw *number*: blocks that double, in equal shares."""
    block, start, length = 0, 1, first_block
    while number >= start + length:
        start, length, block = start + length, 2 * length, block + 1
    return Fraction(decay, (block + decay) * (block + decay + 1) * length)
