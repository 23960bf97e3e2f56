"""Compose files, laid over one another as `docker compose -f A -f B` does.

What always holds: mappings are merged, commands and single values replaced, lists joined, and
mounts joined by their target. Variables have their defaults; those that must be given stay named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml  # type: ignore[import-untyped]

__all__ = ["Compose", "Mount", "gpus", "load", "mounts", "words"]

_REPLACED = {"command", "entrypoint", "test"}
_VARIABLE = re.compile(r"\$\{(\w+)(?::[-?]([^}]*))?\}")
_DEFAULTED = re.compile(r"\$\{\w+:-([^}]*)\}")


class Mount(NamedTuple):
    """A volume or a path of the host in a container."""

    source: str
    target: str
    read_only: bool


class Compose(NamedTuple):
    """Merged files, and the directory that their relative paths start from."""

    document: dict[str, Any]
    directory: Path

    @property
    def services(self) -> dict[str, dict[str, Any]]:
        """Name to definition."""
        services: dict[str, dict[str, Any]] = self.document["services"]
        return services


def load(files: Sequence[Path]) -> Compose:
    """The merged files. Raises `ValueError` for what is no compose file, and `OSError`."""
    merged: dict[str, Any] = {}
    for path in files:
        try:
            document = yaml.safe_load(path.read_text("utf-8"))
        except yaml.YAMLError as error:
            raise ValueError(f"{path}: {error}") from error
        if not isinstance(document, dict) or "services" not in document:
            raise ValueError(f"{path} has no services")
        merged = _merged(merged, document, "")
    return Compose(merged, files[0].parent)


def words(service: Mapping[str, Any]) -> list[str]:
    """The command line, with the defaults of its variables."""
    parts = [*service.get("entrypoint", ()), *service.get("command", ())]
    return [_DEFAULTED.sub(r"\1", str(part)) for part in parts]


def mounts(service: Mapping[str, Any]) -> Iterator[Mount]:
    """What a container sees of the outside, but for secrets."""
    for text in service.get("volumes", ()):
        source, target, mode = _split(text)
        yield Mount(source, target, mode == "ro")


def gpus(service: Mapping[str, Any]) -> list[str]:
    """The ids of the GPUs that a service has."""
    resources = service.get("deploy", {}).get("resources", {})
    devices = resources.get("reservations", {}).get("devices", [])
    return [each for device in devices for each in device["device_ids"]]


def _split(text: str) -> tuple[str, str, str]:
    # A message about a variable may have colons, and names it in braces.
    plain = _VARIABLE.sub(lambda found: f"${found[1]}", _DEFAULTED.sub(r"\1", text))
    source, target, mode = [*plain.split(":"), ""][:3]
    return source, target, mode


def _merged(below: Any, above: Any, name: str) -> Any:
    if name in _REPLACED or below is None:
        return above
    if isinstance(below, dict) and isinstance(above, dict):
        return below | {key: _merged(below.get(key), above[key], key) for key in above}
    if isinstance(below, list) and isinstance(above, list):
        if name == "volumes":
            joined = {_split(text)[1]: text for text in (*below, *above)}
            return list(joined.values())
        return below + [each for each in above if each not in below]
    return above
