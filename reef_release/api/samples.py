"""One sample with all that training needs, from the bodies that the log names."""

from __future__ import annotations

import msgspec

from reef_release.api.bodies import BODY_LIMIT_BYTES, next_state_of, read_body
from reef_release.artifacts.blobs import BlobStore
from reef_release.artifacts.errors import BlobCorrupt, BlobMissing, BlobTooLarge
from reef_release.domain import events as ev
from reef_release.domain.judging import Judgment, sample_terms
from reef_release.domain.state import Scenario
from reef_release.traffic_wire import BatchSampleView

__all__ = ["sample_view"]

_HINT_LIMIT_BYTES = 1024 * 1024
_LIMIT_BYTES = BODY_LIMIT_BYTES
"""As JSON; a batch of them is one answer."""
_UNREADABLE = (BlobMissing, BlobCorrupt, BlobTooLarge, msgspec.DecodeError, ValueError)


async def sample_view(
    blobs: BlobStore, scenario: Scenario, sample: ev.BatchSample
) -> BatchSampleView | None:
    """The sample; None when something of it is erased, damaged, or too large to be sent."""
    try:
        view = await _view(blobs, scenario, sample)
        encoded = b"" if view is None else msgspec.json.encode(view)
    except (*_UNREADABLE, RecursionError):
        return None
    return view if len(encoded) <= _LIMIT_BYTES else None


async def _view(
    blobs: BlobStore, scenario: Scenario, sample: ev.BatchSample
) -> BatchSampleView | None:
    turns = scenario.traffic.turns
    turn = turns[sample.turn_id]
    judged = turn.judged
    following = turns.get(turn.next_id or "")
    if judged is None or following is None:
        return None
    body = await read_body(blobs, turns[sample.target].body)
    next_body = await read_body(blobs, following.body)
    hints = [await _hint(blobs, digest) for digest in judged.hints]
    terms = sample_terms(
        Judgment(
            score=judged.score,
            about=judged.about,
            rejected="",
            keep="",
            hints=tuple(hints),
            valid=judged.valid,
            asked=judged.asked,
        )
    )
    return BatchSampleView(
        turn_id=sample.turn_id,
        target=sample.target,
        release_id=sample.release_id,
        messages=body.messages,
        reply=body.reply or {},
        prompt_token_ids=body.prompt_token_ids or [],
        token_ids=body.token_ids or [],
        logprobs=[each for each in body.logprobs or [] if each is not None],
        mask=body.mask,
        temperature=body.temperature,
        score=judged.score,
        hints=hints,
        policy=terms is not None and terms.policy,
        distillation=terms is not None and terms.distillation,
        hinted=terms is not None and terms.hinted,
        next_state=next_state_of(next_body.messages),
    )


async def _hint(blobs: BlobStore, digest: str) -> str:
    return (await blobs.read_body(digest, _HINT_LIMIT_BYTES)).decode("utf-8")
