"""Recording one trial: the raw reply becomes a salted blob, its verdict an event.

What is checked here is the form of what a worker sends; whether the trial counts is for the
fold, which checks again.
"""

from __future__ import annotations

import math

import msgspec

from reef_release.api.service import Service
from reef_release.domain import events as ev
from reef_release.domain.checks import TrialBody
from reef_release.domain.gate import Gate
from reef_release.domain.reasons import Reason
from reef_release.domain.revocation import revoked_at
from reef_release.domain.state import Scenario
from reef_release.domain.suite import sampling_seed
from reef_release.errors import BadRequest, Conflict
from reef_release.log import Appended
from reef_release.wire import TrialReply, TrialRequest

__all__ = ["check_reply", "record_trial"]

_FINISHES = frozenset({"length", "stop"})
_MAX_REPLY_CHARACTERS = 1_000_000


async def record_trial(
    service: Service, actor: str, scenario: Scenario, gate: Gate, request: TrialRequest
) -> tuple[Appended, ev.GateTrial]:
    """Store and append one trial of *gate*.

    Raises `Conflict` when it is not the one due, the candidate was revoked, or another token's
    claim of the gate holds, `BadRequest` for a malformed reply, and `Refused` for a task that was
    not drawn.
    """
    position = revoked_at(scenario, gate.opened.candidate_id)
    if position is not None and gate.outcome is None:
        raise Conflict(
            f"The candidate of gate {gate.opened.gate_id} was revoked at {position}; no trial is "
            "taken any more.",
            next_step="Claim again, and end the gate as errored: the channel waits for that.",
            reasons=[Reason(code="revoked", message=f"the candidate was revoked at {position}")],
        )
    if gate.outcome is None:
        service.claims.require_free(actor, scenario, gate)
    due = gate.due()
    if due != (request.slot, request.side, request.attempt):
        raise Conflict(
            f"Gate {gate.opened.gate_id} "
            + (f"ended as {gate.outcome}." if gate.outcome else f"waits for {due}, not for this."),
            next_step="Claim again to see which trial is due.",
        )
    if (request.reply is None) == (request.error is None):
        raise BadRequest(
            "A trial has either a reply or an error.", next_step="Send one of the two."
        )
    body = error = verdict = None
    if request.reply is None:
        error = request.error
    else:
        check_reply(request.reply, gate.policy.generation.max_new_tokens)
        await service.log.check()
        body = await service.blobs.put_body(_body(gate, request, request.reply))
        if request.reply.finish_reason == "length":
            error = "truncated"
        else:
            verdict = service.live.fold.verdict(
                gate.part.verifiers, request.reply.reply, gate.tasks[request.slot].answer
            )
    trial = ev.GateTrial(
        gate_id=gate.opened.gate_id,
        slot=request.slot,
        side=request.side,
        attempt=request.attempt,
        task_id=request.task_id,
        body=body,
        error=error,
        verdict=verdict,
    )
    appended, _ = await service.commands.append(actor, scenario.name, trial)
    return appended, trial


def check_reply(reply: TrialReply, max_new_tokens: int) -> None:
    """Raises `BadRequest` for a reply that no engine gives."""
    if reply.finish_reason not in _FINISHES:
        raise BadRequest(f"finish_reason is one of {sorted(_FINISHES)}.")
    if len(reply.token_ids) > max_new_tokens:
        raise BadRequest(
            f"{len(reply.token_ids)} tokens; the policy ends a reply after {max_new_tokens}.",
            next_step="Generate with the policy's settings.",
        )
    if len(reply.reply) > _MAX_REPLY_CHARACTERS:
        raise BadRequest(f"A reply has at most {_MAX_REPLY_CHARACTERS} characters.")
    if not reply.token_ids or len(reply.token_ids) != len(reply.logprobs):
        raise BadRequest(
            f"{len(reply.token_ids)} token ids and {len(reply.logprobs)} log-probabilities.",
            next_step="Send exactly one log-probability per sampled token, and no padding.",
        )
    if not reply.prompt_token_ids:
        raise BadRequest("The prompt's token ids are missing.")
    if any(not math.isfinite(value) or value > 0 for value in reply.logprobs):
        raise BadRequest("A log-probability is a finite number of at most 0.")
    ids = (*reply.prompt_token_ids, *reply.token_ids)
    if any(not 0 <= token < 2**31 for token in ids):
        raise BadRequest("A token id is out of range.")


def _body(gate: Gate, request: TrialRequest, reply: TrialReply) -> bytes:
    opened = gate.opened
    release_id = opened.candidate_id if request.side == "candidate" else opened.base
    return msgspec.json.encode(
        TrialBody(
            task_id=request.task_id,
            side=request.side,
            release_id=release_id or "",
            sampling_seed=sampling_seed(bytes.fromhex(opened.seed), request.slot),
            prompt_token_ids=reply.prompt_token_ids,
            token_ids=reply.token_ids,
            logprobs=reply.logprobs,
            reply=reply.reply,
            finish_reason=reply.finish_reason,
        )
    )
