"""Canaries: greedy continuations whose log-probabilities identify the weights.

The gate records them while it runs the candidate; a node scores the same tokens through its
engine after a swap, and so notices an engine that serves other weights than it says.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainer.engines.protocol import Engine, Sampling

__all__ = ["CANARY_TOKENS", "canary_blob"]

CANARY_TOKENS = 16


def canary_blob(engine: Engine, prompts: Sequence[str], timeout_s: float | None = None) -> bytes:
    """JSON `{"canaries": [{prompt, prompt_token_ids, token_ids, logprobs}]}`.

    At most 16 greedy tokens each, each within *timeout_s*; log-probabilities in nats at
    temperature 1. Raises what the engine raises.
    """
    sampling = Sampling(temperature=0.0, max_new_tokens=CANARY_TOKENS)
    canaries = []
    for prompt in prompts:
        reply = engine.generate(prompt, sampling, 0, timeout_s=timeout_s)
        canaries.append(
            {
                "prompt": prompt,
                "prompt_token_ids": list(reply.prompt_token_ids),
                "token_ids": list(reply.token_ids),
                "logprobs": engine.score(reply.prompt_token_ids, reply.token_ids, 1.0),
            }
        )
    return msgspec.json.encode({"canaries": canaries})
