"""Whatever is appended by whomever, the pointer moves as design §3 says and not otherwise."""

from __future__ import annotations

import os

import pytest

from tests.properties.machine import WORDS
from tests.properties.machines import CheapMachine, RealMachine, run

STEPS = 100_000
EXAMPLES = 160
"""Stories of 100 commands; each command is several steps."""

TRIED = (
    "release.promoted",
    "release.rolled_back",
    "candidate.submitted",
    "candidate.admitted",
    "candidate.revoked",
    "checkpoint.published",
    "gate.opened",
    "gate.trial",
    "gate.passed",
    "gate.stale",
    "key.added",
    "key.revoked",
    "policy.changed",
    "release.revoked",
    "release.signed",
    "root.rotated",
    "scenario.held",
    "scenario.resumed",
)
"""Types of which both honest and forbidden events must have been tried, or little was shown."""


def test_no_sequence_of_commands_breaks_the_rule() -> None:
    WORDS.clear()
    run(CheapMachine, examples=EXAMPLES)
    assert WORDS["steps"] >= STEPS
    untried = [
        f"{kind} {fate}"
        for kind in TRIED
        for fate in ("stands", "violates")
        if not WORDS[f"{kind} {fate}"]
    ]
    assert not untried
    assert WORDS["release.promoted stands"] > STEPS // 50
    assert WORDS["release.rolled_back stands"] > STEPS // 500


def test_no_sequence_of_commands_breaks_it_with_real_signatures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    WORDS.clear()
    run(RealMachine, examples=5)
    for fate in ("stands", "violates"):
        assert WORDS[f"release.promoted {fate}"]
        assert WORDS[f"release.rolled_back {fate}"]
        assert WORDS[f"gate.passed {fate}"]
