"""Paths of routes, and what most requests have in common."""

from __future__ import annotations

from urllib.parse import quote

__all__ = ["JSON", "VIEW_BYTES", "path_of", "scenario_path"]

VIEW_BYTES = 64 * 1024 * 1024
JSON = {"Content-Type": "application/json"}


def path_of(*segments: str) -> str:
    """The path with these segments, whatever characters they have."""
    return "/" + "/".join(quote(segment, safe="") for segment in segments)


def scenario_path(scenario: str, *segments: str) -> str:
    """A path under a scenario."""
    return path_of("reef", "scenarios", scenario, *segments)
