"""The labelled reactions: whole, in two halves, and harder than their baseline."""

from __future__ import annotations

import json
import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from judge.prompts import PROMPT_DIGEST

FIELDS = {"id", "split", "category", "language", "asked", "earlier", "reply", "reaction", "label"}
READERS = {
    "tune": ["scripted"],
    "held": ["scripted", "prompt, recorded"],
    "later": ["prompt, recorded"],
}


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def cases(repository: Path) -> list[dict[str, Any]]:
    return read(repository / "judge" / "data" / "attribution.jsonl")


def test_there_are_enough_cases_and_half_of_them_are_held_out(cases: list[dict[str, Any]]) -> None:
    assert len({case["id"] for case in cases}) == len(cases) >= 80
    halves = Counter(case["split"] for case in cases)
    assert halves["tune"] == halves["held"] == len(cases) // 2


def test_each_half_has_every_kind_of_case_and_the_same_main_languages(
    cases: list[dict[str, Any]],
) -> None:
    tune, held = (
        {case["category"] for case in cases if case["split"] == split} for split in ("tune", "held")
    )
    assert tune == held
    languages = Counter((case["split"], case["language"]) for case in cases)
    for language in ("en", "de", "fr", "es", "zh", "ja"):
        assert min(languages["tune", language], languages["held", language]) >= 5


def test_each_label_fits_its_case(cases: list[dict[str, Any]], repository: Path) -> None:
    later = read(repository / "judge" / "data" / "attribution_later.jsonl")
    for case in [*cases, *later]:
        label = case["label"]
        assert set(case) == FIELDS
        assert 0 <= label["about"] <= len(case["earlier"]) + 1
        assert label["score"] in (-1, 0, 1)
        assert label["rejected"] in case["reaction"]
        assert label["keep"] in case["reaction"]
        assert label["score"] == 0 or label["about"] > 0
        assert not label["rejected"] or label["score"] == -1


def test_about_the_last_reply_is_right_only_half_the_time(cases: list[dict[str, Any]]) -> None:
    last = sum(case["label"]["about"] == len(case["earlier"]) + 1 for case in cases)
    assert 0.4 < last / len(cases) < 0.6


def test_the_recorded_answers_are_to_the_prompts_of_today(
    cases: list[dict[str, Any]], repository: Path
) -> None:
    data = repository / "judge" / "data"
    head, *answers = read(data / "attribution_answers.jsonl")
    assert head["prompt_digest"] == PROMPT_DIGEST
    asked = [case["id"] for case in cases if case["split"] == "held"]
    asked += [case["id"] for case in read(data / "attribution_later.jsonl")]
    assert sorted(each["id"] for each in answers) == sorted(asked)


@pytest.mark.parametrize("split", ["tune", "held", "later"])
def test_who_reads_the_reaction_beats_the_baseline(
    split: str,
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Well below what is measured, so that this fails when rules or prompt break, not before."""
    monkeypatch.setattr("sys.argv", ["attribution.py", "--split", split, "--json"])
    assert runpy.run_path(str(repository / "bench" / "attribution.py"))["main"]() == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    base, *readers = [row for row in rows if (row["judge"], split) != ("scripted", "later")]
    assert base["judge"] == "always the last reply"
    assert [row["judge"] for row in readers] == READERS[split]
    for row in readers:
        assert row["about"] > 0.85 > base["about"]
        assert row["score"] > 0.85 > base["score"]
