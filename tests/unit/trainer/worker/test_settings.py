"""The settings file of a trainer: TOML or JSON, and every mistake is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from reef_release.errors import SettingsError
from trainer.tiny.shipped import ORIGIN
from trainer.worker.settings import WorkerSettings, read_worker_settings

TOML = """
[training]
epochs = 2
[training.adam]
learning_rate = 1e-5
[training.lora]
rank = 4
[screening]
submit_pass_rate = 0.75
"""
JSON = """
{"training": {"epochs": 2, "adam": {"learning_rate": 1e-5}, "lora": {"rank": 4}},
 "screening": {"submit_pass_rate": 0.75}}
"""


def written(directory: Path, text: str, name: str = "settings.toml") -> Path:
    path = directory / name
    path.write_text(text)
    return path


def test_the_settings_that_come_with_the_tiny_policy_submit() -> None:
    found = read_worker_settings(ORIGIN.parents[1] / "homework.json")
    assert found.screening.submit_pass_rate is not None


def test_toml_and_json_say_the_same(tmp_path: Path) -> None:
    found = read_worker_settings(written(tmp_path, TOML))
    assert found == read_worker_settings(written(tmp_path, JSON, "settings.json"))
    assert (found.training.epochs, found.screening.submit_pass_rate) == (2, 0.75)
    assert found.training.lora is not None
    assert read_worker_settings(written(tmp_path, "")) == WorkerSettings()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[training]\nepoch = 2", "epoch"),
        ("[screenings]", "screenings"),
        ("[screening]\nsubmit_pass_rate = 2.0", "submit_pass_rate"),
        ("[screening]\nsubmit_pass_rate = nan", "submit_pass_rate"),
        ("[screening]\ngive_up_after = 0", "give_up_after"),
        ("[keep]\nbatches = -1", "keep.batches"),
        ("[training.adam]\nlearning_rate = inf", "learning_rate"),
        ("training = ", "settings of a trainer"),
    ],
)
def test_a_mistake_is_refused_with_its_place(tmp_path: Path, text: str, place: str) -> None:
    with pytest.raises(SettingsError, match=place):
        read_worker_settings(written(tmp_path, text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="missing"):
        read_worker_settings(tmp_path / "missing.toml")


def test_a_name_that_stands_twice_is_named(tmp_path: Path) -> None:
    twice = '{"training": {"epochs": 2, "epochs": 3}}'
    with pytest.raises(SettingsError, match="epochs stands twice"):
        read_worker_settings(written(tmp_path, twice, "settings.json"))
