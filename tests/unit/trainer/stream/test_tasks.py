from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from reef_release.errors import SettingsError
from trainer.stream.tasks import fresh_tasks, read_tasks, stream_tasks
from trainer.tiny.corpus import warm_start_conversation
from trainer.tiny.families import HOLDERS, NAMES, THINGS
from trainer.tiny.problems import draw_many

SEEDS = (*range(10), *range(100, 110))


def test_the_stream_shares_no_problem_with_what_is_trained_screened_or_gated() -> None:
    rng = random.Random(0)
    elsewhere = {warm_start_conversation(rng)[0]["content"].partition("\n")[0] for _ in range(5000)}
    for split, count in (("development", 1500), ("gate", 1500)):
        elsewhere |= {problem.question for problem in draw_many(split, count, seed=0)}
    for seed in SEEDS:
        tasks = [*stream_tasks(36, seed), *fresh_tasks(200, seed, 36)]
        assert not elsewhere & {task.question for task in tasks}


@pytest.mark.parametrize("seed", SEEDS)
def test_fresh_tasks_have_numbers_that_the_sessions_never_met(seed: int) -> None:
    fresh = fresh_tasks(200, seed, 36)
    assert len({task.id for task in fresh}) == 200
    met = {_told(task.question) for task in stream_tasks(36, seed)}
    assert not met & {_told(task.question) for task in fresh}


def _told(question: str) -> tuple[str, ...]:
    """A story without its names and things: its numbers, and the words of its family."""
    words = re.findall(r"\w+", question)
    return tuple(word for word in words if word not in {*NAMES, *THINGS, *HOLDERS})


def test_more_sessions_begin_with_the_same_tasks() -> None:
    assert stream_tasks(50, 100)[:36] == stream_tasks(36, 100)
    assert stream_tasks(36, 100) != stream_tasks(36, 101)


def test_tasks_are_read_from_a_file_gsm8k_solutions_included(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text(
        '{"question": "a?", "answer": "1,200", "id": "x"}\n\n'
        '{"question": "b?", "answer": "She has <<3*4=12>>12.\\n#### 12"}\n',
        "utf-8",
    )
    one, two = read_tasks(file)
    assert (one.id, one.key) == ("x", 1200)
    assert (two.id, two.key) == ("tasks-3", 12)


@pytest.mark.parametrize("line", ['{"question": "a?"}', "no json", '{"question":"a","answer":"b"}'])
def test_a_line_that_is_no_task_is_refused_by_its_number(tmp_path: Path, line: str) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text(f'{{"question": "a?", "answer": "1"}}\n{line}\n', "utf-8")
    with pytest.raises(SettingsError, match="line 2"):
        read_tasks(file)
