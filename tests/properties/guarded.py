"""The rule's machine under policies with an error budget, approvals and a watch.

Beside what `RuleMachine` does, people approve, served releases are watched and fall, and draws
are paid for. The fold's ledger must be the oracle's after every step.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec

from reef_release.domain import events as ev
from reef_release.domain.approval import lacking_approvals
from reef_release.domain.events import EventData
from reef_release.domain.gate import Gate
from reef_release.domain.state import Scenario
from reef_release.domain.watch import Watch, finding_of
from reef_release.domain.watch_rules import answers_due, watch_of
from reef_release.signing.keys import Role
from tests.properties.cheap_world import CheapWorld
from tests.properties.guarded_oracle import GuardedOracle
from tests.properties.machine import MARKS, pick
from tests.properties.machines import CheapMachine
from tests.world import World

__all__ = ["GuardedMachine"]

_BOOTSTRAP = {
    "verifiers": ["answer@1"],
    "rule": {"kind": "consecutive_passes", "k": 2, "max_trials": 6, "max_failures": 3},
}
_BETTER = {"kind": "improves", "alpha": None, "max_deficit": 3, "max_trials": 12}
_BUDGET = {
    "procedure": "false_discovery_rate",
    "alpha": "0.9",
    "gamma": {"first_block": 16, "decay": 1},
}
_WATCH = {
    "verifiers": ["answer@1"],
    "bar": "0.8",
    "fallen": "0.2",
    "alpha": "0.2",
    "every_s": 1,
    "max_trials": 30,
    "automatic": True,
}
_PEOPLE = ("ann", "bob", "cleo")
_WORSE = "------------++te"
"""How trials of the incumbent end, and those of a served release that falls."""


class GuardedMachine(CheapMachine):
    """On cheap signatures, in both scenarios of a story."""

    OWN_VERBS = (*("approve",) * 3, *("watch",) * 2, "find")

    def make_oracle(self, world: World) -> GuardedOracle:
        plain = super().make_oracle(world)
        return GuardedOracle(
            plain._bodies,
            plain._read_body,
            plain._read_suite,
            plain._signer_of,
            plain._bundle_of,
            plain._listed_in,
        )

    def policy_of(self, which: int) -> dict[str, Any]:
        budget = None if which % 11 == 10 else {**_BUDGET, "alpha": ("0.9", "0.95")[which % 2]}
        rule = {**_BETTER, "alpha": None if budget else "0.2"}
        verifiers = ["style@1"] if which % 7 == 6 else ["answer@1"]
        return {
            "standard": {"verifiers": verifiers, "rule": rule},
            "bootstrap": _BOOTSTRAP,
            "max_attempts": 3,
            "budget": budget,
            "approvals": (which + 1) % 3,
            "watch": {**_WATCH, "automatic": which % 5 != 4},
        }

    def mark(self, gate: Gate, luck: int) -> str:
        due = gate.due()
        marks = _WORSE if due is not None and due[1] == "incumbent" else MARKS + "+++++"
        mark = marks[luck % len(marks)]
        # Gates are long here: with as many errors as elsewhere most would end as errored.
        return "+" if mark in "te" and luck % 4 else mark

    # What is next

    def next_data(self, verb: str, which: int) -> EventData | None:
        if which % 3 == 1:
            verb = self.OWN_VERBS[which // 3 % len(self.OWN_VERBS)]
        return super().next_data(verb, which)

    def next_step(self, scenario: Scenario, luck: int) -> EventData:
        data = super().next_step(scenario, luck)
        if isinstance(data, ev.ReleasePromoted) and luck % 8:
            gate = scenario.gates[data.gate_id]
            if lacking_approvals(scenario, gate):
                return self.approval(scenario, gate)
        if luck % 16 == 5 and (watching := self.next_watch(scenario, luck)) is not None:
            return watching
        return data

    def go_on(self, where: int, luck: int) -> None:
        super().go_on(where, luck)
        if luck % 4 == 3:
            for number in range(luck % 9):
                data = self.next_watch(self.world.scenario, luck + number * 7)
                if data is None or not self.offer(data):
                    return

    def approval(self, _scenario: Scenario, gate: Gate) -> EventData:
        opened = gate.opened
        return ev.ReleaseApproved(
            release_id=opened.candidate_id, gate_id=opened.gate_id, reason="I looked at it"
        )

    def next_approve(self, scenario: Scenario, which: int) -> EventData | None:
        passed = [gate_id for gate_id, gate in scenario.gates.items() if gate.outcome == "passed"]
        gate_id = pick(passed if which % 5 else scenario.gates, which)
        return self.approval(scenario, scenario.gates[gate_id]) if gate_id else None

    def next_watch(self, scenario: Scenario, which: int) -> EventData | None:
        """The answer to a fall, the finding of one, or a trial of what is served."""
        for answer in answers_due(self.world.state, scenario):
            return answer
        watch = self.watch(scenario, which)
        if watch is None or watch.fallen_position is not None:
            return None
        if watch.due is None:
            return self.next_find(scenario, which)
        number, attempt = watch.due
        anew = which % 23 == 5
        mark = _WORSE[which % len(_WORSE)]
        task = watch.task(number, self.world.fold.suite(watch.suite).tasks)
        answer_ = int(task.answer) + (mark == "-")
        body = {
            "task_id": task.id,
            "side": "served",
            "release_id": watch.release_id,
            "sampling_seed": watch.sampling_seed(number),
            "prompt_token_ids": [1, 2, 3],
            "token_ids": [4, 5],
            "logprobs": [-0.25, -1.5],
            "reply": f"The answer is {answer_}.",
            "finish_reason": "stop",
        }
        lost = mark in "te"
        passed = mark == "+"
        return ev.WatchTrial(
            pointer_position=watch.pointer_position,
            channel=watch.channel,
            release_id=watch.release_id,
            number=number,
            attempt=0 if anew else attempt,
            anew=anew,
            task_id=task.id,
            body=None if lost else self.world.blobs.put_body_sync(msgspec.json.encode(body)),
            error="crashed" if lost else None,
            verdict=None if lost else ev.VerdictRecord(passed=passed, checks={"answer@1": passed}),
        )

    def next_find(self, scenario: Scenario, which: int) -> EventData | None:
        """A finding, also of a release that has not fallen."""
        watch = self.watch(scenario, which)
        return None if watch is None else self.finding(watch, self.world.keys[Role.GATE])

    def watch(self, scenario: Scenario, which: int) -> Watch | None:
        channel = pick(scenario.pointers, which)
        return watch_of(self.world.state, scenario, channel) if channel else None

    def finding(self, watch: Watch, key: Any) -> EventData:
        assert isinstance(self.world, CheapWorld)
        told = finding_of(self.world.scenario_name, watch)
        return ev.WatchFallen(
            pointer_position=watch.pointer_position,
            channel=watch.channel,
            release_id=watch.release_id,
            attestation=self.world.sign_finding(told, key),
        )

    def forged(self, data: EventData, which: int) -> EventData | None:
        if isinstance(data, ev.WatchTrial) and data.verdict is not None:
            passed = not data.verdict.passed
            lie = ev.VerdictRecord(passed=passed, checks={"answer@1": passed})
            return msgspec.structs.replace(data, verdict=lie)
        if isinstance(data, ev.WatchFallen):
            watch = self.watch(self.world.scenario, which)
            owner = list(self.all_keys)[which % len(self.all_keys)]
            return None if watch is None else self.finding(watch, owner)
        return super().forged(data, which)

    # Appending

    def offer(self, data: EventData, **envelope: Any) -> bool:
        if isinstance(data, ev.ReleaseApproved):
            # Often the same person twice, which counts once.
            envelope.setdefault("actor", _PEOPLE[len(self.past) // 3 % len(_PEOPLE)])
        stands = super().offer(data, **envelope)
        self.ledgers_are_what_the_log_says()
        return stands

    def ledgers_are_what_the_log_says(self) -> None:
        """And no scenario has spent more than the largest budget that it ever had."""
        assert isinstance(self.oracle, GuardedOracle)
        for name, scenario in self.world.state.scenarios.items():
            account, ledger = self.oracle.account(name), scenario.ledger
            assert (ledger.gates, ledger.spent) == (account.draws, account.spent)
            assert ledger.promotions == len(account.promoted)
            assert ledger.spent <= Fraction("0.95")

    def shape(self) -> tuple[Any, ...]:
        return (
            *super().shape(),
            tuple(
                (
                    name,
                    each.ledger,
                    tuple((gate_id, tuple(by.items())) for gate_id, by in each.approvals.items()),
                    tuple(
                        (position, watch.progress.digest, watch.fallen_position)
                        for position, watch in each.watches.items()
                    ),
                )
                for name, each in self.world.state.scenarios.items()
            ),
        )
