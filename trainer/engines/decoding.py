"""One reply, token by token: forward pass, log-probabilities, choice.

What always holds: a token follows from the logits before it and one uniform number of the
seed's generator; logits that are not finite end the reply with an error, never with a token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import torch
from transformers import DynamicCache

from reef_release.domain.reasons import Reason
from reef_release.errors import Refused
from trainer.engines.protocol import FinishReason, Sampling
from trainer.engines.weights import LoadedModel

__all__ = ["Finished", "Started", "Token", "finite", "log_softmax", "sample"]

_REPLACEMENT = "\ufffd"


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """The prompt was accepted; what follows comes from these weights."""

    prompt_token_ids: tuple[int, ...]
    release_id: str | None


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """One sampled token; ``text`` is what the reply grew by, often nothing in mid-character."""

    token_id: int
    logprob: float
    text: str


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """The reply is over."""

    reason: FinishReason


@torch.inference_mode()
def _step(model: Any, token_ids: Sequence[int], cache: DynamicCache) -> torch.Tensor:
    output = model(
        input_ids=torch.tensor([list(token_ids)]),
        cache=cache,  # grows in place
        use_cache=True,
        logits_to_keep=1,
    )
    return finite(output.logits[0, -1])


def sample(
    loaded: LoadedModel, prompt_token_ids: Sequence[int], sampling: Sampling, seed: int
) -> Iterator[Token | Finished]:
    """Each token of the reply to the prompt, then why it ended."""
    generator = torch.Generator().manual_seed(seed)
    ids: list[int] = []
    shown = ""
    pending: Sequence[int] = prompt_token_ids
    cache = DynamicCache(config=loaded.model.config)
    while len(ids) < sampling.max_new_tokens:
        logits = _step(loaded.model, pending, cache)
        if cache.get_seq_length() != len(prompt_token_ids) + len(ids):
            # Other versions name the argument otherwise, and swallow unknown ones.
            raise RuntimeError("this version of transformers did not use the cache it was given")
        logprobs = log_softmax(logits, sampling.temperature)
        token = _pick(logprobs, sampling.temperature, generator)
        ids.append(token)
        pending = ids[-1:]
        ended = token in loaded.end_token_ids
        text = loaded.tokenizer.decode(ids, skip_special_tokens=True)
        last = ended or len(ids) == sampling.max_new_tokens
        # A character may span tokens: hold it back until it is whole or nothing more comes.
        grown = text[len(shown) :] if last or not text.endswith(_REPLACEMENT) else ""
        shown += grown
        yield Token(token_id=token, logprob=float(logprobs[token]), text=grown)
        if ended:
            yield Finished(reason="stop")
            return
    yield Finished(reason="length")


def log_softmax(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    """Log-probabilities in nats, float64, over the last axis; temperature 0 is taken as 1."""
    return torch.log_softmax(logits.double() / (temperature or 1.0), dim=-1)


def _pick(logprobs: torch.Tensor, temperature: float, generator: torch.Generator) -> int:
    if temperature == 0.0:
        return int(logprobs.argmax())
    # The inverse of the distribution function takes one uniform number per token, so a change
    # in the last bit of a logit can change the token only where that number falls on an edge.
    # torch.multinomial draws one number per vocabulary entry and is not promised to be stable.
    threshold = torch.rand((), generator=generator, dtype=torch.float64)
    cumulative = logprobs.exp().cumsum(dim=-1)
    place = int(torch.searchsorted(cumulative, threshold * cumulative[-1], right=True))
    return min(place, logprobs.numel() - 1)


def finite(logits: torch.Tensor) -> torch.Tensor:
    """The same logits. Raises ``Refused`` when one of them is NaN or infinite."""
    if not bool(torch.isfinite(logits).all()):
        reason = Reason(
            code="non-finite-logits",
            message="a forward pass gave NaN or infinity",
            where="logits",
        )
        raise Refused(
            "the loaded weights give numbers that are not finite",
            reasons=[reason],
            next_step="Load another release; these weights cannot be served.",
        )
    return logits
