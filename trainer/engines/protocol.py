"""What every engine can do: answer a conversation, and score tokens it is given.

What always holds:

- a log-probability is the full-vocabulary log-softmax of ``logits / temperature``, in nats, of
  the token at that place; at temperature 0 (greedy) it is taken at temperature 1;
- ``token_ids`` are the sampled tokens, the end token included when the model gave one, and
  ``logprobs`` has exactly one value for each of them;
- ``finish_reason`` is ``stop`` only when the model gave an end token itself; a reply that was
  cut by a limit is ``length``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from reef_release.errors import BadRequest, Unavailable

__all__ = [
    "Engine",
    "FinishReason",
    "Generation",
    "Messages",
    "Sampling",
    "TimedOut",
    "as_messages",
    "check_seed",
]

Messages = Sequence[Mapping[str, str]]
FinishReason = Literal["stop", "length"]

_MAX_SEED = 2**63 - 1


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """How a reply is sampled. Raises ``BadRequest`` for values that no engine can follow."""

    temperature: float = 1.0
    """0 takes the most probable token each time."""
    max_new_tokens: int = 256

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature <= 100.0:  # false for NaN, too
            raise BadRequest(
                f"temperature is {self.temperature}",
                next_step="Give a temperature from 0 to 100.",
            )
        if self.max_new_tokens < 1:
            raise BadRequest(
                f"max_new_tokens is {self.max_new_tokens}", next_step="Ask for at least one token."
            )


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """A sampled reply."""

    prompt_token_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    text: str
    finish_reason: FinishReason


class TimedOut(Unavailable):
    """The reply did not end within the time that the caller allowed."""

    problem, title = "timed-out", "The reply took too long"


class Engine(Protocol):
    """Generation and scoring, wherever the weights are."""

    def generate(
        self,
        prompt: Messages | str,
        sampling: Sampling,
        seed: int,
        *,
        timeout_s: float | None = None,
    ) -> Generation:
        """Answer ``prompt``; a string is one user message.

        The reply is a function of the weights, the prompt, the sampling and the seed. Raises
        ``BadRequest`` when the prompt cannot be used or does not fit, ``Refused`` when the
        weights give numbers that are not finite, ``TimedOut`` when the reply is not whole after
        ``timeout_s``, ``Unavailable`` when nothing is loaded or the engine cannot be reached.
        """
        ...

    def score(
        self, prompt_token_ids: Sequence[int], token_ids: Sequence[int], temperature: float
    ) -> list[float]:
        """Log-probability of each of ``token_ids`` after the prompt, by one forward pass.

        Raises as ``generate`` does.
        """
        ...


def as_messages(prompt: Messages | str) -> list[dict[str, str]]:
    """The conversation that a prompt stands for."""
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    return [dict(message) for message in prompt]


def check_seed(seed: int) -> None:
    """Raise ``BadRequest`` for a seed outside 0..2^63-1."""
    if not 0 <= seed <= _MAX_SEED:
        raise BadRequest(f"seed is {seed}", next_step="Give a seed from 0 to 2^63-1.")
