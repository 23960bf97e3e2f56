"""Events appended by hand, which the database takes and the fold must find without effect."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec

from reef_release.domain import events as ev
from reef_release.domain.events import EventData
from reef_release.domain.suite import draw_seed
from reef_release.drill.attack import Seen
from reef_release.drill.context import CHANNEL, Context
from reef_release.drill.errors import GotThrough
from reef_release.drill.sql import append
from reef_release.ids import uuid7

__all__ = ["opening", "without_effect"]


def opening(context: Context, scenario: str, candidate: str) -> ev.GateOpened:
    """The opening that the log calls for, once a checkpoint covers the admission."""
    admitted = context.event("candidate.admitted", scenario=scenario, candidate_id=candidate)
    covering = context.until(
        lambda: [
            event
            for event in context.events("checkpoint.published", after=admitted, scenario=ev.GLOBAL)
            if getattr(event.data, "size", 0) > admitted
        ]
    )[0]
    policy = context.view(scenario)
    seed = draw_seed(
        checkpoint_root=bytes.fromhex(getattr(covering.data, "root", "")),
        candidate_id=candidate,
        policy_digest=policy.policy_digest,
    )
    return ev.GateOpened(
        gate_id=uuid7(),
        candidate_id=candidate,
        base=context.serving(scenario),
        channel=CHANNEL,
        phase="standard",
        policy_digest=policy.policy_digest,
        suite=str(policy.policy["suite"]),
        checkpoint_position=covering.envelope.position,
        seed=seed.hex(),
    )


def without_effect(context: Context, scenario: str, data: EventData, code: str) -> Seen:
    """That the service, which follows the log, finds *code* in the event and nothing else."""
    if isinstance(data, ev.GateOpened):
        data = msgspec.structs.replace(data, gate_id=uuid7())
    [position] = append(context, scenario, data)

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
