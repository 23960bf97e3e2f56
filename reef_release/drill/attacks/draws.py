"""What is chosen after a draw is known: the policy, the incumbent, or the cut of the weights.

The stage has an error budget, so a draw is good for one policy and one incumbent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reef_release.artifacts.twins import sharded
from reef_release.domain.gating.default import default_budget, default_rule
from reef_release.drill.attack import Access, Attack, Outcome, Seen, Stop
from reef_release.drill.by_hand import opening, without_effect
from reef_release.drill.context import Context
from reef_release.drill.errors import GotThrough
from reef_release.drill.gating import WORKER, gate_in_hand
from reef_release.drill.stage import fresh, promote, signed_policy, stage
from reef_release.tokens import TokenRole

__all__ = ["ATTACKS"]

_STAGE = "drill-draws"
_REASON = "an attempt of the drill"
_LOOKS = 3
_NEEDS = frozenset({Access.DATABASE, Access.KEYS, Access.MODELS, Access.PROCESSES})


@dataclass(frozen=True, kw_only=True)
class _Drawn:
    """A candidate that was drawn against a release that was then rolled back."""

    candidate: str


def _drawn(context: Context) -> _Drawn:
    """The stage, made at first use."""
    found = context.kept.get(_STAGE)
    if found is None:
        found = context.kept[_STAGE] = _prepare(context)
    assert isinstance(found, _Drawn)
    return found


def _prepare(context: Context) -> _Drawn:
    stage(context, _STAGE)
    origin = context.serving(_STAGE) or ""
    promote(context, _STAGE, fresh(context, "better"))
    _budgeted(context)
    with context.stack.paused("gate"):
        candidate = context.submit(fresh(context, "better"), scenario=_STAGE).candidate_id
        opening(context, _STAGE, candidate)  # waits until the draw is known
        context.client(TokenRole.OPERATE).roll_back(_STAGE, origin, _REASON)
    return _Drawn(candidate=candidate)


def _budgeted(context: Context) -> None:
    """The policy of the stage once more, under the next number, with a budget."""
    version = int(context.view(_STAGE).policy["version"]) + 1
    part = context.view(_STAGE).policy["standard"] | {"rule": default_rule()}
    signed = signed_policy(context, _STAGE, version=version, standard=part, budget=default_budget())
    context.client(TokenRole.OPERATE).change_policy(_STAGE, signed, _REASON)


def _other_base(context: Context) -> Outcome:
    """The easier incumbent, brought back by a rollback after the draw was known."""
    candidate = _drawn(context).candidate
    with context.stack.paused("gate"):
        seen = _ungated(context, candidate, "base-after-draw")
    _revoke(context, candidate)
    return Outcome(seen=seen, twin=_twin(context))


def _other_policy(context: Context) -> Outcome:
    """A policy by its owner's own key, signed when the draw was known, for another draw."""
    _drawn(context)
    with context.stack.paused("gate"):
        candidate = context.submit(fresh(context, "better"), scenario=_STAGE).candidate_id
        opening(context, _STAGE, candidate)
        _budgeted(context)
        seen = _ungated(context, candidate, "policy-after-draw")
    _revoke(context, candidate)
    return Outcome(seen=seen, twin=_twin(context))


def _ungated(context: Context, candidate: str, code: str) -> tuple[Seen, ...]:
    """That *candidate* has no gate for the reason *code*, asked for or forged."""
    client = context.client(TokenRole.GATE)
    for _ in range(_LOOKS):
        if client.claim_gate(_STAGE, WORKER) is not None:
            raise GotThrough("A gate opened with a draw that was known before.")
    told = client.candidate(_STAGE, candidate).reasons
    if [reason.code for reason in told] != [code]:
        raise GotThrough(f"The candidate says {told}, and not {code}.")
    said = Seen(by="service", code=code, words=told[0].message)
    return said, without_effect(context, _STAGE, opening(context, _STAGE, candidate), code)


def _cut_anew(context: Context) -> Outcome:
    """The same weights in two files instead of one, while the gate of the first is open."""
    _drawn(context)
    files = fresh(context, "better")
    with gate_in_hand(context, files, scenario=_STAGE) as held:
        before = _gates_paid(context)
        view = context.submit(sharded(files), scenario=_STAGE)
        told = [reason.code for reason in view.reasons]
        if (view.status, told) != ("submitted", ["waits-its-turn"]):
            raise GotThrough(f"Cut anew it is {view.status}, {told}.")
        if held.client.claim_gate(_STAGE, "gate-2") is not None:
            raise GotThrough("A second gate opened beside the first.")
        waiting = Seen(by="service", code="waits-its-turn", words=view.reasons[0].message)
        held.fail()
        held.decide()
        context.until(lambda: _gates_paid(context) > before)
        admitted = context.event(
            "candidate.admitted", scenario=_STAGE, candidate_id=view.candidate_id
        )
        paid = Seen(by="budget", code="spent", event="candidate.admitted", position=admitted)
        _revoke(context, view.candidate_id)
    return Outcome(seen=(waiting, paid), twin=f"the gate of the first cut was {held.gate_id[:12]}")


def _gates_paid(context: Context) -> int:
    budget = context.view(_STAGE).budget
    if budget is None:
        raise GotThrough("The stage has no error budget.")
    return budget.gates


def _revoke(context: Context, candidate: str) -> None:
    context.client(TokenRole.OPERATE).revoke_candidate(_STAGE, candidate, _REASON)


def _twin(context: Context) -> str:
    """Other weights, drawn under this policy on this incumbent, have a gate."""
    with gate_in_hand(context, fresh(context, "better"), scenario=_STAGE) as held:
        position = context.event("gate.opened", scenario=_STAGE, gate_id=held.gate_id)
    return f"other weights, drawn after it, had their gate at {position}"


def _attack(name: str, tries: str, run: Callable[[Context], Outcome], *stops: Stop) -> Attack:
    return Attack(
        name=name,
        rows=(58,),
        tries=tries,
        stops=stops,
        run=run,
        prepare=_drawn,
        needs=_NEEDS,
    )


def _known(code: str) -> tuple[Stop, Stop]:
    return (
        Stop(by="service", code=code),
        Stop(by="fold", code=code, events=("gate.opened",)),
    )


ATTACKS = (
    _attack(
        "incumbent-chosen-after-the-draw",
        "an easier incumbent, brought back by a rollback when the draw was known; also by SQL",
        _other_base,
        *_known("base-after-draw"),
    ),
    _attack(
        "policy-chosen-after-the-draw",
        "a policy signed by its owner when the draw was known, for another draw; also by SQL",
        _other_policy,
        *_known("policy-after-draw"),
    ),
    _attack(
        "weights-cut-into-other-files",
        "the same weights in two files instead of one, while the gate of the first is open",
        _cut_anew,
        Stop(by="service", code="waits-its-turn"),
        Stop(by="budget", code="spent", events=("candidate.admitted",)),
    ),
)
