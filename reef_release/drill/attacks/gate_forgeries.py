"""Gates forged by SQL: an opening with a draw of one's own, and trials with words of one's own.

The database knows only the structure of a gate, so it takes these events; the fold must give
them no effect, for the one reason that each is made for.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import msgspec

from reef_release.artifacts.blobs import SALT_BYTES
from reef_release.domain import events as ev
from reef_release.domain.checks import TrialBody
from reef_release.domain.suite import sampling_seed
from reef_release.drill.attack import Access, Attack, Outcome, Stop
from reef_release.drill.by_hand import opening, without_effect
from reef_release.drill.context import Context
from reef_release.drill.errors import GotThrough
from reef_release.drill.gating import GateInHand, claimed, gate_in_hand
from reef_release.drill.stage import fresh

__all__ = ["ATTACKS"]

_NEEDS = frozenset({Access.DATABASE, Access.KEYS, Access.MODELS, Access.PROCESSES})
_NOTHING = "0" * 64


def _opened(context: Context) -> Outcome:
    """Openings that are right but for the draw, the checkpoint behind it, or the policy's part."""
    with context.stack.paused("gate"):
        candidate = context.submit(fresh(context, "better")).candidate_id
        right = opening(context, context.scenario, candidate)
        other = right.checkpoint_position - 1
        seen = [
            without_effect(
                context, context.scenario, msgspec.structs.replace(right, seed=_NOTHING), "seed"
            ),
            without_effect(
                context,
                context.scenario,
                msgspec.structs.replace(right, phase="bootstrap"),
                "phase",
            ),
            without_effect(
                context,
                context.scenario,
                msgspec.structs.replace(right, checkpoint_position=other),
                "checkpoint",
            ),
        ]
        held = claimed(context, context.scenario)
        held.end()
    own = held.assignment.opened
    if (own.candidate_id, own.seed) != (candidate, right.seed):
        raise GotThrough("The gate that opened then has another draw than the log gives.")
    position = context.event("gate.opened", gate_id=own.gate_id)
    return Outcome(seen=tuple(seen), twin=f"its gate opened at {position}, with the log's own draw")


def _trials(context: Context) -> Outcome:
    """A wrong reply with a right verdict, and the record of another trial, where one is due."""
    with gate_in_hand(context) as held:
        seen = [
            without_effect(context, context.scenario, _trial(held), "verdict"),
            without_effect(
                context, context.scenario, _trial(held, release_id=_NOTHING), "other-body"
            ),
            without_effect(context, context.scenario, _trial(held, logprobs=[-0.25]), "logprobs"),
        ]
        twin = held.post(held.trial("I do not know."))
        if twin.trial.passed is not False:
            raise GotThrough(f"The trial at {twin.position} has a verdict that is not its own.")
    return Outcome(
        seen=tuple(seen), twin=f"the trial that was due is still due, and stands at {twin.position}"
    )


def _trial(held: GateInHand, **changes: Any) -> ev.GateTrial:
    """The trial that is due, said to have passed, with a body that says otherwise."""
    due, opened = held.due, held.assignment.opened
    assert due is not None
    task = held.assignment.tasks[due.slot].task_id
    release = opened.candidate_id if due.side == "candidate" else opened.base
    fields: dict[str, Any] = {
        "task_id": task,
        "side": due.side,
        "release_id": release,
        "sampling_seed": sampling_seed(bytes.fromhex(opened.seed), due.slot),
        "prompt_token_ids": [1, 2, 3],
        "token_ids": [4, 5],
        "logprobs": [-0.25, -1.5],
        "reply": "I do not know.",
        "finish_reason": "stop",
    }
    body = msgspec.json.encode(TrialBody(**(fields | changes)))
    return ev.GateTrial(
        gate_id=opened.gate_id,
        slot=due.slot,
        side=due.side,
        attempt=due.attempt,
        task_id=task,
        body=held.client.put_blob(secrets.token_bytes(SALT_BYTES) + body),
        error=None,
        verdict=ev.VerdictRecord(passed=True, checks=dict.fromkeys(held.gate.part.verifiers, True)),
    )


def _attack(
    name: str,
    rows: tuple[int, ...],
    tries: str,
    run: Callable[[Context], Outcome],
    kind: str,
    *codes: str,
) -> Attack:
    stops = tuple(Stop(by="fold", code=code, events=(kind,)) for code in codes)
    return Attack(name=name, rows=rows, tries=tries, stops=stops, run=run, needs=_NEEDS)


ATTACKS = (
    _attack(
        "gate-opened-by-hand",
        (53, 58),
        "a gate opened by SQL with a draw, a checkpoint, or a part of the policy of one's own",
        _opened,
        "gate.opened",
        "seed",
        "checkpoint",
        "phase",
    ),
    _attack(
        "trials-forged-by-hand",
        (53, 56),
        "trials by SQL that are due: a wrong reply with a right verdict, another trial's record, "
        "fewer probabilities than tokens",
        _trials,
        "gate.trial",
        "verdict",
        "other-body",
        "logprobs",
    ),
)
