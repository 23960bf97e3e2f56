"""Generation in this process with a transformers model.

What always holds: a request runs from its first token to its last on one set of weights; a swap
waits for the request that is running and nothing that starts after it sees the old weights; a
swap that fails changes nothing. No cache outlives a request, so a prompt gives the same reply
before and after a swap and back. Requests run one at a time and unbatched: a reply depends on
its weights, prompt, sampling and seed, and on no other request.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch
from transformers import DynamicCache

from reef_release.domain.reasons import Reason
from reef_release.errors import BadRequest, Refused, Unavailable
from trainer.engines.protocol import (
    FinishReason,
    Generation,
    Messages,
    Sampling,
    as_messages,
    check_seed,
)
from trainer.engines.weights import LoadedModel, load_model

__all__ = ["Finished", "Started", "Token", "TransformersEngine"]

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


class TransformersEngine:
    """One model in memory, swapped between requests. Safe to call from several threads."""

    def __init__(self, *, threads: int = 1) -> None:
        """``threads`` is torch's for the whole process; one is often fastest for small models."""
        torch.set_num_threads(threads)
        self._lock = threading.Lock()
        self._loaded: LoadedModel | None = None

    @property
    def loaded(self) -> Mapping[str, str]:
        """Path to sha256 of what was really loaded; empty when nothing is."""
        return {} if self._loaded is None else dict(self._loaded.files)

    @property
    def release_id(self) -> str | None:
        """The name that the loaded weights were given."""
        return None if self._loaded is None else self._loaded.release_id

    @property
    def context_tokens(self) -> int | None:
        """How many tokens prompt and reply may have together."""
        return None if self._loaded is None else self._loaded.context_tokens

    @property
    def is_loaded(self) -> bool:
        return self._loaded is not None

    def load(
        self,
        directory: Path,
        expected: Mapping[str, str] | None = None,
        release_id: str | None = None,
    ) -> Mapping[str, str]:
        """Load ``directory`` and put it in place of what is loaded; returns ``loaded``.

        Both are in memory for a moment. Raises as ``weights.load_model`` does and then keeps
        what was loaded before.
        """
        fresh = load_model(directory, expected, release_id)
        with self._lock:
            self._loaded = fresh
        return dict(fresh.files)

    swap = load

    def generate(self, prompt: Messages | str, sampling: Sampling, seed: int) -> Generation:
        """See ``protocol.Engine``."""
        prompt_token_ids: tuple[int, ...] = ()
        tokens: list[Token] = []
        finish: FinishReason = "length"
        for event in self.stream(prompt, sampling, seed):
            if isinstance(event, Started):
                prompt_token_ids = event.prompt_token_ids
            elif isinstance(event, Token):
                tokens.append(event)
            else:
                finish = event.reason
        return Generation(
            prompt_token_ids=prompt_token_ids,
            token_ids=tuple(token.token_id for token in tokens),
            logprobs=tuple(token.logprob for token in tokens),
            text="".join(token.text for token in tokens),
            finish_reason=finish,
        )

    def stream(
        self, prompt: Messages | str, sampling: Sampling, seed: int
    ) -> Generator[Started | Token | Finished, None, None]:
        """What ``generate`` gives, as it comes: ``Started``, each ``Token``, ``Finished``.

        The weights stay locked until the generator is exhausted or closed.
        """
        check_seed(seed)
        with self._lock:
            loaded = self._require()
            prompt_token_ids = _encode(loaded, as_messages(prompt))
            _require_room(loaded, len(prompt_token_ids), sampling.max_new_tokens)
            yield Started(prompt_token_ids=prompt_token_ids, release_id=loaded.release_id)
            yield from _sample(loaded, prompt_token_ids, sampling, seed)

    @torch.inference_mode()
    def score(
        self, prompt_token_ids: Sequence[int], token_ids: Sequence[int], temperature: float
    ) -> list[float]:
        """See ``protocol.Engine``."""
        Sampling(temperature=temperature)
        with self._lock:
            loaded = self._require()
            sequence = [*prompt_token_ids, *token_ids]
            if not prompt_token_ids or not token_ids:
                raise BadRequest(
                    "prompt_token_ids or token_ids is empty",
                    next_step="Give at least one token of each.",
                )
            vocabulary = int(loaded.model.config.vocab_size)
            if not all(0 <= token < vocabulary for token in sequence):
                raise BadRequest(
                    f"a token id is outside 0..{vocabulary - 1}",
                    next_step="Score tokens that came from this model's tokenizer.",
                )
            _require_room(loaded, len(prompt_token_ids), len(token_ids))
            # The last token predicts nothing that is asked for.
            output = loaded.model(input_ids=torch.tensor([sequence[:-1]]), use_cache=False)
            logits = _finite(output.logits[0, len(prompt_token_ids) - 1 :])
        logprobs = _log_softmax(logits, temperature)
        chosen = logprobs.gather(1, torch.tensor([list(token_ids)]).T)
        return [float(value) for value in chosen[:, 0]]

    def encode(self, prompt: Messages | str) -> tuple[int, ...]:
        """The token ids of ``prompt`` by the loaded model's chat template."""
        return _encode(self._require(), as_messages(prompt))

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of ``token_ids`` without special tokens."""
        return str(self._require().tokenizer.decode(token_ids, skip_special_tokens=True))

    def _require(self) -> LoadedModel:
        if self._loaded is None:
            raise Unavailable("no model is loaded", next_step="Load a release first.")
        return self._loaded


def _encode(loaded: LoadedModel, messages: list[dict[str, str]]) -> tuple[int, ...]:
    if not messages:
        raise BadRequest("there are no messages", next_step="Send at least one message.")
    ids = loaded.tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, return_dict=False
    )
    return tuple(ids)


def _require_room(loaded: LoadedModel, prompt_tokens: int, new_tokens: int) -> None:
    if prompt_tokens + new_tokens > loaded.context_tokens:
        raise BadRequest(
            f"{prompt_tokens} prompt tokens and {new_tokens} new ones do not fit into "
            f"{loaded.context_tokens}",
            next_step="Shorten the conversation or ask for fewer tokens.",
        )


@torch.inference_mode()
def _step(model: Any, token_ids: Sequence[int], cache: DynamicCache) -> torch.Tensor:
    output = model(
        input_ids=torch.tensor([list(token_ids)]),
        cache=cache,  # grows in place
        use_cache=True,
        logits_to_keep=1,
    )
    return _finite(output.logits[0, -1])


def _sample(
    loaded: LoadedModel, prompt_token_ids: Sequence[int], sampling: Sampling, seed: int
) -> Iterator[Token | Finished]:
    generator = torch.Generator().manual_seed(seed)
    ids: list[int] = []
    shown = ""
    pending: Sequence[int] = prompt_token_ids
    cache = DynamicCache(config=loaded.model.config)
    while len(ids) < sampling.max_new_tokens:
        logits = _step(loaded.model, pending, cache)
        logprobs = _log_softmax(logits, sampling.temperature)
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


def _log_softmax(logits: torch.Tensor, temperature: float) -> torch.Tensor:
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


def _finite(logits: torch.Tensor) -> torch.Tensor:
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
