"""Whether the token data of a reply can be trained on.

A sample is trained on the sampled ids that its mask leaves, with the log-probabilities that they
were sampled with. What does not fit together is refused with its reason and never padded or cut.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["temperature_fault", "token_fault"]

_LARGEST_ID = 2**31 - 1
_LEAST_LOGPROB = -1e4
"""Nothing that was sampled is less probable; engines write about as much for minus infinity."""
_TEMPERATURES = (0.01, 10.0)
"""Colder, one token has all the probability there is; hotter, chance alone chooses."""


def temperature_fault(temperature: float | None) -> str | None:
    """Why no reply sampled at this temperature can be trained on; None if it can.

    None is 1, OpenAI's default. At 0 the likeliest token is taken, and nothing is sampled: there
    is no distribution that a log-probability could be of.
    """
    coldest, hottest = _TEMPERATURES
    # Also a fault for what is not a number.
    return None if temperature is None or coldest <= temperature <= hottest else "temperature"


def token_fault(
    prompt_token_ids: Sequence[int] | None,
    token_ids: Sequence[int] | None,
    logprobs: Sequence[float | None] | None,
    mask: Sequence[int] | None,
) -> str | None:
    """Why the data cannot be trained on, as a reason's code; None if it can.

    `logprobs[i]` is the natural log-probability of `token_ids[i]` when it was sampled; `mask[i]` is
    1 if that is trained, else 0, and no mask is all 1.
    """
    if prompt_token_ids is None and token_ids is None and logprobs is None:
        return "no-token-data"
    if not prompt_token_ids or not token_ids or logprobs is None:
        return "incomplete-token-data"
    if {len(logprobs), len(token_ids if mask is None else mask)} != {len(token_ids)}:
        return "length-mismatch"
    if mask is not None and not {0, 1}.issuperset(mask):
        return "no-mask"
    # Also false for what is not a number.
    if not all(value is not None and _LEAST_LOGPROB <= value <= 0 for value in logprobs):
        return "not-a-log-probability"
    if any(not 0 <= each <= _LARGEST_ID for ids in (prompt_token_ids, token_ids) for each in ids):
        return "token-id-out-of-range"
    return None
