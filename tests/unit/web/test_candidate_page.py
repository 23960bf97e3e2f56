"""A candidate's page: what became of it, and where it differs from the model beside it."""

from __future__ import annotations

import json
import math
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from reef_release.artifacts.directory_store import DirectoryBlobStore
from reef_release.domain.events import FileEntry
from reef_release.domain.gate import Gate
from reef_release.domain.state import State
from reef_release.web.candidate_page import CandidatePage, candidate_page
from reef_release.web.candidates_list import candidate_lines, undecided_among
from reef_release.web.config_difference import config_difference
from reef_release.web.facts import gate_at
from reef_release.web.file_difference import file_difference
from reef_release.web.score_difference import score_difference
from reef_release.web.tensor_difference import TensorDifference, tensor_difference
from tests.training import Trainer
from tests.web_story import WebStory, tell, tensors, trial_positions
from tests.world import CHANNEL, World, safetensors


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> WebStory:
    return tell(Path(tmp_path_factory.mktemp("story")))


def page(
    story: WebStory,
    candidate_id: str,
    *,
    at: int | None = None,
    state: State | None = None,
    against: str = "",
) -> CandidatePage:
    at = story.world.head if at is None else at
    state = state or story.state
    scenario = state.scenarios[story.scenario.name]
    candidate = scenario.candidates[candidate_id]
    gates = {
        gate_id: gate_at(scenario.gates[gate_id], at, trial_positions(story.world, gate_id, at))
        for gate_id in candidate.gates
        if scenario.gates[gate_id].opened_position <= at
    }
    return candidate_page(state, scenario, candidate, at, gates, against)


def test_a_promoted_candidate_tells_its_steps_in_order(story: WebStory) -> None:
    found = page(story, story.paired)
    assert [step.what for step in found.steps] == [
        "submitted",
        "admitted",
        "drawn",
        "gate opened",
        "gate passed",
        "weights signed",
        "approved",
        "promoted",
    ]
    assert found.is_serving
    assert (found.status, found.reasons) == ("promoted", ())
    assert [step.position for step in found.steps] == sorted(step.position for step in found.steps)


def test_a_release_tells_when_it_was_taken_away(story: WebStory) -> None:
    moves = story.scenario.pointers[CHANNEL]
    names = {"promoted", "replaced", "rolled back to", "rolled back from"}
    found = page(story, story.second)
    told = [(each.position, each.what) for each in found.steps if each.what in names]
    assert told == [
        (moves[1].position, "promoted"),
        (moves[2].position, "rolled back from"),
        (moves[3].position, "rolled back to"),
        (moves[4].position, "replaced"),
    ]
    details = {each.what: each.detail for each in found.steps}
    assert details["rolled back from"] == f"to {story.origin[:12]}: “{moves[2].reason}”"
    assert details["replaced"] == f"by {story.paired[:12]}, promoted"
    before = page(story, story.second, at=moves[1].position)
    assert before.steps[-1].what == "promoted"


def test_the_list_marks_what_is_served_and_what_was(story: WebStory) -> None:
    lines = candidate_lines(story.state, story.scenario, story.world.head, 99, {})
    served = {each.candidate_id: each.served for each in lines if each.served}
    assert served == {story.origin: "before", story.second: "before", story.paired: "now"}


def test_a_parent_that_was_never_submitted_is_named(tmp_path: Path) -> None:
    """Weights of a line's first batch need not be submitted for those of its second to be."""
    world = World(tmp_path)
    world.create_scenario()
    origin = world.release()
    trainer = Trainer(world)
    trainer.train()
    elsewhere = trainer.line.weights_id
    trainer.train()
    own = trainer.line.weights_id
    assert own is not None
    world.append(trainer.submission(parent=elsewhere))
    found = page_of(world, own).ancestors
    assert [(each.candidate_id, each.submitted_position) for each in found] == [(elsewhere, None)]
    direct = page_of(world, world.submit(parent=origin)).ancestors
    assert [each.candidate_id for each in direct] == [origin]
    assert direct[0].submitted_position is not None


def page_of(world: World, candidate_id: str) -> CandidatePage:
    found = world.scenario.candidates[candidate_id]
    return candidate_page(world.state, world.scenario, found, world.head, {})


def test_a_refused_candidate_has_every_reason(story: WebStory) -> None:
    found = page(story, story.refused)
    assert found.status == "refused"
    assert found.headline == "Refused at admission, for 1 reason."
    assert [reason.code for reason in found.reasons] == ["not-finite"]


def test_a_revoked_release_says_so_first(story: WebStory) -> None:
    found = page(story, story.origin)
    assert found.status == "revoked"
    assert "revoked" in {reason.code for reason in found.reasons}
    assert [step.what for step in found.steps].count("rolled back to") == 1


def test_a_passed_candidate_that_waits_for_people_says_for_how_many(story: WebStory) -> None:
    passed = next(
        gate
        for gate in story.scenario.gates.values()
        if gate.decision_position is not None
        and gate.outcome == "passed"
        and gate.policy.approvals == 1
        and gate.opened.candidate_id != story.paired
    )
    found = page(story, passed.opened.candidate_id)
    assert [reason.code for reason in found.reasons] == ["not-approved"]


def test_the_page_of_a_position_is_the_one_that_was_shown_then(story: WebStory) -> None:
    for at in range(story.world.head, story.scenario.created_position, -9):
        state = story.state_at(at)
        scenario = state.scenarios[story.scenario.name]
        for candidate_id in scenario.candidates:
            assert page(story, candidate_id, at=at) == page(story, candidate_id, at=at, state=state)
        wanted = undecided_among(scenario, at, 50)
        assert wanted == undecided_among(story.scenario, at, 50)
        trials = {each: trial_positions(story.world, each, at) for each in wanted}
        assert candidate_lines(state, scenario, at, 50, trials) == candidate_lines(
            story.state, story.scenario, at, 50, trials
        )


def test_it_stands_beside_what_is_served_unless_that_is_itself(story: WebStory) -> None:
    serving = page(story, story.second).other
    assert (serving.candidate_id, serving.role) == (story.paired, "serving")
    base = page(story, story.second, against="base").other
    assert (base.candidate_id, base.role) == (story.origin, "base")
    itself = page(story, story.paired).other
    assert (itself.candidate_id, itself.role) == (story.second, "base")
    named = page(story, story.paired, against=story.origin).other
    assert (named.candidate_id, named.role) == (story.origin, "named")


def test_an_origin_that_is_served_has_nothing_beside_it(story: WebStory) -> None:
    promoted = next(
        step.position for step in page(story, story.origin).steps if step.what == "promoted"
    )
    other = page(story, story.origin, at=promoted).other
    assert other.candidate_id is None
    assert other.why


def test_scores_have_regressions_first_and_the_worst_check_first(story: WebStory) -> None:
    gate: Gate = story.scenario.gates[story.paired_gate]
    scores = score_difference(gate)
    assert scores.checks[0].name is None
    assert (scores.checks[0].lost, scores.checks[0].won) == (1, len(scores.tasks) - 2)
    assert scores.tasks[0].score == "lost"
    assert scores.tasks[0].lost == ("answer@1",)
    assert scores.tasks[0].slot == 2
    differences = [check.difference for check in scores.checks[1:]]
    assert differences == sorted(differences)
    assert scores.checks[0].difference == scores.checks[0].won - scores.checks[0].lost


def test_an_origin_has_tasks_and_no_pairs(story: WebStory) -> None:
    gate = story.scenario.gates[story.scenario.candidates[story.origin].gates[0]]
    scores = score_difference(gate)
    assert scores.checks == ()
    assert [task.incumbent for task in scores.tasks] == [None, None]


def test_the_list_has_the_newest_first_with_what_its_gate_came_to(story: WebStory) -> None:
    head = story.world.head
    trials = {story.open_gate: trial_positions(story.world, story.open_gate, head)}
    lines = candidate_lines(story.state, story.scenario, head, 2, trials)
    assert [line.status for line in lines] == ["in gate", "promoted"]
    assert lines[1].difference is not None
    assert lines[1].difference > 0
    older = candidate_lines(
        story.state, story.scenario, head, 50, {}, until=lines[-1].submitted_position - 1
    )
    assert len(lines) + len(older) == len(story.scenario.candidates)
    refused = next(line for line in older if line.status == "refused")
    assert (refused.why, refused.more) == ("", 0)
    assert refused.reason is not None
    assert refused.reason.message == "a value is NaN"
    assert refused.reason.code


def entry(path: str, content: str) -> FileEntry:
    return FileEntry(path=path, sha256=content * 64, size_bytes=3)


def test_files_that_differ_come_before_those_that_do_not() -> None:
    before = [entry("a.json", "a"), entry("b.json", "b"), entry("c.json", "c")]
    after = [entry("a.json", "a"), entry("b.json", "d"), entry("e.json", "e")]
    found = [(line.change, line.path) for line in file_difference(before, after)]
    assert found == [
        ("changed", "b.json"),
        ("removed", "c.json"),
        ("added", "e.json"),
        ("same", "a.json"),
    ]


def test_a_config_is_compared_by_field() -> None:
    before = {"hidden": 64, "rope": {"theta": 1e4, "type": "x"}, "gone": [1], "same": True}
    after = {"hidden": 128, "rope": {"theta": 1e4, "type": "y"}, "new": None, "same": True}
    found = config_difference(
        "config.json", json.dumps(before).encode(), json.dumps(after).encode()
    )
    assert [(each.path, each.before, each.after) for each in found.fields] == [
        ("gone", "[1]", None),
        ("hidden", "64", "128"),
        ("new", None, "null"),
        ("rope.type", '"x"', '"y"'),
    ]
    assert found.same == 2


def test_a_config_that_is_no_strict_json_says_why() -> None:
    found = config_difference("config.json", b"{}", b'{"a": 1, "a": 2}')
    assert "the key 'a' stands twice" in found.fault


class Models:
    """Two models in a blob store."""

    def __init__(self, directory: Path) -> None:
        self.blobs = DirectoryBlobStore(directory, min_free_bytes=0)

    def files(self, **shards: bytes) -> list[FileEntry]:
        return [
            FileEntry(
                path=f"{name}.safetensors",
                sha256=self.blobs.put_bytes_sync(data),
                size_bytes=len(data),
            )
            for name, data in shards.items()
        ]

    def compare(
        self, before: bytes, after: bytes, limit_bytes: int | None = None
    ) -> TensorDifference:
        sides = self.files(model=before), self.files(model=after)
        return tensor_difference(self.blobs, *sides, limit_bytes=limit_bytes)


def test_of_too_many_tensors_the_values_are_not_read(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = safetensors(1), safetensors(2)
    assert models.compare(before, after, 1000).is_measured
    monkeypatch.setattr("reef_release.web.tensor_difference.LIMIT_TENSORS", 0)
    found = models.compare(before, after, 1000)
    assert not found.is_measured
    assert [line.change for line in found.lines] == ["not read"]


def floats(*values: float, code: str = "f") -> bytes:
    return struct.pack(f"<{len(values)}{code}", *values)


def bfloats(*values: float) -> bytes:
    return b"".join(struct.pack("<f", value)[2:] for value in values)


@pytest.fixture
def models(tmp_path: Path) -> Models:
    return Models(tmp_path / "blobs")


@pytest.mark.parametrize(
    ("dtype", "before", "after"),
    [
        ("F32", floats(3, 4, 0), floats(3, 4, 2)),
        ("F16", floats(3, 4, 0, code="e"), floats(3, 4, 2, code="e")),
        ("F64", floats(3, 4, 0, code="d"), floats(3, 4, 2, code="d")),
        ("BF16", bfloats(3, 4, 0), bfloats(3, 4, 2)),
        ("I32", struct.pack("<3i", 3, 4, 0), struct.pack("<3i", 3, 4, 2)),
    ],
)
def test_the_distance_of_a_tensor_is_that_of_its_values(
    models: Models, dtype: str, before: bytes, after: bytes
) -> None:
    found = models.compare(
        tensors({"w": (dtype, [3], before)}), tensors({"w": (dtype, [3], after)})
    )
    (line,) = found.lines
    assert (line.change, line.norm, line.relative) == ("changed", "2", "0.4")
    assert line.before == f"{dtype} [3]"


def test_a_tensor_longer_than_a_block_is_summed_over_all_blocks(models: Models) -> None:
    count = 150_000
    zeros, ones = floats(*[1.0] * count), floats(*[2.0] * count)
    found = models.compare(
        tensors({"w": ("F32", [count], zeros)}), tensors({"w": ("F32", [count], ones)})
    )
    assert found.lines[0].norm == f"{math.sqrt(count):.4g}"
    assert found.lines[0].relative == "1"


def test_another_dtype_of_the_same_values_is_a_change_of_nothing(models: Models) -> None:
    found = models.compare(
        tensors({"w": ("F32", [2], floats(1, 2))}), tensors({"w": ("BF16", [2], bfloats(1, 2))})
    )
    (line,) = found.lines
    assert (line.change, line.norm, line.after) == ("changed", "0", "BF16 [2]")


def test_tensors_are_told_by_name_and_those_that_moved_most_come_first(models: Models) -> None:
    before = tensors(
        {
            "gone": ("F32", [1], floats(1)),
            "little": ("F32", [1], floats(10)),
            "much": ("F32", [1], floats(1)),
            "same": ("F32", [1], floats(5)),
            "shape": ("F32", [2], floats(1, 1)),
        }
    )
    after = tensors(
        {
            "little": ("F32", [1], floats(11)),
            "much": ("F32", [1], floats(3)),
            "new": ("F32", [1], floats(1)),
            "same": ("F32", [1], floats(5)),
            "shape": ("F32", [1, 2], floats(1, 1)),
        }
    )
    found = models.compare(before, after)
    assert [(line.change, line.name) for line in found.lines] == [
        ("removed", "gone"),
        ("added", "new"),
        ("reshaped", "shape"),
        ("changed", "much"),
        ("changed", "little"),
        ("same", "same"),
    ]


def test_values_that_are_no_numbers_are_told_as_such(models: Models) -> None:
    found = models.compare(
        tensors({"w": ("F32", [1], floats(0)), "z": ("F32", [1], floats(1))}),
        tensors({"w": ("F32", [1], floats(2)), "z": ("F32", [1], floats(math.nan))}),
    )
    assert {line.name: (line.norm, line.relative) for line in found.lines} == {
        "w": ("2", "from zero"),
        "z": ("not finite", "not finite"),
    }


def test_above_the_limit_no_value_is_read(models: Models) -> None:
    before = tensors({"w": ("F32", [1], floats(1))})
    after = tensors({"w": ("F32", [1], floats(2))})
    found = models.compare(before, after, limit_bytes=len(before))
    assert not found.is_measured
    assert [(line.change, line.norm) for line in found.lines] == [("not read", "")]


def test_a_file_without_a_header_is_named_and_the_rest_is_compared(models: Models) -> None:
    good = tensors({"w": ("F32", [1], floats(1))})
    found = tensor_difference(
        models.blobs, models.files(a=good), models.files(a=good, b=b"nonsense")
    )
    assert [line.change for line in found.lines] == ["same"]
    assert found.faults[0].startswith("b.safetensors: ")


def test_the_command_on_the_page_tells_the_same_of_files(tmp_path: Path) -> None:
    paths = []
    for number, value in enumerate((1.0, 3.0)):
        path = tmp_path / f"{number}.safetensors"
        path.write_bytes(tensors({"w": ("F32", [1], floats(value))}))
        paths.append(str(path))
    command = [sys.executable, "-m", "reef_release.web.tensor_difference", *paths]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout == "changed\tw\tF32 [1]\tF32 [1]\t2\t2\n"
    assert subprocess.run(command[:-1], capture_output=True, check=False).returncode == 2
