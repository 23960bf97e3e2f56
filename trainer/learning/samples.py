"""Recorded turns into samples that can be trained on, or the reason why not.

What always holds: a sample's ids, log-probabilities and mask have one length and are finite; it
comes from a release that the batch names; it is whole; its tokens are those of the recorded
messages, so that whoever looked at those looked at what is trained. What is wrong is refused,
never cut, padded or mended.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import msgspec
from jinja2 import TemplateError

from reef_release.domain.traffic.tokens import temperature_fault, token_fault
from reef_release.errors import BadRequest
from reef_release.traffic_wire import BatchAssignment, BatchSampleView
from trainer.learning.prompts import hinted_messages, render
from trainer.learning.settings import TrainingSettings
from trainer.learning.texts import is_said

__all__ = ["Model", "Sample", "Skipped", "load_samples", "places", "read_batch", "summary"]

_SCORES = (-1, 0, 1)
_TEMPLATE_FAULTS = (ValueError, TypeError, KeyError, TemplateError)


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """A judged turn, ready."""

    turn_id: str
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    """The sampled reply."""
    logprobs: tuple[float, ...]
    """As the server recorded them, in nats, at `temperature`."""
    temperature: float
    reward: float
    """The raw score; 0 when the sample feeds no policy term."""
    distilled: bool
    teacher_prompts: tuple[tuple[int, ...], ...]
    """One per hint; the plain prompt alone when there is none."""
    hint_characters: tuple[int, ...]
    mask: tuple[int, ...]
    """1 for each token of the reply that is trained, 0 for the others."""
    lagging: bool
    """It comes from another release than the one served when the batch was formed.

    The drift, which is measured against that one's weights, says nothing of it. All else is the
    same: old log-probabilities are those of the weights before the first step.
    """
    truncated: bool
    """The reply does not end with a token that ends replies."""
    filler: bool = False
    """All of its reply is masked: it adds nothing, and only takes a place."""

    @property
    def teaches(self) -> bool:
        """Whether it feeds a term; one that feeds none adds 0 to the mean over samples."""
        return self.distilled or self.reward != 0

    def beside(self, found: Sequence[float]) -> tuple[list[float], list[float]]:
        """*found* for each token of the reply, and what was recorded, of what is trained."""
        rows = zip(found, self.logprobs, self.mask, strict=True)
        kept = [(here, there) for here, there, trained in rows if trained]
        return [here for here, _ in kept], [there for _, there in kept]


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """A sample that is left out: a code, and a sentence about it."""

    turn_id: str
    reason: str
    detail: str


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """What samples have to fit."""

    tokenizer: Any
    vocabulary: int
    context_tokens: int
    end_token_ids: Set[int]


class _Refusal(Exception):
    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.detail = reason, detail


def read_batch(document: bytes) -> BatchAssignment:
    """The batch in a JSON *document*, as the service hands it out. Raises `BadRequest`."""
    try:
        return msgspec.json.decode(document, type=BatchAssignment)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(
            f"This is no batch: {error}.",
            next_step="Give what `POST …/batches/claim` answers, as one JSON object.",
        ) from error


def load_samples(
    batch: BatchAssignment, model: Model, settings: TrainingSettings
) -> tuple[list[Sample], list[Skipped]]:
    """The batch's samples in their order, and those that are left out."""
    samples: list[Sample] = []
    skipped: list[Skipped] = []
    for view in batch.samples:
        try:
            samples.append(_load(view, batch, model, settings))
        except _Refusal as refusal:
            skipped.append(
                Skipped(turn_id=view.turn_id, reason=refusal.reason, detail=refusal.detail)
            )
    return samples, skipped


def places(samples: Sequence[Sample], processes: int) -> list[Sample]:
    """The samples in equal shares, one process's after the other's.

    Where they do not divide evenly, fillers take the last places.
    """
    missing = -len(samples) % processes
    shortest = min(samples, key=lambda each: len(each.prompt_ids) + len(each.token_ids))
    filler = msgspec.structs.replace(
        shortest, filler=True, teacher_prompts=(shortest.prompt_ids,), hint_characters=(0,)
    )
    return [*samples, *[filler] * missing]


def summary(samples: Sequence[Sample]) -> dict[str, float]:
    """How many there are, the mean length of replies, the share cut short, the mean score."""
    if not samples:
        return {"samples": 0.0}
    count = len(samples)
    return {
        "samples": float(count),
        "reply_tokens": sum(len(each.token_ids) for each in samples) / count,
        "truncated": sum(each.truncated for each in samples) / count,
        "mean_score": sum(each.reward for each in samples) / count,
    }


def _load(
    view: BatchSampleView, batch: BatchAssignment, model: Model, settings: TrainingSettings
) -> Sample:
    if view.release_id not in (batch.release_id, *batch.releases):
        raise _Refusal(
            "foreign-release", f"sampled by {view.release_id}; the batch is of {batch.release_id}"
        )
    fault = token_fault(view.prompt_token_ids, view.token_ids, view.logprobs, view.mask)
    if fault is not None:
        raise _Refusal(fault, "the recorded token data cannot be trained on")
    for ids in (view.prompt_token_ids, view.token_ids):
        if max(ids) >= model.vocabulary:
            raise _Refusal("token-id-out-of-range", f"the model has {model.vocabulary} tokens")
    mask = view.mask or [1] * len(view.token_ids)
    if settings.objective == "trl" and 0 in mask:
        raise _Refusal("masked", "the objective of TRL trains every token of a reply")
    temperature = 1.0 if view.temperature is None else view.temperature
    if temperature_fault(temperature) is not None:
        raise _Refusal("temperature", f"sampled at {temperature}: no distribution to learn from")
    if view.score not in _SCORES:
        raise _Refusal("score", f"the score is {view.score}, not -1, 0 or 1")
    reward = float(view.score) if view.policy else 0.0
    distilled = view.distillation and (view.hinted or settings.teach_unhinted)
    if settings.hints.require_same_prompt:
        _require_same(view, model.tokenizer, settings)
    if not is_said(model.tokenizer, view.token_ids, view.reply):
        raise _Refusal("other-text", "its tokens do not say what is recorded as the reply")
    prompts = _teacher_prompts(view, model.tokenizer, settings)
    limit = min(settings.max_sample_tokens, model.context_tokens)
    longest = len(view.token_ids) + max(map(len, (view.prompt_token_ids, *prompts)))
    if longest > limit:
        raise _Refusal("too-long", f"{longest} tokens with its prompt; {limit} are allowed")
    return Sample(
        turn_id=view.turn_id,
        prompt_ids=tuple(view.prompt_token_ids),
        token_ids=tuple(view.token_ids),
        logprobs=tuple(view.logprobs),
        temperature=temperature,
        reward=reward,
        distilled=distilled,
        teacher_prompts=prompts,
        hint_characters=tuple(map(len, view.hints)) if view.hinted else (0,),
        mask=tuple(mask),
        lagging=view.release_id != batch.release_id,
        truncated=view.token_ids[-1] not in model.end_token_ids,
    )


def _teacher_prompts(
    view: BatchSampleView, tokenizer: Any, settings: TrainingSettings
) -> tuple[tuple[int, ...], ...]:
    plain = tuple(view.prompt_token_ids)
    if not view.hinted:
        return (plain,)
    if not view.hints:
        raise _Refusal("no-hint", "the sample is said to have a hint and has none")
    rendering = settings.hints
    try:
        return tuple(
            render(tokenizer, hinted_messages(view.messages, hint, rendering), rendering)
            for hint in view.hints
        )
    except _TEMPLATE_FAULTS as error:
        raise _Refusal("prompt", f"the hinted prompt cannot be rendered: {error}") from error


def _require_same(view: BatchSampleView, tokenizer: Any, settings: TrainingSettings) -> None:
    try:
        rendered = render(tokenizer, view.messages, settings.hints)
    except _TEMPLATE_FAULTS as error:
        raise _Refusal("prompt", f"the prompt cannot be rendered: {error}") from error
    recorded = tuple(view.prompt_token_ids)
    if rendered != recorded:
        raise _Refusal(
            "other-prompt",
            f"the chat template makes {len(rendered)} tokens of the messages; {len(recorded)}"
            " others were answered. Set hints.chat_template_arguments as the server does.",
        )
