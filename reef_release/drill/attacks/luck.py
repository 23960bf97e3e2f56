"""Luck that is tried again: after a failure, with copies, and with gates that error."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial

from reef_release.domain.gating.default import default_budget, default_rule
from reef_release.drill.attack import Access, Attack, Outcome, Seen, Stop, stopped
from reef_release.drill.context import Context
from reef_release.drill.errors import GotThrough
from reef_release.drill.gating import gate_in_hand
from reef_release.drill.stage import fresh, stage
from reef_release.tokens import TokenRole

__all__ = ["ATTACKS"]

_LOTTERY = "drill-lottery"


_BUDGET = "drill-budget"


_GATE = frozenset({Access.KEYS, Access.MODELS, Access.PROCESSES})


_LOOKS = 5


def _tried_again(context: Context) -> Outcome:
    """The same candidate as it is, and with another card, after its gate failed."""
    files = fresh(context, "better")
    with gate_in_hand(context, files) as held:
        held.fail()
        ended = held.decide()
        again = context.submit(files)
        if (again.status, len(again.gates)) != ("failed", 1):
            raise GotThrough(f"Submitted again it is {again.status}, {len(again.gates)} gates.")
        carded = {**files, "README.md": b"# A better model\n"}
        seen = stopped(context, partial(context.submit, carded), "service", "same-weights")
        if held.client.claim_gate(context.scenario, "gate-1") is not None:
            raise GotThrough("Another gate opened for it.")
    counted = Seen(by="log", code="one-gate", event="gate.failed", position=ended.position)
    return Outcome(seen=(seen, counted), twin=f"its one gate ended at {ended.position}")


def _lottery(context: Context) -> Outcome:
    """Copies that differ by a bit, one after the other: each draw is spent, and draws end."""
    stage(context, _LOTTERY, origin=False, suite_max_gates=2)
    seeds, position = set(), -1
    role = TokenRole.OPERATE
    for _ in range(2):
        with gate_in_hand(context, fresh(context, "better"), scenario=_LOTTERY, role=role) as held:
            held.fail()
            seeds.add(held.assignment.opened.seed)
            position = held.decide().position
    with context.stack.paused("gate"):
        third = context.submit(fresh(context, "better"), scenario=_LOTTERY, role=role)
        covered = context.newest_checkpoint()
        context.until(context.newest_checkpoint, lambda found: found >= covered)
        client = context.client(TokenRole.GATE)
        for _ in range(_LOOKS):
            if client.claim_gate(_LOTTERY, "gate-1") is not None:
                raise GotThrough("A third gate opened on a suite that serves two.")
        view = client.candidate(_LOTTERY, third.candidate_id)
    if len(seeds) != 2 or view.gates:
        raise GotThrough("Two candidates had one draw, or the third a gate.")
    seen = Seen(by="policy", code="suite-retired", event="gate.failed", position=position)
    return Outcome(seen=(seen,), twin="the first two had a gate each, with draws of their own")


def _budgeted(context: Context) -> str:
    """A stage with the rule and the error budget that a new scenario gets; right answers count."""
    standard = {"verifiers": ["answer@1"], "rule": default_rule()}
    return stage(context, _BUDGET, standard=standard, budget=default_budget())


def _spent(context: Context) -> Outcome:
    """Copies of the incumbent whose gates error: each has spent its share all the same."""
    name = _budgeted(context)
    before = _left(context, name)
    seen = []
    for _ in range(2):
        with gate_in_hand(context, fresh(context, "origin"), scenario=name) as held:
            held.crash()
            held.decide()
        after = _left(context, name)
        position = context.event("gate.opened", scenario=name, gate_id=held.gate_id)
        if after >= before:
            raise GotThrough(f"The gate at {position} spent nothing: {before}, then {after}.")
        words = f"{before} of the error budget were left, now {after}"
        seen.append(
            Seen(by="budget", code="spent", event="gate.opened", position=position, words=words)
        )
        before = after
    return Outcome(seen=tuple(seen), twin="each opened one gate, which ended as errored")


def _left(context: Context, name: str) -> Decimal:
    budget = context.view(name).budget
    if budget is None:
        raise GotThrough(f"The scenario {name} has no error budget.")
    return Decimal(budget.left)


def _null(context: Context) -> Outcome:
    """The incumbent with one bit changed, by the default rule, through the real worker."""
    name = _budgeted(context)
    view = context.submit(fresh(context, "origin"), scenario=name)
    ended = context.ended(view.candidate_id, name)
    if ended.status not in ("failed", "inconclusive"):
        raise GotThrough(f"A copy of the incumbent is {ended.status}.")
    gate = ended.gates[-1]
    event = f"gate.{ended.status}"
    position = context.event(event, scenario=name, gate_id=gate.gate_id)
    words = f"{gate.passed_count} of {gate.task_count} tasks passed"
    seen = Seen(by="gate", code="not-better", event=event, position=position, words=words)
    return Outcome(seen=(seen,), twin="the incumbent itself passed its gate")


def _attack(
    name: str,
    row: int,
    tries: str,
    run: Callable[[Context], Outcome],
    needs: frozenset[Access],
    *stops: Stop,
    quick: bool = False,
) -> Attack:
    return Attack(
        name=name,
        rows=(row,),
        tries=tries,
        stops=stops,
        run=run,
        roles=frozenset({TokenRole.AUDIT, TokenRole.OPERATE}),
        needs=needs,
        quick=quick,
    )


ATTACKS = (
    _attack(
        "failed-and-tried-again",
        24,
        "a candidate that failed, submitted again as it is and with another card",
        _tried_again,
        _GATE,
        Stop(by="service", code="same-weights"),
        Stop(by="log", code="one-gate", events=("gate.failed",)),
    ),
    _attack(
        "copy-that-differs-by-a-bit",
        48,
        "the incumbent with one bit changed, gated by the default rule and its error budget",
        _null,
        frozenset({Access.KEYS, Access.MODELS}),
        Stop(by="gate", code="not-better", events=("gate.failed", "gate.inconclusive")),
    ),
    _attack(
        "many-copies-for-a-luckier-draw",
        58,
        "copies that differ by a bit, each for another draw, until the suite is spent",
        _lottery,
        _GATE,
        Stop(by="policy", code="suite-retired", events=("gate.failed",)),
    ),
    _attack(
        "copies-under-the-error-budget",
        58,
        "copies that differ by a bit, whose gates error, so that they cost nothing",
        _spent,
        _GATE,
        Stop(by="budget", code="spent", events=("gate.opened",)),
    ),
)
