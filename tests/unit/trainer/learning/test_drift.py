"""What the drift is a measure of: other weights, another temperature, and a single sample."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from reef_release.traffic_wire import BatchSampleView
from tests.batches import TEMPERATURE, make_batch
from trainer.engines.transformers_engine import TransformersEngine
from trainer.learning.batch import Outcome, Stopped, Trained, run_batch
from trainer.learning.drift import drift
from trainer.learning.settings import TrainingSettings
from trainer.learning.watches import Bounds
from trainer.tiny.shipped import BETTER, ORIGIN

COUNT = 16
DEFAULT, ALIKE = Bounds(), Bounds(drift_share=None)


def test_it_is_the_largest_mean_of_a_sample_and_the_share_of_all() -> None:
    found = drift([([-1.0, -2.0], [-1.5, -2.5]), ([-1.0] * 8, [-1.0] * 8), ([], [])])
    assert found["drift"] == pytest.approx(0.5)
    assert found["drift_share"] == pytest.approx(1.0 / 12.0)


def test_a_token_that_is_certain_is_no_division_by_nothing() -> None:
    assert drift([([-1e-7], [0.0])])["drift_share"] == pytest.approx(1e-4)
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


@pytest.mark.parametrize("serving", [None, ORIGIN])
def test_one_sample_of_sixteen_that_other_weights_gave_stops_the_batch(
    serving: Path | None, tmp_path: Path
) -> None:
    outcome = result(tmp_path / "out", other_weights, ALIKE, serving)
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


def test_what_these_weights_said_has_no_drift(tmp_path: Path) -> None:
    outcome = result(tmp_path / "out", list)
    assert isinstance(outcome, Trained)
    assert max(outcome.batch["drift"], outcome.batch["drift_share"]) < 1e-4
