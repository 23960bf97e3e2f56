"""The model cache: exactly the listed bytes, no more than one gate's models, no blame misplaced."""

from __future__ import annotations

import errno
import gc
import weakref
from pathlib import Path

import httpx
import pytest

from reef_release import wire
from reef_release.api import views
from reef_release.errors import ReefError, Unavailable
from tests.gates import FakeEngines
from tests.unit.trainer.gate.conftest import Site
from trainer.gate.models import CannotLoad, MachineTrouble, ModelCache

WEIGHTS = "model.safetensors"


@pytest.fixture
def cache(site: Site) -> ModelCache:
    return ModelCache(site.service.client(), site.directory / "models", site.engines)


@pytest.fixture
def models(site: Site) -> list[wire.ModelView]:
    """Three models that the service has."""
    ids = [site.world.admitted() for _ in range(3)]
    return [views.model_view(site.world.scenario, each) for each in ids]


def file_of(site: Site, model: wire.ModelView) -> Path:
    return site.directory / "models" / model.release_id / WEIGHTS


def downloads(site: Site) -> int:
    return sum(path.startswith("/reef/blobs/") for path in site.service.paths())


def test_a_model_is_downloaded_and_loaded_once(
    site: Site, cache: ModelCache, models: list[wire.ModelView]
) -> None:
    assert cache.engine(models[0]) is cache.engine(models[0])
    assert site.engines.loads == [models[0].release_id]
    count = downloads(site)
    again = ModelCache(site.service.client(), site.directory / "models", site.engines)
    again.engine(models[0])
    assert downloads(site) == count, "the files are still there after a restart"


def test_a_damaged_file_is_downloaded_again_once(
    site: Site, cache: ModelCache, models: list[wire.ModelView]
) -> None:
    cache.engine(models[0])
    good = file_of(site, models[0]).read_bytes()
    cache.keep_only(models[0])
    file_of(site, models[0]).write_bytes(b"rotten")
    count = downloads(site)
    ModelCache(site.service.client(), site.directory / "models", site.engines).engine(models[0])
    assert downloads(site) == count + 1
    assert file_of(site, models[0]).read_bytes() == good


def test_files_that_change_again_and_again_are_this_machines_trouble(
    site: Site, models: list[wire.ModelView]
) -> None:
    class Rotting(FakeEngines):
        def __call__(self, *files: object) -> object:
            file_of(site, models[0]).write_bytes(b"rotten")
            return super().__call__(*files)

    engines = Rotting()
    cache = ModelCache(site.service.client(), site.directory / "models", engines)
    with pytest.raises(MachineTrouble, match=WEIGHTS):
        cache.engine(models[0])
    assert len(engines.loads) == 2


def test_intact_files_that_make_no_model_are_the_models_fault_until_the_next_gate(
    site: Site, cache: ModelCache, models: list[wire.ModelView]
) -> None:
    site.engines.broken.add(models[0].release_id)
    cache.engine(models[1])
    count = downloads(site)
    for _ in range(3):
        with pytest.raises(CannotLoad):
            cache.engine(models[0])
    assert site.engines.loads.count(models[0].release_id) == 1
    assert downloads(site) == count + 2, "two files, once each"
    site.engines.broken.clear()
    cache.keep_only(models[0], models[1])
    cache.engine(models[0])


def test_a_defect_of_the_loader_is_a_model_that_cannot_be_loaded(
    site: Site, models: list[wire.ModelView]
) -> None:
    def load(*_files: object) -> FakeEngines:
        raise IndexError("list index out of range")

    cache = ModelCache(site.service.client(), site.directory, load)
    with pytest.raises(CannotLoad, match="IndexError"):
        cache.engine(models[0])


def test_a_machine_that_cannot_load_is_told_from_a_model_that_cannot(
    site: Site, models: list[wire.ModelView]
) -> None:
    def load(*_files: object) -> FakeEngines:
        raise Unavailable("/tmp cannot be written")

    cache = ModelCache(site.service.client(), site.directory, load)
    with pytest.raises(MachineTrouble, match="/tmp"):
        cache.engine(models[0])


def test_a_full_disk_is_this_machines_trouble_and_what_arrived_is_used_later(
    site: Site,
    cache: ModelCache,
    models: list[wire.ModelView],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:

        def full(*_given: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        patch.setattr("reef_release.client.blobs.write_all", full)
        with pytest.raises(MachineTrouble, match="No space left"):
            cache.engine(models[0])
    cache.engine(models[0])
    assert site.engines.loads == [models[0].release_id]


def test_a_service_that_sends_other_bytes_is_neither(
    site: Site, cache: ModelCache, models: list[wire.ModelView]
) -> None:
    digest = models[0].files[1].sha256
    size = models[0].files[1].size_bytes
    site.service.answers[f"/reef/blobs/{digest}"] = lambda _asked: httpx.Response(
        200, content=b"x" * size
    )
    with pytest.raises(ReefError) as caught:
        cache.engine(models[0])
    assert not isinstance(caught.value, CannotLoad | MachineTrouble)
    site.service.answers.clear()
    cache.engine(models[0])


def test_no_more_than_one_gates_models_are_kept(
    site: Site, cache: ModelCache, models: list[wire.ModelView]
) -> None:
    first, second = cache.engine(models[0]), cache.engine(models[1])
    gone, kept = weakref.ref(first), weakref.ref(second)
    del first, second
    (site.directory / "models" / "notes").mkdir()
    cache.keep_only(models[1], models[2])
    gc.collect()
    assert gone() is None
    assert kept() is not None
    names = {path.name for path in (site.directory / "models").iterdir()}
    assert names == {models[1].release_id, "notes"}, "what is not ours stays"


def test_an_adapter_comes_with_its_foundation_which_stays_on_disk_with_it(site: Site) -> None:
    world = site.world
    contents = {"adapter_config.json": b"{}", "adapter_model.safetensors": b"x"}
    adapter = world.submit(contents, kind="lora", foundation=world.serving)
    model = views.model_view(world.scenario, adapter)
    assert model.foundation is not None
    given = []

    def load(*files: object) -> FakeEngines:
        given.append(files)
        return FakeEngines()

    cache = ModelCache(site.service.client(), site.directory / "models", load)
    cache.engine(model)
    ((files, below),) = given
    assert (files.release_id, below.release_id) == (adapter, world.serving)
    assert set(below.files) == {"config.json", WEIGHTS}
    cache.keep_only(model)
    assert file_of(site, model.foundation).exists()
    cache.keep_only(None)
    assert not file_of(site, model.foundation).exists()
