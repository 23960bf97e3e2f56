"""Development tasks: which weights are worth a gate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reef_release.errors import SettingsError
from tests.unit.trainer.worker.fakes import score_of
from trainer.engines.protocol import Sampling
from trainer.engines.weights import ModelFiles
from trainer.tiny.problems import draw_many, export
from trainer.tiny.shipped import BETTER, ORIGIN
from trainer.worker.development import Development, read_development
from trainer.worker.screening import Screener, is_worth_a_gate
from trainer.worker.settings import ScreeningSettings

ALL = ("answer@1", "work_steps@1", "style@1")


def tasks(directory: Path, count: int = 6) -> Path:
    path = directory / "development.jsonl"
    path.write_bytes(b"".join(export(draw_many("development", count, seed=0))))
    return path


@pytest.mark.parametrize(
    ("new", "serving", "worth"),
    [
        ((5, 10), (0, 10), True),
        ((4, 10), (0, 10), False),
        ((9, 9), (0, 10), True),
        ((9, 8), (0, 10), False),
        ((5, 10), (9, 10), False),
        ((5, 10), (5, 10), False),
        ((6, 10), (5, 10), True),
    ],
)
def test_weights_are_worth_a_gate_when_good_enough_better_and_not_less_often_right(
    new: tuple[int, int], serving: tuple[int, int], worth: bool
) -> None:
    settings = ScreeningSettings(submit_pass_rate=0.5, right_answers_margin=0.1)
    assert is_worth_a_gate(score_of(*new), score_of(*serving), settings) is worth
    assert not is_worth_a_gate(score_of(*new), score_of(*serving), ScreeningSettings())


@pytest.mark.parametrize(
    ("text", "verifiers", "why"),
    [
        ("", ALL, "no task"),
        ('{"id": "1", "question": "2 + 2?"}', ALL, "Line 1"),
        ('{"id": "1", "question": "2 + 2?", "answer": "4"}', ("style@1",), "answer"),
        ('{"id": "1", "question": "2 + 2?", "answer": "4"}', ("answr@1",), "answr"),
        ('{"id": "1", "question": "2 + 2?", "answer": ""}', ALL, "answer"),
    ],
)
def test_what_cannot_be_graded_is_refused_before_anything_is_trained(
    tmp_path: Path, text: str, verifiers: tuple[str, ...], why: str
) -> None:
    path = tmp_path / "development.jsonl"
    path.write_text(text)
    with pytest.raises(SettingsError, match=why):
        read_development(path, verifiers, None)


def test_only_the_first_tasks_are_read_with_a_limit(tmp_path: Path) -> None:
    assert len(read_development(tasks(tmp_path), ALL, 2).tasks) == 2
    everything = read_development(tasks(tmp_path), ("answer", "style"), None)
    assert everything.verifiers == ("answer@1", "style@1")
    assert everything.digest != read_development(tasks(tmp_path), ("answer",), None).digest


@pytest.fixture(scope="module")
def development(tmp_path_factory: pytest.TempPathFactory) -> Development:
    return read_development(tasks(tmp_path_factory.mktemp("tasks")), ALL, None)


def test_the_better_model_passes_what_the_origin_does_not(
    development: Development, tmp_path: Path
) -> None:
    screener = Screener(development, 0, 1, tmp_path / "scores")
    sampling = Sampling(temperature=0.7, max_new_tokens=96)
    origin = screener(ModelFiles(directory=ORIGIN, release_id="a"), None, sampling)
    better = screener(ModelFiles(directory=BETTER, release_id="b"), None, sampling)
    assert (origin.count, origin.passed) == (6, 0)
    assert origin.right >= 4
    assert better.passed >= 4
    # Kept: the directory that was named then is not looked at any more.
    again = screener(ModelFiles(directory=tmp_path, release_id="b"), None, sampling)
    assert again == better
    assert len(list((tmp_path / "scores").iterdir())) == 2


def test_a_reply_that_is_cut_passes_nothing(development: Development, tmp_path: Path) -> None:
    screener = Screener(development, 0, 1, tmp_path / "scores")
    found = screener(
        ModelFiles(directory=BETTER, release_id="b"),
        None,
        Sampling(temperature=0.7, max_new_tokens=4),
    )
    assert (found.passed, found.right, found.cut) == (0, 0, 6)


def test_lines_of_json_are_what_the_generator_writes(tmp_path: Path) -> None:
    first = json.loads(tasks(tmp_path).read_bytes().splitlines()[0])
    assert first.keys() == {"id", "question", "answer"}
