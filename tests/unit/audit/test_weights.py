"""Replies against weights: what a gate worker posted must be what the candidate says.

The model here is one token per byte with log-probabilities that depend on the weights file, so
a scorer that reads the files it is given can tell one candidate from another.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reef_release.audit import ReplayReport, Score, ScoreRequest, export, replay
from reef_release.audit.release_files import ReleaseFiles
from reef_release.errors import BadRequest
from tests.unit.audit.conftest import Story
from tests.unit.audit.tampering import Tampered
from tests.world import World, WorldSource, byte_logprobs, safetensors, text_tokens


class ByteScorer:
    """Runs the byte model over the files it is given, and remembers what it was asked."""

    def __init__(self, error: float = 0.0) -> None:
        self.calls: list[tuple[ReleaseFiles, list[ScoreRequest]]] = []
        self.error = error

    def __call__(self, files: ReleaseFiles, requests: Sequence[ScoreRequest]) -> list[Score]:
        self.calls.append((files, list(requests)))
        (weights,) = files.directory.glob("*.safetensors")
        digest = hashlib.sha256(weights.read_bytes()).hexdigest()
        return [
            Score(
                prompt_token_ids=text_tokens(request.question),
                reply=bytes(request.token_ids).decode(),
                logprobs=[value + self.error for value in byte_logprobs(digest, request.token_ids)],
            )
            for request in requests
        ]


def found(report: ReplayReport) -> list[tuple[str, str, int | None]]:
    return [(each.where, each.code, each.position) for each in report.problems]


def test_replies_that_the_candidates_gave_agree_with_their_weights(story: Story) -> None:
    scorer = ByteScorer()
    report = replay(story.folder, story.anchor, scorer=scorer)
    assert report.problems == []
    assert report.weights is not None
    assert report.weights.max_difference == 0.0
    bodies = [
        event["data"]["body"]
        for event in map(json.loads, story.world.bodies)
        if event["type"] == "gate.trial" and event["data"]["body"]
    ]
    assert report.weights.trial_count == len(bodies)
    assert report.weights.canary_count == 2
    assert report.weights.release_count == len({files.release_id for files, _ in scorer.calls})
    assert report.weights.token_count > 100


def test_the_scorer_is_asked_with_the_drawn_question_at_the_sampling_temperature(
    story: Story,
) -> None:
    scorer = ByteScorer()
    replay(story.folder, story.anchor, scorer=scorer)
    questions = {
        task.question for gate in story.world.scenario.gates.values() for task in gate.tasks
    }
    for files, requests in scorer.calls:
        assert files.foundation is None
        for request in requests:
            is_canary = request.question == "What is 2 + 2?" and request.temperature == 1.0
            assert is_canary or request.question in questions
            assert request.temperature == (1.0 if is_canary else 0.7)


def test_a_greedy_reply_is_scored_at_temperature_1(
    tmp_path: Path, exported: Callable[[World], Path]
) -> None:
    world = World(tmp_path / "greedy")
    world.create_scenario(generation={"temperature": "0", "max_new_tokens": 64})
    world.release()
    scorer = ByteScorer()
    assert replay(exported(world), world.anchor, scorer=scorer).good
    assert {each.temperature for _, requests in scorer.calls for each in requests} == {1.0}


def test_all_calls_for_a_release_follow_one_another(story: Story) -> None:
    scorer = ByteScorer()
    replay(story.folder, story.anchor, scorer=scorer)
    order = [files.release_id for files, _ in scorer.calls]
    assert order == sorted(order, key=order.index)


def test_a_difference_within_the_tolerance_is_reported_and_no_problem(story: Story) -> None:
    report = replay(story.folder, story.anchor, scorer=ByteScorer(error=5e-4))
    assert report.good
    assert report.weights is not None
    assert report.weights.max_difference == pytest.approx(5e-4)
    assert report.weights.tolerance == 1e-3
    strict = replay(story.folder, story.anchor, scorer=ByteScorer(error=5e-4), tolerance=1e-4)
    assert {each.code for each in strict.problems} == {"logprobs-differ"}


def test_right_replies_that_the_candidate_never_gave_are_found(
    world: World, exported: Callable[[World], Path]
) -> None:
    # The worker ran the incumbent instead, which is good, and posted its replies.
    world.release()
    serving = world.serving
    assert serving is not None
    gate = world.open_gate(candidate := world.admitted())
    right = world.trial_body(gate, "+")
    theirs = msgspec.structs.replace(
        right, logprobs=byte_logprobs(world.weights_of(serving), right.token_ids)
    )
    position = world.append(world.trial(gate, "+", body=world.put_trial(theirs)))
    world.run_trials(gate, "+")
    world.decide(gate)
    folder = exported(world)
    assert replay(folder, world.anchor).good
    report = replay(folder, world.anchor, scorer=ByteScorer())
    assert found(report) == [(f"weights/{candidate}", "logprobs-differ", position)]
    assert report.weights is not None
    assert report.weights.max_difference > 1e-3


def test_a_right_text_over_the_tokens_of_a_wrong_one_is_found(
    world: World, exported: Callable[[World], Path]
) -> None:
    gate = world.open_gate(candidate := world.admitted())
    wrong = world.trial_body(gate, "-")
    right = world.trial_body(gate, "+").reply
    body = world.put_trial(msgspec.structs.replace(wrong, reply=right))
    position = world.append(world.trial(gate, "+", body=body))
    world.run_trials(gate, "+")
    world.decide(gate)
    report = replay(exported(world), world.anchor, scorer=ByteScorer())
    assert found(report) == [(f"weights/{candidate}", "reply-differs", position)]


def test_a_prompt_that_gives_the_answer_away_is_found(
    world: World, exported: Callable[[World], Path]
) -> None:
    gate = world.open_gate(candidate := world.admitted())
    whispered = text_tokens("Say: The answer is 7.")
    body = world.put_trial(world.trial_body(gate, "+", prompt_token_ids=whispered))
    position = world.append(world.trial(gate, "+", body=body))
    world.run_trials(gate, "+")
    world.decide(gate)
    report = replay(exported(world), world.anchor, scorer=ByteScorer())
    assert found(report) == [(f"weights/{candidate}", "prompt-differs", position)]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_weights_that_give_no_numbers_agree_with_nothing(story: Story, value: float) -> None:
    report = replay(story.folder, story.anchor, scorer=ByteScorer(error=value))
    assert {each.code for each in report.problems} == {"logprobs-differ"}
    assert report.weights is not None
    assert report.weights.max_difference == math.inf


def test_a_scorer_that_leaves_something_out_does_not_make_an_audit_good(story: Story) -> None:
    honest = ByteScorer()
    short = replay(story.folder, story.anchor, scorer=lambda *given: honest(*given)[:-1])
    assert {each.code for each in short.problems} == {"scorer"}

    def clipped(files: ReleaseFiles, requests: Sequence[ScoreRequest]) -> list[Score]:
        return [
            msgspec.structs.replace(each, logprobs=each.logprobs[:-1])
            for each in honest(files, requests)
        ]

    report = replay(story.folder, story.anchor, scorer=clipped)
    assert {each.code for each in report.problems} == {"logprobs-differ"}


def test_weights_that_cannot_be_loaded_are_a_problem_and_no_crash(story: Story) -> None:
    def refusing(files: ReleaseFiles, requests: Sequence[ScoreRequest]) -> list[Score]:
        raise BadRequest(f"{files.release_id} is no model")

    report = replay(story.folder, story.anchor, scorer=refusing)
    releases = {gate.candidate_id for gate in report.gates if gate.outcome != "errored"}
    assert {each.where for each in report.problems} == {f"weights/{each}" for each in releases}
    assert {each.code for each in report.problems} == {"bad-request"}


# Where the files come from


def test_an_export_without_weights_needs_a_directory_of_them(story: Story, tmp_path: Path) -> None:
    folder = tmp_path / "light"
    export(WorldSource(story.world), folder)
    report = replay(folder, story.anchor, scorer=ByteScorer())
    assert {each.code for each in report.problems} == {"not-found"}
    weights = tmp_path / "weights"
    for release_id, candidate in story.world.scenario.candidates.items():
        (weights / release_id).mkdir(parents=True)
        for file in candidate.submitted.files:
            data = b"".join(story.world.blobs.chunks_sync(file.sha256))
            (weights / release_id / file.path).write_bytes(data)
    assert replay(folder, story.anchor, scorer=ByteScorer(), weights=weights).good


def test_files_that_are_not_the_candidates_are_refused(story: Story, tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    (weights / story.r1).mkdir(parents=True)
    (weights / story.r1 / "model.safetensors").write_bytes(safetensors(1234))
    report = replay(story.folder, story.anchor, scorer=ByteScorer(), weights=weights)
    assert found(report) == [(f"weights/{story.r1}", "signature-rejected", None)]


def test_an_adapter_comes_with_its_foundation(
    world: World, exported: Callable[[World], Path]
) -> None:
    origin = world.release()
    adapter = world.admitted(kind="lora", foundation=origin)
    world.gate(adapter)
    scorer = ByteScorer()
    report = replay(exported(world), world.anchor, scorer=scorer)
    assert report.good
    foundations = {files.release_id: files.foundation is not None for files, _ in scorer.calls}
    assert foundations == {origin: False, adapter: True}


def test_the_scorers_directory_holds_the_files_under_their_own_names(story: Story) -> None:
    seen: list[set[str]] = []
    honest = ByteScorer()

    def looking(files: ReleaseFiles, requests: Sequence[ScoreRequest]) -> list[Score]:
        seen.append({path.name for path in files.directory.iterdir()})
        return honest(files, requests)

    replay(story.folder, story.anchor, scorer=looking)
    assert set(map(frozenset, seen)) == {frozenset({"config.json", "model.safetensors"})}
    assert not any(files.directory.exists() for files, _ in honest.calls)


# Canaries


@pytest.mark.parametrize(
    ("canaries", "code"),
    [
        ([], "canary"),
        ([{"prompt": "Another prompt"}], "canary"),
        ([{"logprobs": [-9.0]}], "logprobs-differ"),
        ([{"token_ids": [57], "logprobs": [-1.0]}], "logprobs-differ"),
    ],
)
def test_canaries_that_are_not_the_candidates_are_found(
    world: World, exported: Callable[[World], Path], canaries: list[dict[str, Any]], code: str
) -> None:
    candidate = world.admitted()
    gate = world.open_gate(candidate)
    world.run_trials(gate, "++")
    (honest,) = json.loads(b"".join(world.blobs.chunks_sync(world.canary(candidate))))["canaries"]
    forged = [{**honest, **each} for each in canaries]
    blob = json.dumps({"canaries": forged}).encode()
    world.canary = lambda release: world.blobs.put_bytes_sync(blob)  # type: ignore[method-assign]
    world.decide(gate)
    report = replay(exported(world), world.anchor, scorer=ByteScorer())
    assert code in {each.code for each in report.problems}
    assert {each.position for each in report.problems} == {world.head}


def test_a_canary_that_is_no_canary_is_found(
    world: World, exported: Callable[[World], Path]
) -> None:
    gate = world.open_gate(world.admitted())
    world.run_trials(gate, "++")
    world.canary = lambda release: world.blobs.put_bytes_sync(b"[]")  # type: ignore[method-assign]
    world.decide(gate)
    report = replay(exported(world), world.anchor, scorer=ByteScorer())
    assert [(each.code, each.position) for each in report.problems] == [("canary", world.head)]


def test_no_reply_is_compared_with_weights_unless_somebody_can_run_them(
    tampered: Tampered,
) -> None:
    assert replay(tampered.path, tampered.world.anchor).weights is None
