"""``python -m trainer.engines.scoring``: runs recorded tokens through weights, for an audit.

Reads JSON lines ``{directory, foundation, requests: [{question, prompt_token_ids, token_ids,
temperature}]}`` and answers each with a line ``{scores: [{prompt_token_ids, reply, logprobs}]}``
or ``{error}``. A directory is loaded once and kept until another is named; with a foundation (the
directory of a full model) it holds a LoRA adapter on that.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from reef_release.errors import ReefError
from trainer.engines.transformers_engine import TransformersEngine
from trainer.engines.weights import ModelFiles

__all__ = ["Answer", "Batch", "Request", "Score", "main"]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens to score after a prompt; ``question`` is one user message."""

    question: str
    prompt_token_ids: list[int]
    token_ids: list[int]
    temperature: float


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Requests for the model in one directory."""

    directory: str
    foundation: str | None = None
    requests: list[Request]


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """The question's ids by the model's own template, the tokens' text and log-probabilities."""

    prompt_token_ids: list[int]
    reply: str
    logprobs: list[float]


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Scores in the order of the requests, or what prevented them."""

    scores: list[Score] = []
    error: str = ""


def main() -> None:
    """Answer line by line until the input ends."""
    engine = TransformersEngine()
    loaded: tuple[str, str | None] | None = None
    for line in sys.stdin:
        try:
            batch = msgspec.json.decode(line, type=Batch)
            if (batch.directory, batch.foundation) != loaded:
                below = batch.foundation
                engine.load(
                    Path(batch.directory),
                    foundation=None if below is None else ModelFiles(directory=Path(below)),
                )
                loaded = batch.directory, batch.foundation
            answer = Answer(scores=[_score(engine, request) for request in batch.requests])
        except (ReefError, msgspec.DecodeError) as error:
            answer = Answer(error=str(error))
        sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
        sys.stdout.flush()


def _score(engine: TransformersEngine, request: Request) -> Score:
    return Score(
        prompt_token_ids=list(engine.encode(request.question)),
        reply=engine.decode(request.token_ids),
        logprobs=engine.score(request.prompt_token_ids, request.token_ids, request.temperature),
    )


if __name__ == "__main__":
    main()
