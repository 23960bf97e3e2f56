"""A gate task in the traffic that is trained on."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from reef_release import wire
from reef_release.drill.attack import Access, Attack, Outcome, Seen, Stop
from reef_release.drill.context import Context
from reef_release.tokens import TokenRole
from reef_release.traffic_wire import InteractionRequest

__all__ = ["ATTACKS"]

_REACTION = "No. Show me how you got there."
_HARMLESS = "Tell me, in a sentence or two, what a reef is."
_JUDGE = wire.JudgeIdentity(model="the-drill", prompt_digest="ab" * 32)


def _contaminated(context: Context) -> Outcome:
    """Two judged conversations: one about a task of the suite, one about nothing of the kind."""
    tasks = [json.loads(line) for line in context.stack.suite().splitlines()]
    before = context.client(TokenRole.OPERATE).signal(context.scenario).waiting.samples
    harmless = _judged(context, _HARMLESS, "one")
    context.until(
        lambda: context.client(TokenRole.OPERATE).signal(context.scenario).waiting.samples > before
    )
    turn = _judged(context, f"  {tasks[0]['question'].upper()} ", "two")
    refused = "sample.refused"
    context.until(
        lambda: [
            event
            for event in context.events(refused)
            if getattr(event.data, "turn_id", None) == turn
        ]
    )
    position = context.event(refused, turn_id=turn, reason="gate-task")
    seen = Seen(by="service", code="gate-task", event=refused, position=position)
    return Outcome(seen=(seen,), twin=f"turn {harmless} of another question is a sample")


def _judged(context: Context, question: str, tag: str) -> str:
    """A turn about *question* that its user rejected; the turn's id."""
    client = context.client(TokenRole.INGEST)
    start = datetime.now(UTC) - timedelta(hours=1)
    reply = {"role": "assistant", "content": f"It is 4, and that is all ({tag})."}
    messages = [{"role": "user", "content": question}]
    receipt = client.record(context.scenario, _call(context, messages, reply, tag, start))
    messages += [reply, {"role": "user", "content": _REACTION}]
    answer = {"role": "assistant", "content": f"I counted ({tag})."}
    later = start + timedelta(seconds=20)
    client.record(context.scenario, _call(context, messages, answer, tag, later))
    judge = context.client(TokenRole.JUDGE)
    turn = context.until(lambda: judge.claim_turn(context.scenario, "the-drill"))
    assert turn is not None
    hint = "Show every step of the calculation."
    vote = wire.Vote(raw="-1", valid=True, score=-1, about=turn.index or 1, hints=[hint])
    judge.post_judgment(
        context.scenario,
        turn.turn_id,
        wire.JudgmentRequest(
            lease_id=turn.lease_id, judge=_JUDGE, next_id=turn.next_id, votes=[vote] * 3
        ),
    )
    assert turn.turn_id == receipt.interaction_id, "another turn was judged"
    return turn.turn_id


def _call(
    context: Context,
    messages: list[dict[str, str]],
    reply: dict[str, str],
    tag: str,
    at: datetime,
) -> InteractionRequest:
    return InteractionRequest(
        messages=[dict(each) for each in messages],
        reply=dict(reply),
        tag=f"drill-{tag}-{context.directory.name}",
        at=at.isoformat(),
        finish_reason="stop",
        prompt_token_ids=[1, 2, 3],
        token_ids=[4, 5],
        logprobs=[-0.25, -1.5],
        release_id=context.serving(),
    )


ATTACKS = (
    Attack(
        name="gate-task-in-the-training-data",
        rows=(60,),
        tries="a judged turn whose question is a task of the gate, in other case and spacing",
        stops=(Stop(by="service", code="gate-task", events=("sample.refused",)),),
        run=_contaminated,
        needs=frozenset({Access.MODELS, Access.TRAFFIC}),
    ),
)
