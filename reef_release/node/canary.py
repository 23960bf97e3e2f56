"""Canaries: what the gate measured on the weights, measured again on the engine.

Digests say which files an engine read; only its own log-probabilities say which weights it
computes with. (vLLM's `reload_weights` answers 200 with tied embeddings and keeps the old
output head.) The comparison is the largest absolute difference over all tokens, in nats; what
is not a finite number differs infinitely.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from reef_release.domain.reasons import Reason
from reef_release.errors import Refused

__all__ = ["CANARY_LIMIT_BYTES", "Canary", "largest_difference", "parse_canaries"]

CANARY_LIMIT_BYTES = 4 * 1024 * 1024

Score = Callable[[Sequence[int], Sequence[int]], Sequence[float]]
"""Log-probabilities of tokens after a prompt, at temperature 1."""


class Canary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One prompt with its greedy continuation; `logprobs` are in nats at temperature 1."""

    prompt: str
    prompt_token_ids: list[int]
    token_ids: list[int]
    logprobs: list[float]


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    canaries: list[Canary]


def parse_canaries(blob: bytes, prompts: Sequence[str]) -> tuple[Canary, ...]:
    """The canaries in *blob*, one for each of the policy's *prompts*. Raises `Refused`.

    A record that measures nothing would let every engine through, so it is refused.
    """
    try:
        canaries = msgspec.json.decode(blob, type=_Record).canaries
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _refused(f"the canary record cannot be read: {error}") from error
    if [canary.prompt for canary in canaries] != list(prompts):
        raise _refused("the canary record is not over the policy's prompts")
    for canary in canaries:
        if not canary.prompt_token_ids or not canary.token_ids:
            raise _refused(f"the canary {canary.prompt[:80]!r} has no tokens")
        if len(canary.logprobs) != len(canary.token_ids):
            raise _refused(f"the canary {canary.prompt[:80]!r} has not one value for each token")
        if not all(map(math.isfinite, canary.logprobs)):
            raise _refused(f"the canary {canary.prompt[:80]!r} has values that are not finite")
    return tuple(canaries)


def largest_difference(canaries: Sequence[Canary], score: Score) -> float:
    """The largest absolute difference in nats; infinite when *score* gives anything odd."""
    largest = 0.0
    for canary in canaries:
        measured = score(canary.prompt_token_ids, canary.token_ids)
        if len(measured) != len(canary.logprobs) or not all(map(math.isfinite, measured)):
            return math.inf
        differences = (abs(a - b) for a, b in zip(measured, canary.logprobs, strict=True))
        largest = max(largest, *differences)
    return largest


def _refused(message: str) -> Refused:
    return Refused(
        "The release's canaries cannot be used.",
        next_step="The node goes on serving its last good release; gate the candidate again.",
        reasons=[Reason(code="canary-record", message=message)],
    )
