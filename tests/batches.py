"""A batch as the service hands it out: replies that the tiny origin really gave."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from reef_release.traffic_wire import BatchAssignment, BatchSampleView
from trainer.engines.protocol import Sampling
from trainer.engines.transformers_engine import TransformersEngine
from trainer.tiny.phrases import hints
from trainer.tiny.problems import draw_many
from trainer.tiny.shipped import ORIGIN

__all__ = ["HINTS", "RELEASE", "TEMPERATURE", "make_batch", "replies"]

RELEASE = "a" * 64
TEMPERATURE = 0.7
HINTS = hints("style", "held_out")


@cache
def replies(count: int) -> tuple[BatchSampleView, ...]:
    engine = TransformersEngine()
    engine.load(ORIGIN)
    sampling = Sampling(temperature=TEMPERATURE, max_new_tokens=96)
    views = []
    for place, problem in enumerate(draw_many("stream", count, seed=1)):
        messages = [{"role": "user", "content": problem.question}]
        reply = engine.generate(messages, sampling, place)
        views.append(
            BatchSampleView(
                turn_id=f"turn-{place}",
                target=f"turn-{place}",
                release_id=RELEASE,
                messages=messages,
                reply={"role": "assistant", "content": reply.text},
                prompt_token_ids=list(reply.prompt_token_ids),
                token_ids=list(reply.token_ids),
                logprobs=list(reply.logprobs),
                temperature=TEMPERATURE,
                score=-1,
                hints=[],
                policy=True,
                distillation=True,
                hinted=False,
                next_state=[{"role": "user", "content": "No bold, please."}],
            )
        )
    return tuple(views)


def with_terms(view: BatchSampleView, place: int) -> BatchSampleView:
    """Every fourth sample: a score and a hint, two hints alone, a rejection, a praise."""
    changes: list[dict[str, Any]] = [
        {"hints": [HINTS[0]], "hinted": True},
        {"hints": [HINTS[1], HINTS[2]], "hinted": True, "score": 0, "policy": False},
        {},
        {"score": 1},
    ]
    return msgspec.structs.replace(view, **changes[place % 4])


def make_batch(
    count: int = 8, change: Callable[[list[BatchSampleView]], list[BatchSampleView]] | None = None
) -> BatchAssignment:
    samples = [with_terms(view, place) for place, view in enumerate(replies(count))]
    return BatchAssignment(
        scenario="homework",
        batch_id="b" * 32,
        channel="stable",
        release_id=RELEASE,
        lease_id="lease",
        lease_s=60.0,
        samples=samples if change is None else change(samples),
    )
