"""The check as a whole, and its parts that read no container."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from reef_release.domain.canonical import sha256_hex
from reef_release.domain.policy import parse_policy
from reef_release.errors import BadRequest
from reef_release.verifiers.registry import is_objective
from tests.conftest import REPOSITORY
from tests.unit.recipe.conftest import DOCKER
from trainer.recipe.check import Given, check
from trainer.recipe.memory import (
    OVERHEAD_GB,
    Dimensions,
    compared,
    read_models,
    serving_gb,
    training_gb,
)
from trainer.recipe.problems import apart, read_problems
from trainer.recipe.report import Report


def tasks(path: Path, questions: list[str]) -> Path:
    lines = [
        json.dumps({"id": str(number), "question": question, "answer": "1"})
        for number, question in enumerate(questions)
    ]
    path.write_text("\n".join(lines), "utf-8")
    return path


def test_the_recipe_as_it_is_shipped_is_in_order(tmp_path: Path) -> None:
    problems = tasks(tmp_path / "problems.jsonl", [f"What is 1 + {n}?" for n in range(72)])
    development = tasks(tmp_path / "development.jsonl", [f"What is 3 + {n}?" for n in range(9)])
    suite = tasks(tmp_path / "suite.jsonl", [f"What is 2 + {n}?" for n in range(100)])
    done = subprocess.run(
        [
            *(sys.executable, "-m", "trainer.recipe", "check"),
            *("--problems", problems, "--development", development, "--suite", suite),
        ],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout
    assert sum(line.startswith("OK") for line in lines) > 30
    unchecked = [line for line in lines if line.startswith("NOT CHECKED")]
    assert all(line.endswith("give --models DIR") for line in unchecked)


def test_mistakes_in_the_other_files_are_found(tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    shutil.copytree(DOCKER, docker, ignore=shutil.ignore_patterns("secrets"))
    recipe = docker / "recipe"
    for name, old, new in (
        ("fsdp.yaml", "fsdp_offload_params", "fsdp_offload_parameters"),
        ("train.toml", "top_k = 4", "top_q = 4"),
        ("policy.json", '"answer@1"', '"answers@1"'),
        ("models.toml", "num_hidden_layers = 64", "layers = 64"),
    ):
        text = (recipe / name).read_text("utf-8")
        assert old in text
        (recipe / name).write_text(text.replace(old, new), "utf-8")
    # Nothing of the commands is asked again here: that takes a process each.
    (recipe / "compose.yaml").write_text("services: {}", "utf-8")
    (docker / "compose.yaml").write_text(
        "services: {service: {}, trainer: {}, student-vllm: {entrypoint: [vllm, serve]}}", "utf-8"
    )
    few = tasks(tmp_path / "few.jsonl", ["a", "b"])
    report = check(Given(recipe=recipe, problems=few, suite=few, models=tmp_path))
    assert {line.what for line in report.failed} >= {
        "GPUs",
        "accelerate's configuration",
        "settings of the trainer",
        "policy",
        "dimensions",
        "memory of student-vllm",
        "memory of trainer",
        "problems",
        "no question twice",
    }
    (recipe / "compose.yaml").unlink()
    assert [line.what for line in check(Given(recipe=recipe)).failed][:1] == ["compose files"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("fsdp_version: 2", "fsdp_version: 1", "not 2"),
        ("efficient_loading: false\n", "efficient_loading: true\n", "without a teacher"),
        ("num_processes: 2", "num_processes: 3", "3 processes for 2 GPUs"),
    ],
)
def test_sharding_that_cannot_work_is_found(old: str, new: str, said: str, tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    shutil.copytree(DOCKER, docker, ignore=shutil.ignore_patterns("secrets"))
    file = docker / "recipe" / "fsdp.yaml"
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new), "utf-8")
    (docker / "recipe" / "compose.yaml").write_text("services: {}", "utf-8")
    devices = '{deploy: {resources: {reservations: {devices: [{device_ids: ["5", "6"]}]}}}}'
    (docker / "compose.yaml").write_text(
        f"services: {{service: {{}}, trainer: {devices}}}", "utf-8"
    )
    [line] = [
        each
        for each in check(Given(recipe=docker / "recipe")).failed
        if each.what == "accelerate's configuration"
    ]
    assert said in line.detail


def test_a_report_tells_errors_from_defects() -> None:
    report = Report()

    def fails() -> str:
        raise BadRequest("it is\nwrong")

    report.look("a", fails)
    report.skip("b", "a GPU")
    assert [str(line) for line in report.lines] == [
        "FAIL         a: it is wrong",
        "NOT CHECKED  b: a GPU",
    ]

    def breaks() -> str:
        raise AssertionError

    with pytest.raises(AssertionError):
        report.look("c", breaks)


def test_parameters_are_those_that_the_models_are_known_for() -> None:
    models = read_models(DOCKER / "recipe" / "models.toml")
    assert models["Qwen3-4B"].parameters == 4_022_468_096
    assert models["Qwen3-32B"].parameters == 32_762_123_264
    untied = models["Qwen3-4B-untied"].parameters - models["Qwen3-4B"].parameters
    assert untied == 151_936 * 2560


def test_estimates_are_the_sums_that_they_are_said_to_be() -> None:
    tiny = Dimensions(
        hidden_size=4,
        intermediate_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=2,
        vocab_size=10,
        tie_word_embeddings=True,
    )
    layer = 4 * 4 + 2 * 4 * 2 + 4 * 4 + 2 * 2 + 3 * 4 * 8 + 2 * 4
    assert tiny.parameters == 2 * layer + 40 + 4
    assert tiny.cache_bytes_per_token == 2 * 2 * 2 * 1 * 2
    serving = (2 * tiny.parameters + 100 * 16) / 2
    assert serving_gb(tiny, 100, 2) == pytest.approx(serving / 1e9 + OVERHEAD_GB)
    training = 16 * tiny.parameters / 2 + 4 * tiny.parameters + 4 * 5 * 100 * 10 + 2 * 2 * 100 * 4
    assert training_gb(tiny, 50, 2, 2) == pytest.approx(training / 1e9 + OVERHEAD_GB)


def test_a_model_of_other_dimensions_is_found(tmp_path: Path) -> None:
    stated = read_models(DOCKER / "recipe" / "models.toml")["Qwen3-4B"]
    config = {name: getattr(stated, name) for name in Dimensions.__struct_fields__}
    (tmp_path / "config.json").write_text(json.dumps(config | {"model_type": "qwen3"}))
    assert compared("Qwen3-4B", stated, tmp_path) == "4.02 billion parameters"
    (tmp_path / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 28}))
    with pytest.raises(ValueError, match="num_hidden_layers is 28, not 36"):
        compared("Qwen3-4B", stated, tmp_path)


def test_a_gate_that_would_ask_what_was_taught_is_found(tmp_path: Path) -> None:
    stream = read_problems(tasks(tmp_path / "a", ["How many are 2 and 3?", "And 4?"]))
    other = read_problems(tasks(tmp_path / "b", ["Something else?"]))
    assert apart({"problems": stream, "gate tasks": other}) == "2 problems, 1 gate tasks"
    again = read_problems(tasks(tmp_path / "c", ["how many  are 2 and 3?"]))
    with pytest.raises(BadRequest, match="0 of the gate tasks is among the problems, too"):
        apart({"problems": stream, "gate tasks": again})
    for bad in (["a", "A "], ["a", " "]):
        with pytest.raises(BadRequest):
            read_problems(tasks(tmp_path / "d", bad))


def test_the_printed_policy_is_one_for_that_suite(tmp_path: Path) -> None:
    suite = tasks(tmp_path / "suite.jsonl", ["a", "b"])
    command = [sys.executable, "-m", "trainer.recipe", "policy", str(suite)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True)
    policy = parse_policy(done.stdout, is_objective)
    assert (policy.name, policy.suite) == ("homework", sha256_hex(suite.read_bytes()))
    suite.write_text("{}")
    refused = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "Line 1 of the suite" in refused.stderr
