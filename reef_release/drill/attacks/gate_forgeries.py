"""Gates forged by SQL: an opening with a draw of one's own, and trials with words of one's own.

The database knows only the structure of a gate, so it takes these events; the fold must give
them no effect, for the one reason that each is made for.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import httpx
import msgspec

from reef_release.artifacts.blobs import SALT_BYTES
from reef_release.domain import events as ev
from reef_release.domain.checks import TrialBody
from reef_release.domain.suite import draw_seed, sampling_seed
from reef_release.drill.attack import Access, Attack, Outcome, Seen, Stop
from reef_release.drill.context import CHANNEL, Context
from reef_release.drill.errors import GotThrough
from reef_release.drill.gating import GateInHand, claimed, gate_in_hand
from reef_release.drill.sql import append
from reef_release.drill.stage import fresh
from reef_release.ids import uuid7

__all__ = ["ATTACKS"]

_NEEDS = frozenset({Access.DATABASE, Access.KEYS, Access.MODELS, Access.PROCESSES})
_NOTHING = "0" * 64


def _opened(context: Context) -> Outcome:
    """Openings that are right but for the draw, the checkpoint behind it, or the policy's part."""
    with context.stack.paused("gate"):
        candidate = context.submit(fresh(context, "better")).candidate_id
        right = _opening(context, candidate)
        other = right.checkpoint_position - 1
        seen = [
            _without_effect(context, msgspec.structs.replace(right, seed=_NOTHING), "seed"),
            _without_effect(context, msgspec.structs.replace(right, phase="bootstrap"), "phase"),
            _without_effect(
                context,
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


def _opening(context: Context, candidate: str) -> ev.GateOpened:
    """The opening that the log calls for, once a checkpoint covers the admission."""
    admitted = context.event("candidate.admitted", candidate_id=candidate)
    covering = context.until(
        lambda: [
            event
            for event in context.events("checkpoint.published", after=admitted, scenario=ev.GLOBAL)
            if getattr(event.data, "size", 0) > admitted
        ]
    )[0]
    policy = context.view()
    seed = draw_seed(
        checkpoint_root=bytes.fromhex(getattr(covering.data, "root", "")),
        candidate_id=candidate,
        policy_digest=policy.policy_digest,
    )
    return ev.GateOpened(
        gate_id=uuid7(),
        candidate_id=candidate,
        base=context.serving(),
        channel=CHANNEL,
        phase="standard",
        policy_digest=policy.policy_digest,
        suite=str(policy.policy["suite"]),
        checkpoint_position=covering.envelope.position,
        seed=seed.hex(),
    )


def _trials(context: Context) -> Outcome:
    """A wrong reply with a right verdict, and the record of another trial, where one is due."""
    with gate_in_hand(context) as held:
        seen = [
            _without_effect(context, _trial(held), "verdict"),
            _without_effect(context, _trial(held, release_id=_NOTHING), "other-body"),
            _without_effect(context, _trial(held, logprobs=[-0.25]), "logprobs"),
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


def _without_effect(context: Context, data: ev.GateOpened | ev.GateTrial, code: str) -> Seen:
    """That the service, which follows the log, finds *code* in the event and nothing else."""
    if isinstance(data, ev.GateOpened):
        data = msgspec.structs.replace(data, gate_id=uuid7())
    [position] = append(context, context.scenario, data)

    def ready() -> dict[str, Any]:
        found: dict[str, Any] = httpx.get(f"{context.url}/readyz", timeout=30).json()
        return found

    last = context.until(ready, lambda found: found["position"] >= position)["last_violation"]
    if last is None or (last["position"], last["codes"]) != (position, [code]):
        raise GotThrough(
            f"The {data.TYPE} forged at {position} had to be without effect for {code}, and the "
            f"last such event is {last}."
        )
    return Seen(by="fold", code=code, event=data.TYPE, position=position)


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
