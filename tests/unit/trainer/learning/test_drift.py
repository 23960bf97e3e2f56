"""What the drift is a measure of: other weights, another temperature, and a single sample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from reef_release.traffic_wire import BatchSampleView
from tests.batches import TEMPERATURE, make_batch
from trainer.engines.transformers_engine import TransformersEngine
from trainer.learning.batch import Outcome, Stopped, Trained, run_batch
from trainer.learning.drift import LeftOut, Moved, drift, leave_out, moved
from trainer.learning.settings import TrainingSettings
from trainer.learning.watches import Bounds
from trainer.tiny.shipped import BETTER, ORIGIN

COUNT = 16
DEFAULT, ALIKE = Bounds(), Bounds(drift_share=None)


def test_it_is_the_largest_mean_of_a_sample_and_the_share_of_all() -> None:
    pairs = [([-1.0, -2.0], [-1.5, -2.5]), ([-1.0] * 8, [-1.0] * 8), ([], [])]
    found = drift([moved("turn", *each) for each in pairs])
    assert found["drift"] == pytest.approx(0.5)
    assert found["drift_share"] == pytest.approx(1.0 / 12.0)


def test_a_token_that_is_certain_is_no_division_by_nothing() -> None:
    assert drift([moved("turn", [-1e-7], [0.0])])["drift_share"] == pytest.approx(1e-4)
    assert drift([]) == {"drift": 0.0, "drift_share": 0.0}


def scored(directory: Path, views: Sequence[BatchSampleView], at: float) -> list[BatchSampleView]:
    """The views as another server would have recorded them."""
    engine = TransformersEngine()
    engine.load(directory)
    return [
        msgspec.structs.replace(
            view, logprobs=list(engine.score(view.prompt_token_ids, view.token_ids, at))
        )
        for view in views
    ]


def other_weights(views: list[BatchSampleView]) -> list[BatchSampleView]:
    return [*scored(BETTER, views[:1], TEMPERATURE), *views[1:]]


def raw(views: list[BatchSampleView]) -> list[BatchSampleView]:
    """Log-probabilities before the temperature, as some servers give them."""
    return scored(ORIGIN, views, 1.0)


def unnamed(views: list[BatchSampleView]) -> list[BatchSampleView]:
    """As a server that had a temperature of its own, and was told none."""
    return [msgspec.structs.replace(view, temperature=None) for view in views]


def result(
    out: Path, change: object, bounds: Bounds = DEFAULT, serving: Path | None = None
) -> Outcome:
    return run_batch(
        make_batch(COUNT, change),  # type: ignore[arg-type]
        weights=ORIGIN,
        origin=ORIGIN,
        out=out,
        settings=TrainingSettings(epochs=1, bounds=bounds),
        seed=0,
        serving=serving,
    )


def without_first(views: list[BatchSampleView]) -> list[BatchSampleView]:
    return views[1:]


@pytest.mark.parametrize("serving", [None, ORIGIN])
def test_one_sample_that_other_weights_gave_is_left_out_as_if_it_had_never_been_there(
    serving: Path | None, tmp_path: Path
) -> None:
    outcome = result(tmp_path / "out", other_weights, ALIKE, serving)
    assert isinstance(outcome, Trained)
    (skipped,) = outcome.skipped
    assert (skipped.turn_id, skipped.reason) == ("turn-0", "drift")
    assert "above the bound 0.3" in skipped.detail
    alone = result(tmp_path / "alone", without_first, ALIKE, serving)
    assert isinstance(alone, Trained)
    assert (outcome.steps, outcome.after, outcome.batch) == (alone.steps, alone.after, alone.batch)
    assert outcome.weights_id == alone.weights_id


@pytest.mark.parametrize("serving", [None, ORIGIN])
@pytest.mark.parametrize("off_samples", [0.0, 0.05])
def test_more_samples_that_are_off_than_may_be_stop_the_batch(
    off_samples: float, serving: Path | None, tmp_path: Path
) -> None:
    bounds = Bounds(drift_share=None, off_samples=off_samples)
    outcome = result(tmp_path / "out", other_weights, bounds, serving)
    assert isinstance(outcome, Stopped)
    assert (outcome.reason, outcome.steps) == ("drift", ())
    assert outcome.detail.startswith("drift is ")


@pytest.mark.parametrize("change", [raw, unnamed])
def test_another_temperature_than_is_said_stops_the_batch(change: object, tmp_path: Path) -> None:
    # The tiny model is sure of nearly every token, so that no mean in nats would show it.
    outcome = result(tmp_path / "out", change, Bounds(drift=None))
    assert isinstance(outcome, Stopped)
    assert outcome.reason == "drift"
    assert outcome.detail.startswith("drift_share is ")


def of(*means: float, size: float = 1.0) -> list[Moved]:
    """Samples of ten tokens with these drifts, and so much of them recorded."""
    return [Moved(str(place), 10 * mean, size, 10) for place, mean in enumerate(means)]


def left_out(samples: list[Moved], bounds: Bounds = DEFAULT) -> dict[str, str]:
    try:
        leave_out(samples, bounds)
    except LeftOut as found:
        return {each.turn_id: each.reason for each in found.skipped}
    return {}


def test_a_sample_whose_figures_are_no_numbers_is_left_out_and_half_of_them_at_most() -> None:
    nan, inf = float("nan"), float("inf")
    assert left_out(of(0.0, nan, 0.0, inf)) == {"1": "non-finite", "3": "non-finite"}
    assert left_out(of(nan, nan, 0.0)) == {}
    assert math.isnan(drift(of(0.0, nan, nan))["drift"])
    assert left_out(of(nan, nan), Bounds(off_samples=None)) == dict.fromkeys("01", "non-finite")
    # One of which nothing is compared is no part of the share.
    assert left_out([*of(0.0, 0.4), Moved("2", 0.0, 0.0, 0)]) == {"1": "drift"}


def test_samples_that_alone_make_the_share_too_large_are_left_out() -> None:
    # Below the bound of the mean, and far from what was recorded.
    assert left_out(of(0.0, 0.0, 0.0, 0.29)) == {"3": "drift"}
    # A little wrong everywhere is nobody's doing.
    assert left_out(of(0.02, 0.02, 0.02, 0.0)) == {}
    # Nor is anyone left out who is sure of all, while the others make up for it.
    assert left_out([*of(0.0, 0.02, size=10.0), Moved("2", 0.05, 0.1, 10)]) == {}


def test_what_these_weights_said_has_no_drift(tmp_path: Path) -> None:
    outcome = result(tmp_path / "out", list)
    assert isinstance(outcome, Trained)
    assert max(outcome.batch["drift"], outcome.batch["drift_share"]) < 1e-4
