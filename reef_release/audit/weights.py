"""Recorded replies against the weights: did this candidate give these replies at all?

The fold recomputes every verdict from the raw reply, but a lying gate worker could have posted
replies of its own. Their token ids are therefore run through the weights: the prompt must be
that of the drawn task, the text must be that of the tokens, and every log-probability must be
the recorded one within a tolerance. What runs the weights is the caller's (`Scorer`): nothing
here needs a training stack.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import msgspec

from reef_release.audit.release_files import ReleaseFiles, release_files
from reef_release.audit.report import Problems, WeightsReport
from reef_release.audit.walk import Walk
from reef_release.domain.gate import Gate
from reef_release.domain.state import Scenario
from reef_release.errors import ReefError

__all__ = ["DEFAULT_TOLERANCE", "Score", "ScoreRequest", "Scorer", "check_weights"]

DEFAULT_TOLERANCE = 1e-3
"""Nats. Two machines' float32 forward passes differ by 1e-5 or so, other weights by far more."""

_BATCH = 64
_CANARY_LIMIT_BYTES = 16 * 1024 * 1024


class ScoreRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens to run through weights.

    `question` is one user message. `temperature` divides the logits before the log-softmax; it
    is 1 for a greedy reply.
    """

    question: str
    prompt_token_ids: list[int]
    token_ids: list[int]
    temperature: float


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """What the weights and their tokenizer say of a request.

    `prompt_token_ids` are those of the question by the release's own chat template, `reply` is
    the text of `token_ids`, `logprobs` are their natural log-probabilities after the request's
    `prompt_token_ids`.
    """

    prompt_token_ids: list[int]
    reply: str
    logprobs: list[float]


Scorer = Callable[[ReleaseFiles, Sequence[ScoreRequest]], Sequence[Score]]
"""Runs requests through one release's files, one score per request, in order.

All calls for a release follow one another, so a scorer loads each of them once. It raises a
`ReefError` when the files cannot be loaded.
"""


class _Canary(msgspec.Struct):
    prompt: str
    prompt_token_ids: list[int]
    token_ids: list[int]
    logprobs: list[float]


class _Canaries(msgspec.Struct):
    canaries: list[_Canary]


@dataclass(frozen=True, kw_only=True)
class _Recorded:
    """A request with what was recorded of it; `reply` is None for a canary."""

    request: ScoreRequest
    logprobs: list[float]
    reply: str | None
    position: int


@dataclass
class _Tally:
    releases: int = 0
    trials: int = 0
    canaries: int = 0
    tokens: int = 0
    max_difference: float = 0.0


@dataclass(kw_only=True)
class _Work:
    """What was recorded of one release: bodies by digest with their task, and canary blobs."""

    scenario: Scenario
    trials: list[tuple[str, str, float]] = field(default_factory=list)
    canaries: list[tuple[str, list[str], int]] = field(default_factory=list)


def check_weights(
    walk: Walk, scorer: Scorer, directory: Path | None, tolerance: float
) -> WeightsReport:
    """Compare every recorded reply and canary; differences become problems of *walk*.

    Files come from `directory/<release id>/`, else from the export; their digests are checked.
    """
    tally = _Tally()
    for release_id, work in _work_by_release(walk).items():
        where = f"weights/{release_id}"
        try:
            with release_files(walk.folder.blobs, work.scenario, release_id, directory) as files:
                tally.releases += 1
                for batch in _batches(_recorded(walk, work, where)):
                    scores = scorer(files, [each.request for each in batch])
                    if len(scores) != len(batch):
                        walk.problems.add(where, "scorer", "The scorer left requests out.")
                    for recorded, score in zip(batch, scores, strict=False):
                        _compare(recorded, score, where, walk.problems, tally, tolerance)
        except ReefError as error:
            walk.problems.add_error(where, error)
    return WeightsReport(
        release_count=tally.releases,
        trial_count=tally.trials,
        canary_count=tally.canaries,
        token_count=tally.tokens,
        max_difference=tally.max_difference,
        tolerance=tolerance,
    )


def _work_by_release(walk: Walk) -> dict[str, _Work]:
    work: dict[str, _Work] = {}
    for scenario in walk.state.scenarios.values():
        for gate in scenario.gates.values():
            temperature = _temperature(gate)
            for trial in gate.trials:
                release_id = gate.opened.candidate_id
                if trial.side == "incumbent":
                    release_id = gate.opened.base or ""
                if trial.body is not None:
                    entry = work.setdefault(release_id, _Work(scenario=scenario))
                    question = gate.tasks[trial.slot].question
                    entry.trials.append((trial.body, question, temperature))
            if gate.canary is not None and gate.decision_position is not None:
                entry = work.setdefault(gate.opened.candidate_id, _Work(scenario=scenario))
                entry.canaries.append(
                    (gate.canary, list(gate.policy.canaries), gate.decision_position)
                )
    return work


def _temperature(gate: Gate) -> float:
    return float(Decimal(gate.policy.generation.temperature)) or 1.0


def _recorded(walk: Walk, work: _Work, where: str) -> Iterator[_Recorded]:
    for digest, question, temperature in work.trials:
        body = walk.checks.trial(digest)
        yield _Recorded(
            request=ScoreRequest(
                question=question,
                prompt_token_ids=body.prompt_token_ids,
                token_ids=body.token_ids,
                temperature=temperature,
            ),
            logprobs=body.logprobs,
            reply=body.reply,
            position=walk.trial_positions[digest],
        )
    for digest, prompts, position in work.canaries:
        data = walk.folder.blobs.read_sync(digest, _CANARY_LIMIT_BYTES)
        try:
            canaries = msgspec.json.decode(data, type=_Canaries).canaries
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            walk.problems.add(where, "canary", f"The canary is malformed: {error}.", position)
            continue
        if [canary.prompt for canary in canaries] != prompts:
            message = "The canary has other prompts than the policy."
            walk.problems.add(where, "canary", message, position)
        for canary in canaries:
            yield _Recorded(
                request=ScoreRequest(
                    question=canary.prompt,
                    prompt_token_ids=canary.prompt_token_ids,
                    token_ids=canary.token_ids,
                    temperature=1.0,
                ),
                logprobs=canary.logprobs,
                reply=None,
                position=position,
            )


def _batches(items: Iterator[_Recorded]) -> Iterator[list[_Recorded]]:
    batch: list[_Recorded] = []
    for item in items:
        batch.append(item)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _compare(
    recorded: _Recorded,
    score: Score,
    where: str,
    problems: Problems,
    tally: _Tally,
    tolerance: float,
) -> None:
    request, position = recorded.request, recorded.position
    if recorded.reply is None:
        tally.canaries += 1
    else:
        tally.trials += 1
        if score.reply != recorded.reply:
            message = "The recorded reply is not the text of the recorded tokens."
            problems.add(where, "reply-differs", message, position)
    tally.tokens += len(request.token_ids)
    if score.prompt_token_ids != request.prompt_token_ids:
        message = "The recorded prompt is not that of the drawn task or canary."
        problems.add(where, "prompt-differs", message, position)
    if not len(score.logprobs) == len(recorded.logprobs) == len(request.token_ids):
        message = "Tokens and log-probabilities differ in number."
        problems.add(where, "logprobs-differ", message, position)
        return
    pairs = zip(score.logprobs, recorded.logprobs, strict=True)
    # NaN must not compare as equal: an unordered difference counts as infinite.
    differences = [abs(one - other) for one, other in pairs]
    largest = max((math.inf if math.isnan(each) else each for each in differences), default=0.0)
    tally.max_difference = max(tally.max_difference, largest)
    if largest > tolerance:
        message = (
            f"A log-probability differs by {largest:.6f} nats from what these weights give; "
            f"{tolerance} is allowed."
        )
        problems.add(where, "logprobs-differ", message, position)
