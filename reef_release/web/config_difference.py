"""Two JSON files field by field: only the fields that differ, each by its path."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from reef_release.artifacts import strict_json
from reef_release.artifacts.findings import Findings

__all__ = [
    "CONFIG_FILES",
    "CONFIG_LIMIT_BYTES",
    "ConfigDifference",
    "FieldLine",
    "config_difference",
]

CONFIG_FILES = ("config.json", "adapter_config.json", "generation_config.json")
"""The files that are compared by field; others are compared by digest."""
CONFIG_LIMIT_BYTES = 256 * 1024
_MOST_FIELDS = 200
_MOST_CHARACTERS = 200


@dataclass(frozen=True, kw_only=True)
class FieldLine:
    """One field as JSON text on both sides; None where it is absent."""

    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True, kw_only=True)
class ConfigDifference:
    """One file: the fields that differ, how many do not, and how many more differ than shown.

    `fault` says why it was not compared.
    """

    path: str
    fields: tuple[FieldLine, ...] = ()
    same: int = 0
    more: int = 0
    fault: str = ""


def config_difference(path: str, before: bytes, after: bytes) -> ConfigDifference:
    """The difference of two versions of the JSON file *path*."""
    sides = []
    for name, data in (("the other model's", before), ("the candidate's", after)):
        findings = Findings()
        document = strict_json.parse(data, path, findings)
        if len(findings):
            reason = findings.reasons()[0]
            return ConfigDifference(path=path, fault=f"{name} is not read: {reason.message}")
        sides.append(dict(_fields(document)))
    old, new = sides
    differing = [
        FieldLine(path=name, before=_text(old, name), after=_text(new, name))
        for name in sorted(old.keys() | new.keys())
        if name not in old or name not in new or not strict_json.is_same(old[name], new[name])
    ]
    return ConfigDifference(
        path=path,
        fields=tuple(differing[:_MOST_FIELDS]),
        same=len(old.keys() | new.keys()) - len(differing),
        more=max(len(differing) - _MOST_FIELDS, 0),
    )


def _fields(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves by path; a list is one value, since its places have no names."""
    if isinstance(value, dict) and value:
        for name, part in value.items():
            yield from _fields(part, f"{path}.{name}" if path else name)
    else:
        yield path or "(whole document)", value


def _text(side: dict[str, Any], name: str) -> str | None:
    if name not in side:
        return None
    text = json.dumps(side[name], ensure_ascii=False)
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"
