"""Right replies that the candidate never gave: with the gate's token, and with its key."""

from __future__ import annotations

import shutil
from functools import partial

from reef_release.audit.export import export
from reef_release.audit.http_source import ClientSource
from reef_release.audit.replay import replay
from reef_release.domain.events import ReleasePromoted
from reef_release.drill.attack import Access, Attack, Outcome, Seen, Stop, stopped
from reef_release.drill.context import CHANNEL, Context
from reef_release.drill.errors import GotThrough
from reef_release.drill.gating import (
    attack_on_gate,
    claimed,
    gate_in_hand,
    served_passed,
)
from reef_release.drill.sql import append
from reef_release.drill.stage import fresh, stage
from reef_release.tokens import TokenRole

__all__ = ["ATTACKS"]

_NEEDS = frozenset({Access.KEYS, Access.MODELS, Access.PROCESSES})


_LIAR = "drill-liar"


def _made_up(context: Context) -> Outcome:
    """A right reply that nobody's weights gave; then the honest worker finds the gate like that."""
    with context.stack.paused("gate"):
        view = context.submit(fresh(context, "better"))
        held = claimed(context, context.scenario)
        assert held.due is not None
        held.post(held.trial(f"The answer is {held.answer(held.due)}."))
        revoke = context.client(TokenRole.OPERATE).revoke_candidate
        revoke(context.scenario, view.candidate_id, "a candidate of the drill")
    ended = context.ended(view.candidate_id)
    if ended.status != "errored":
        raise GotThrough(f"The honest worker ended the gate as {ended.status}.")
    position = context.event("gate.errored", gate_id=held.gate_id)
    seen = Seen(by="gate worker", code="not-its-trials", event="gate.errored", position=position)
    return Outcome(seen=(seen,), twin=served_passed(context))


def _liar(context: Context) -> Outcome:
    """The gate key too: the pass waits for a person, who has the replies run through weights."""
    name = stage(context, _LIAR, origin=False)
    operator = context.client(TokenRole.OPERATE)
    operator.hold(name, "until the replies were run through the weights")
    files = fresh(context, "better")
    with gate_in_hand(context, files, scenario=name, role=TokenRole.OPERATE) as held:
        told = []
        while held.due is not None:
            told.append(held.post(held.trial(f"The answer is {held.answer(held.due)}.")))
        if held.decide().outcome != "passed":
            raise GotThrough("The made-up replies did not pass, so nothing is shown.")
        context.until(lambda: context.events("release.signed", scenario=name))
        promotion = ReleasePromoted(
            release_id=held.candidate, gate_id=held.gate_id, base=None, channel=CHANNEL
        )
        by_hand = partial(append, context, name, promotion)
        seen = stopped(context, by_hand, "database", "held")
        folder = context.directory / "weights"
        export(ClientSource(context.client(TokenRole.AUDIT)), folder, include_weights=True)
        with context.stack.scorer() as scorer:
            report = replay(folder, context.anchor, scorer=scorer)
        shutil.rmtree(folder)
    position = told[0].position
    found = {each.code for each in report.problems if each.position == position}
    if "reply-differs" not in found:
        raise GotThrough(f"The audit with weights says {sorted(found)} of the made-up replies.")
    honest = _trials_of_the_release_served(context)
    wrong = [each for each in report.problems if each.position in honest]
    if wrong:
        raise GotThrough(f"The audit with weights does not believe an honest trial: {wrong[0]}.")
    audited = Seen(
        by="audit with weights", code="reply-differs", event="gate.trial", position=position
    )
    return Outcome(seen=(seen, audited), twin=f"{len(honest)} honest trials agree")


def _trials_of_the_release_served(context: Context) -> set[int]:
    """Positions of the trials of the gate that the real worker ran."""
    passed = context.at(context.event("gate.passed", candidate_id=context.serving()))
    gate_id = getattr(passed.data, "gate_id", "") if passed else ""
    return {
        event.envelope.position
        for event in context.events("gate.trial")
        if getattr(event.data, "gate_id", None) == gate_id
    }


ATTACKS = (
    attack_on_gate(
        "replies-never-given",
        (56,),
        "a right reply that the candidate never gave, with the token but without the gate key",
        _made_up,
        Stop(by="gate worker", code="not-its-trials", events=("gate.errored",)),
    ),
    Attack(
        name="replies-never-given-with-the-key",
        rows=(56,),
        tries="right replies that the candidate never gave, and the pass signed by the gate key",
        stops=(
            Stop(by="database", code="held"),
            Stop(by="audit with weights", code="reply-differs", events=("gate.trial",)),
        ),
        run=_liar,
        needs=_NEEDS | {Access.DATABASE},
    ),
)
