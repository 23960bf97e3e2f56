"""The page of a study shows every row that is there, and nothing of one name under another."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from reef_release.errors import SettingsError
from tests.unit.trainer.stream.test_summary import evaluation, sessions
from trainer.stream.records import RecordFile
from trainer.stream.report import read_study, write_page

STUDY = {"sessions": 4, "trainer": {"training": {"epochs": 8}}}


def rows(directory: Path, name: str, arm: str, accepted: str, **changes: object) -> Path:
    """The rows of one arm and seed 1 under a name."""
    place = directory / name
    place.mkdir(parents=True, exist_ok=True)
    (place / "study.json").write_text(json.dumps(STUDY | changes))
    with RecordFile(place / f"{arm}-1.jsonl") as out:
        for record in sessions(accepted, arm=arm, releases="aabb"):
            out.add(record)
        if arm == "update":
            for after, right in ((0, 80), (4, 76)):
                out.add(evaluation(after, right))
    return place


def test_the_page_has_a_line_per_seed_a_picture_and_what_differs_elsewhere(tmp_path: Path) -> None:
    place = rows(tmp_path, "homework", "update", ".###")
    rows(tmp_path, "homework", "control", "....")
    facts = {
        "seconds": {"update": 61.2},
        "candidates": {"promoted": 1, "failed": 2},
        "judged": 6,
        "batched": 4,
        "trained": 4,
        "refused": {},
    }
    (place / "facts-1.json").write_text(json.dumps(facts))
    other = {"trainer": {"training": {"epochs": 2}}, "flip_votes": 0.2}
    rows(tmp_path, "a-worse-judge", "update", "..##", **other)
    for each in tmp_path.rglob("*.jsonl"):
        os.utime(each, (0, 1_767_312_000))
    page = tmp_path / "docs" / "study.md"
    write_page(tmp_path, page)
    text = page.read_text("utf-8")
    assert "Measured until 2026-01-02" in text
    assert (
        "| 1 | never |  | 4 | `.#/##` | 0.80 → 0.76 | 0.950 | 1 promoted, 2 failed | 61 |" in text
    )
    assert "| update | 1 | 1 (0.21 to 1.00) | 4 | 0.950 | 0.950 | 0 | 0.75 |" in text
    differs = "flip_votes 0.2; trainer.training.epochs 2"
    other = f"| {differs} | update | 1 | 1: never | never | 0.950 | 0.950 | 0.50 | 1.0 | none |"
    assert f"| a-worse-judge {other}" in text
    assert page.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_the_page_made_from_its_figures_is_the_same(tmp_path: Path) -> None:
    rows(tmp_path, "homework", "update", ".###")
    first, second = tmp_path / "study.md", tmp_path / "again" / "study.md"
    write_page(tmp_path, first)
    write_page(first.with_suffix(".json"), second)
    for suffix in (".md", ".json"):
        assert first.with_suffix(suffix).read_bytes() == second.with_suffix(suffix).read_bytes()


def test_without_rows_of_the_study_there_is_no_page(tmp_path: Path) -> None:
    rows(tmp_path, "another", "update", "####")
    with pytest.raises(SettingsError, match="no rows named 'homework'"):
        write_page(tmp_path, tmp_path / "page.md")
    (tmp_path / "another" / "study.json").write_text("[]")
    with pytest.raises(SettingsError, match="no rows of a study"):
        read_study(tmp_path)
