"""Both sides of a gate on engines behind HTTP, of which there may be fewer than models."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from reef_release.errors import Refused, Unavailable
from tests.unit.trainer.vllm.conftest import listening
from trainer.engines.client import HttpEngine
from trainer.engines.protocol import Sampling
from trainer.engines.server import create_app
from trainer.engines.transformers_engine import TransformersEngine
from trainer.engines.weights import ModelFiles
from trainer.gate.models import Loader
from trainer.gate.remote import http_loader
from trainer.tiny.shipped import BETTER, ORIGIN

QUESTION = "Tom has 3 boxes of 4 pens. How many pens has Tom?"
WARM = Sampling(temperature=0.7, max_new_tokens=24)


class Farm:
    """Engines as processes of their own would be, and how often each was given weights."""

    def __init__(self, stack: ExitStack, count: int) -> None:
        self.local = [TransformersEngine() for _ in range(count)]
        self.loads: list[tuple[int, str | None]] = []
        for number, engine in enumerate(self.local):
            self._count(number, engine)
        urls = [stack.enter_context(listening(create_app(each, "policy"))) for each in self.local]
        self.far = [stack.enter_context(HttpEngine(url)) for url in urls]

    def _count(self, number: int, engine: TransformersEngine) -> None:
        load = engine.load

        def counted(
            directory: Path,
            expected: object = None,
            release_id: str | None = None,
            **more: object,
        ) -> object:
            self.loads.append((number, release_id))
            return load(directory, expected, release_id, **more)  # type: ignore[arg-type]

        engine.load = counted  # type: ignore[assignment]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def files(directory: Path) -> ModelFiles:
    digests = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in directory.iterdir()
    }
    return ModelFiles(directory=directory, files=digests, release_id=directory.name)


def replies(load: Loader) -> list[str]:
    """Three trials of each side, by turns."""
    sides = [load(files(directory), None) for directory in (BETTER, ORIGIN)]
    return [side.generate(QUESTION, WARM, seed).text for seed in range(3) for side in sides]


def test_two_engines_keep_a_side_each_and_one_exchanges_them(stack: ExitStack) -> None:
    local = [TransformersEngine(), TransformersEngine()]
    for engine, directory in zip(local, (BETTER, ORIGIN), strict=True):
        engine.load(directory)
    expected = [engine.generate(QUESTION, WARM, seed).text for seed in range(3) for engine in local]
    two, one = Farm(stack, 2), Farm(stack, 1)
    assert replies(http_loader(two.far)) == expected
    assert two.loads == [(0, "better"), (1, "origin")]
    assert replies(http_loader(one.far)) == expected
    assert [name for _, name in one.loads] == ["better", "origin"] * 4


def test_an_engine_that_lost_its_weights_gets_them_again(stack: ExitStack) -> None:
    farm = Farm(stack, 1)
    side = http_loader(farm.far)(files(ORIGIN), None)
    scores = side.score([1, 5], [6, 7], 1.0)
    farm.local[0].load(BETTER)
    assert side.score([1, 5], [6, 7], 1.0) == scores
    assert [name for _, name in farm.loads] == ["origin", None, "origin"]


def test_an_answer_of_another_release_is_an_outage(stack: ExitStack) -> None:
    farm = Farm(stack, 1)
    engine = farm.far[0]
    side = http_loader(farm.far)(files(ORIGIN), None)
    # Somebody exchanges the weights between the look and the request.
    engine.serves = lambda _request: True  # type: ignore[method-assign]
    farm.local[0].load(BETTER, None, "better")
    for ask in (
        lambda: side.generate(QUESTION, WARM, 0),
        lambda: side.score([1, 5], [6, 7], 1.0),
    ):
        with pytest.raises(Unavailable, match="answered for better, not for origin"):
            ask()


def test_files_that_make_no_model_are_refused_by_the_far_engine_as_by_a_near_one(
    stack: ExitStack, tmp_path: Path
) -> None:
    farm = Farm(stack, 1)
    for path in ORIGIN.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    wanted = files(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(Refused) as refused:
        http_loader(farm.far)(wanted, None)
    assert [reason.code for reason in refused.value.reasons] == ["digest-mismatch"]


def test_an_engine_that_read_other_files_than_it_was_given_is_refused(stack: ExitStack) -> None:
    farm = Farm(stack, 1)
    load = farm.local[0].load
    farm.local[0].load = lambda *_given, **_more: load(BETTER, None, "origin")  # type: ignore
    with pytest.raises(Refused, match="other files"):
        http_loader(farm.far)(files(ORIGIN), None)


def test_an_engine_that_is_away_is_an_outage() -> None:
    with HttpEngine("http://127.0.0.1:9") as engine, pytest.raises(Unavailable):
        http_loader([engine])(files(ORIGIN), None)
