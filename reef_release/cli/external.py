"""Running the parts that need torch: separate programs, so that this one never imports it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from reef_release.errors import SettingsError

__all__ = ["module_command", "run_module", "tiny_models"]


def module_command(
    module: str,
    options: Mapping[str, object],
    flags: Sequence[str] = (),
    *,
    verb: str | None = None,
) -> list[str]:
    """The argument vector that runs *module* with this Python; None options are left out."""
    given = [
        part for name, value in options.items() if value is not None for part in (name, str(value))
    ]
    verbs = [] if verb is None else [verb]
    return [sys.executable, "-m", module, *verbs, *given, *flags]


def run_module(
    module: str,
    options: Mapping[str, object],
    flags: Sequence[str] = (),
    *,
    verb: str | None = None,
) -> NoReturn:
    """Become *module*; does not return. Raises `SettingsError` without the training stack."""
    if find_spec("torch") is None:
        raise SettingsError(
            "This verb needs the training stack.",
            next_step="Install it: pip install 'reef-release[train]'",
        )
    command = module_command(module, options, flags, verb=verb)
    os.execv(command[0], command)  # noqa: S606 - a fixed argument vector, no shell


def tiny_models() -> Path:
    """The directory of the shipped tiny models. Raises `SettingsError`."""
    spec = find_spec("trainer")
    if spec is None or not spec.submodule_search_locations:
        raise SettingsError("The `trainer` package is not installed beside this one.")
    return Path(spec.submodule_search_locations[0]) / "tiny" / "models"
