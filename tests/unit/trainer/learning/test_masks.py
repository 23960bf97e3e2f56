"""Tokens that are masked, and samples that lag: what is trained on them, and what is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from safetensors.torch import load_file

from reef_release.traffic_wire import BatchSampleView
from tests.batches import RELEASE, make_batch
from trainer.learning.batch import WEIGHTS, Trained, run_batch
from trainer.learning.settings import TrainingSettings
from trainer.learning.watches import Bounds
from trainer.tiny.shipped import ORIGIN

SETTINGS = TrainingSettings(epochs=1, bounds=Bounds(kl_base=None))
EARLIER = "c" * 64

Change = Callable[[list[BatchSampleView]], list[BatchSampleView]]


def trained(out: Path, count: int, change: Change, **given: Any) -> Trained:
    batch = msgspec.structs.replace(make_batch(count, change), releases=[RELEASE, EARLIER])
    outcome = run_batch(
        batch, weights=ORIGIN, origin=ORIGIN, out=out, settings=SETTINGS, seed=0, **given
    )
    assert isinstance(outcome, Trained), outcome
    assert outcome.skipped == ()
    return outcome


def masked(place: int, mask: Callable[[int], list[int]]) -> Change:
    def change(views: list[BatchSampleView]) -> list[BatchSampleView]:
        new = msgspec.structs.replace(views[place], mask=mask(len(views[place].token_ids)))
        return [*views[:place], new, *views[place + 1 :]]

    return change


def terms(outcome: Trained) -> tuple[float, float]:
    metrics = outcome.steps[0].metrics
    return metrics["policy"], metrics["distillation"]


def halves(length: int) -> tuple[list[int], list[int]]:
    first = [int(place % 3 == 0) for place in range(length)]
    return first, [1 - each for each in first]


def test_the_terms_are_the_mean_over_the_tokens_that_are_not_masked(tmp_path: Path) -> None:
    length = len(make_batch(1).samples[0].token_ids)
    one, other = halves(length)
    whole = terms(trained(tmp_path / "whole", 1, list))
    parts = [
        terms(trained(tmp_path / name, 1, masked(0, lambda _, mask=mask: mask)))  # type: ignore[misc]
        for name, mask in (("one", one), ("other", other))
    ]
    for term in (0, 1):
        total = parts[0][term] * sum(one) + parts[1][term] * sum(other)
        assert total == pytest.approx(whole[term] * length, rel=1e-4)
    assert parts[0][1] != pytest.approx(parts[1][1], rel=1e-2)


def test_a_sample_that_is_masked_whole_adds_nothing_and_still_counts(tmp_path: Path) -> None:
    three = terms(trained(tmp_path / "three", 3, list))
    four = terms(trained(tmp_path / "four", 4, masked(3, lambda length: [0] * length)))
    for term in (0, 1):
        assert four[term] == pytest.approx(three[term] * 3 / 4, rel=1e-4)


def test_what_was_recorded_of_a_masked_token_moves_nothing(tmp_path: Path) -> None:
    def change(value: float) -> Change:
        def changed(views: list[BatchSampleView]) -> list[BatchSampleView]:
            mask = halves(len(views[0].token_ids))[0]
            rows = zip(views[0].logprobs, mask, strict=True)
            logprobs = [each if trains else value for each, trains in rows]
            return [msgspec.structs.replace(views[0], mask=mask, logprobs=logprobs), *views[1:]]

        return changed

    outcomes = [
        trained(tmp_path / str(number), 2, change(value))
        for number, value in enumerate((-0.5, -5000.0))
    ]
    assert outcomes[0].weights_id == outcomes[1].weights_id
    assert outcomes[0].batch["drift"] == outcomes[1].batch["drift"] < 0.01


def lagging(places: Sequence[int], shift: float) -> Change:
    def change(views: list[BatchSampleView]) -> list[BatchSampleView]:
        return [
            msgspec.structs.replace(
                view,
                release_id=EARLIER,
                logprobs=[value - shift for value in view.logprobs],
            )
            if place in places
            else view
            for place, view in enumerate(views)
        ]

    return change


@pytest.mark.parametrize("serving", [None, ORIGIN], ids=["same weights", "other weights"])
@pytest.mark.parametrize("places", [[0], [0, 1, 2, 3]], ids=["one", "all"])
def test_the_drift_is_of_the_samples_of_the_release_that_it_is_measured_against(
    tmp_path: Path, serving: Path | None, places: list[int]
) -> None:
    # Off by far more than the bound: another release gave other probabilities.
    outcome = trained(tmp_path / "out", 4, lagging(places, 0.5), serving=serving)
    assert outcome.batch["drift"] < 0.01
    # Old log-probabilities are of the weights before the first step, whoever sampled.
    plain = trained(tmp_path / "plain", 4, list, serving=serving)
    assert terms(outcome) == terms(plain)
    weights = [
        load_file(tmp_path / name / WEIGHTS / "model.safetensors") for name in ("out", "plain")
    ]
    assert all(weights[0][name].equal(weights[1][name]) for name in weights[0])
