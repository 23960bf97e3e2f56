"""Generation in this process with a transformers model.

What always holds: a request runs from its first token to its last on one set of weights; a swap
waits for the request that is running and nothing that starts after it sees the old weights; a
swap that fails changes nothing. No cache outlives a request, so a prompt gives the same reply
before and after a swap and back. Requests run one at a time and unbatched: a reply depends on
its weights, prompt, sampling and seed, and on no other request.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import torch

from reef_release.errors import BadRequest, Unavailable
from trainer.engines.decoding import Finished, Started, Token, finite, log_softmax, sample
from trainer.engines.protocol import (
    FinishReason,
    Generation,
    Messages,
    Sampling,
    TimedOut,
    as_messages,
    check_seed,
)
from trainer.engines.weights import LoadedModel, ModelFiles, load_model

__all__ = ["TransformersEngine"]


class TransformersEngine:
    """One model in memory, swapped between requests. Safe to call from several threads."""

    def __init__(self, *, threads: int = 1) -> None:
        """``threads`` is torch's for the whole process; one is often fastest for small models."""
        torch.set_num_threads(threads)
        self._lock = threading.Lock()
        self._loaded: LoadedModel | None = None

    @property
    def current(self) -> LoadedModel | None:
        """What is loaded now, as one value: a swap replaces it and never changes it."""
        return self._loaded

    @property
    def loaded(self) -> Mapping[str, str]:
        """Path to sha256 of what was really loaded; empty when nothing is."""
        return {} if self._loaded is None else dict(self._loaded.files)

    @property
    def release_id(self) -> str | None:
        """The name that the loaded weights were given."""
        return None if self._loaded is None else self._loaded.release_id

    def load(
        self,
        directory: Path,
        expected: Mapping[str, str] | None = None,
        release_id: str | None = None,
        *,
        foundation: ModelFiles | None = None,
    ) -> Mapping[str, str]:
        """Load ``directory`` and put it in place of what is loaded; returns ``loaded``.

        With a ``foundation``, ``directory`` is a LoRA adapter on it. Old and new weights are in
        memory for a moment. Raises as ``weights.load_model`` does and then keeps what was loaded
        before.
        """
        fresh = load_model(
            ModelFiles(directory=directory, files=expected, release_id=release_id), foundation
        )
        with self._lock:
            self._loaded = fresh
        return dict(fresh.files)

    swap = load

    def generate(
        self,
        prompt: Messages | str,
        sampling: Sampling,
        seed: int,
        *,
        timeout_s: float | None = None,
    ) -> Generation:
        """See ``protocol.Engine``; the time is looked at after each token."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        prompt_token_ids: tuple[int, ...] = ()
        tokens: list[Token] = []
        finish: FinishReason = "length"
        with closing(self.stream(prompt, sampling, seed)) as events:
            for event in events:
                if isinstance(event, Started):
                    prompt_token_ids = event.prompt_token_ids
                elif isinstance(event, Finished):
                    finish = event.reason
                else:
                    tokens.append(event)
                    if deadline is not None and time.monotonic() > deadline:
                        raise TimedOut(
                            f"the reply had {len(tokens)} tokens after {timeout_s} seconds",
                            next_step="Allow more time, or use a faster machine.",
                        )
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
            yield from sample(loaded, prompt_token_ids, sampling, seed)

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
            logits = finite(output.logits[0, len(prompt_token_ids) - 1 :])
        logprobs = log_softmax(logits, temperature)
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
