"""Ids that a person typed short: the beginning of one id, and of no other."""

from __future__ import annotations

import re
from collections.abc import Iterable

from reef_release.client import ReefClient
from reef_release.errors import BadRequest, NotFound

__all__ = ["candidate_id", "key_id", "release_id", "whole_id"]

_WHOLE = re.compile(r"[0-9a-f]{64}")
_SHOWN = 5


def release_id(client: ReefClient, scenario: str, given: str) -> str:
    """The whole id of a signed release of *scenario*. Raises `NotFound` and `BadRequest`."""
    if _WHOLE.fullmatch(given):
        return given
    found = (each.release_id for each in client.releases(scenario))
    return whole_id(given, found, f"signed release of {scenario}")


def candidate_id(client: ReefClient, scenario: str, given: str) -> str:
    """The whole id of a candidate of *scenario*. Raises `NotFound` and `BadRequest`."""
    if _WHOLE.fullmatch(given):
        return given
    found = (each.candidate_id for each in client.candidates(scenario))
    shown_by = f"reef-release candidate list --scenario {scenario}"
    return whole_id(given, found, f"candidate of {scenario}", shown_by)


def key_id(client: ReefClient, given: str) -> str:
    """The whole id of a key of the log. Raises `NotFound` and `BadRequest`."""
    found = (each.key_id for each in client.trust_keys())
    return whole_id(given, found, "key of the log", shown_by="reef-release keys list")


def whole_id(
    given: str, known: Iterable[str], what: str, shown_by: str = "reef-release status"
) -> str:
    """The one of *known* that begins with *given*. Raises `NotFound` and `BadRequest`."""
    if not given:
        raise BadRequest(f"The id of a {what} is empty.", next_step="Give its first letters.")
    found = sorted({each for each in known if each.startswith(given)})
    if not found:
        raise NotFound(
            f"No {what} has an id that begins with {given!r}.",
            next_step=f"`{shown_by}` shows ids; give the first letters of one.",
        )
    if len(found) > 1:
        some = ", ".join(each[: len(given) + 4] for each in found[:_SHOWN])
        raise BadRequest(
            f"{len(found)} ids of a {what} begin with {given!r}, such as {some}.",
            next_step="Give more letters of the one that is meant.",
        )
    return found[0]
