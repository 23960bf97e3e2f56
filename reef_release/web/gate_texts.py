"""The texts behind a gate's trials, read for whoever may read them and only as far as shown.

What each check found is worked out again by the verifiers that the policy names, in a thread: the
log keeps whether a check passed, and a verifier gives the same reasons for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from anyio.to_thread import run_sync

from reef_release.api.service import Service
from reef_release.domain.checks import TrialBody
from reef_release.domain.gate import Gate
from reef_release.tokens import Principal, TokenRole
from reef_release.verifiers.registry import verdict
from reef_release.web.gate_trials import Text, bodies_of
from reef_release.web.stored_text import Stored, cut, read_stored

__all__ = ["may_read_texts", "texts_of"]

_BODY = msgspec.json.Decoder(TrialBody)


def may_read_texts(principal: Principal) -> bool:
    """Whether *principal* reads tasks and replies: auditors alone, as over HTTP."""
    return principal.role is TokenRole.AUDIT


async def texts_of(
    service: Service, principal: Principal, gate: Gate, slots: Sequence[int]
) -> Mapping[str, Text] | None:
    """The texts of the trials in *slots*, by the digests of their bodies; None for others."""
    if not may_read_texts(principal):
        return None
    answers = {
        trial.body: (gate.tasks[trial.slot].answer, trial.verdict is not None)
        for trial in gate.trials
        if trial.body is not None
    }
    texts = {}
    for digest in bodies_of(gate, slots):
        answer, is_judged = answers[digest]
        may_read = service.readers.may_read(principal, digest)
        specs = gate.part.verifiers if is_judged else []
        stored = await read_stored(
            service.blobs, digest, _BODY.decode, may_read=may_read, erased=service.state.erased
        )
        texts[digest] = await _text(stored, specs, answer)
    return texts


async def _text(stored: Stored[TrialBody], specs: Sequence[str], answer: str) -> Text:
    body = stored.value
    if body is None:
        return Text(fault=stored.state.words)
    found = await run_sync(verdict, specs, body.reply, answer) if specs else None
    reply, left_out = cut(body.reply)
    return Text(
        reply=reply,
        left_out=left_out,
        finish_reason=body.finish_reason,
        tokens=len(body.token_ids),
        checks=None
        if found is None
        else {name: (check.found, check.why) for name, check in found.checks.items()},
    )
