"""How a trainer works: the training of a batch, and when what came of it is submitted."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from reef_release.errors import SettingsError
from trainer.learning.settings import TrainingSettings
from trainer.objective.settings import require_between

__all__ = ["KeepSettings", "ScreeningSettings", "WorkerSettings", "read_worker_settings"]


class ScreeningSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When the line's weights are submitted. Rates are shares of the development tasks."""

    submit_pass_rate: float | None = None
    """From here on, a task passed being one that all verifiers pass. None: never."""
    must_improve: bool = True
    """Not submitted unless more tasks pass than with the release served."""
    right_answers_margin: float = 0.0
    """So many right answers fewer than the serving release has are let through, as a share."""
    task_limit: int | None = None
    """Only the first so many tasks are asked; None: all."""
    seed: int = 0
    """Of the sampling; both models answer a task with the same one."""
    give_up_after: int | None = None
    """A line that has come to so many batches and no release is given up; None: it goes on."""

    def __post_init__(self) -> None:
        if self.submit_pass_rate is not None:
            require_between("screening.submit_pass_rate", self.submit_pass_rate, 0.0, 1.0)
        require_between("screening.right_answers_margin", self.right_answers_margin, 0.0, 1.0)
        require_between("screening.seed", self.seed, 0, 2**53 - 1)
        for name in ("task_limit", "give_up_after"):
            value = getattr(self, name)
            if value is not None:
                require_between(f"screening.{name}", value, 1, 10**6)


class KeepSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept of trained batches, for `train replay --from`."""

    batches: int = 5
    """So many of the newest; those of a line that may still come to a release are kept anyway."""
    releases: bool = True
    """For good, the batches of each line whose candidate was promoted."""

    def __post_init__(self) -> None:
        require_between("keep.batches", self.batches, 0, 10**6)


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file; see the parts."""

    training: TrainingSettings = TrainingSettings()
    screening: ScreeningSettings = ScreeningSettings()
    keep: KeepSettings = KeepSettings()


def read_worker_settings(path: Path) -> WorkerSettings:
    """The settings in a TOML file, or a JSON file if its name says so. Raises `SettingsError`.

    TOML has no null, so what is None by setting needs JSON.
    """
    try:
        document = path.read_bytes()
        if path.suffix == ".json":
            json.loads(document, object_pairs_hook=_once)
            return msgspec.json.decode(document, type=WorkerSettings)
        return msgspec.convert(tomllib.loads(document.decode("utf-8")), WorkerSettings)
    except OSError as error:
        raise SettingsError(f"The settings {path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise SettingsError(
            f"{path} holds no settings of a trainer: {error}.",
            next_step="Correct the field; `reef-release train settings` prints all with defaults.",
        ) from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of a name that stands twice, one would be followed and the other read."""
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{', '.join(twice)} stands twice in one object")
    return dict(pairs)
