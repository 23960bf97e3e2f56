"""The property test is worth something: take one rule away and it finds what that lets through.

A rule is taken away where the fold asks for it: its reason is dropped from the answer of the
validator of one type, or one of the checks no longer looks. Each must be found within a small
part of the steps of one run of `test_fold`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reef_release.domain import events as ev
from reef_release.domain.events import EventData
from reef_release.domain.reasons import Reason
from reef_release.domain.validation import VALIDATORS
from reef_release.errors import ReefError
from tests.properties import cheap_world
from tests.properties.machines import CheapMachine, run

EXAMPLES = 400

FOUND = (AssertionError, LookupError, ReefError, ValueError)
"""The oracle speaks, or an effect stumbles over what should not have reached it."""

RULES: list[tuple[type[EventData], set[str]]] = [
    (ev.ReleasePromoted, {"no-passed-gate", "not-signed"}),
    (ev.ReleasePromoted, {"other-gate"}),
    (ev.ReleasePromoted, {"stale-gate"}),
    (ev.ReleasePromoted, {"not-signed"}),
    (ev.ReleasePromoted, {"revoked"}),
    (ev.ReleasePromoted, {"key-revoked"}),
    (ev.ReleasePromoted, {"held"}),
    (ev.ReleaseRolledBack, {"never-promoted"}),
    (ev.ReleaseRolledBack, {"revoked"}),
    (ev.ReleaseRolledBack, {"key-revoked"}),
    (ev.ReleaseSigned, {"no-passed-gate"}),
    (ev.ReleaseSigned, {"key"}),
    (ev.GatePassed, {"outcome", "decision"}),
    (ev.GatePassed, {"gate-closed"}),
    (ev.GatePassed, {"other-gate"}),
    (ev.GateTrial, {"verdict"}),
    (ev.GateTrial, {"other-body"}),
    (ev.GateTrial, {"task-not-drawn"}),
    (ev.GateTrial, {"gate-closed"}),
    (ev.GateTrial, {"trial-not-due"}),
    (ev.GateOpened, {"other-base", "phase"}),
    (ev.GateOpened, {"seed"}),
    (ev.GateOpened, {"checkpoint"}),
    (ev.GateOpened, {"other-policy"}),
    (ev.GateOpened, {"known-gate"}),
    (ev.KeyAdded, {"untrusted-key"}),
]


def without(codes: set[str], validate: Callable[..., list[Reason]]) -> Any:
    def lenient(*arguments: Any) -> list[Reason]:
        return [reason for reason in validate(*arguments) if reason.code not in codes]

    return lenient


@pytest.mark.parametrize(
    ("kind", "codes"),
    RULES,
    ids=[f"{kind.TYPE}-{'+'.join(sorted(codes))}" for kind, codes in RULES],
)
def test_a_rule_taken_away_is_missed(
    kind: type[EventData], codes: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(VALIDATORS, kind, without(codes, VALIDATORS[kind]))
    with pytest.raises(FOUND):
        run(CheapMachine, examples=EXAMPLES)


def test_signatures_of_any_key_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(envelope: Any, _keys: Any) -> tuple[str, str]:
        return cheap_world.unverified(envelope)

    monkeypatch.setattr(cheap_world, "_opened", opened)
    with pytest.raises(AssertionError):
        run(CheapMachine, examples=EXAMPLES)
