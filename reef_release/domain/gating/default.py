"""The rule and the budget that a new scenario gets unless its owner signs others."""

from __future__ import annotations

from typing import Any

__all__ = ["default_budget", "default_rule"]


def default_rule() -> dict[str, Any]:
    """Three passes in a row, and better than the incumbent by the budget, within 40 trials."""
    return {
        "kind": "all_of",
        "rules": [
            {"kind": "consecutive_passes", "k": 3, "max_trials": 40, "max_failures": 40},
            {"kind": "improves", "alpha": None, "max_deficit": 6, "max_trials": 40},
        ],
    }


def default_budget() -> dict[str, Any]:
    """At most one promotion in twenty that was not better, expected, over the whole life."""
    return {
        "procedure": "false_discovery_rate",
        "alpha": "0.05",
        "gamma": {"first_block": 16, "decay": 2},
    }
