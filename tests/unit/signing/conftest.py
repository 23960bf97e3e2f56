"""One key of each role, and one valid signed document of each kind."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from reef_release.domain.decision import Evidence, GateDecision
from reef_release.domain.gating.budget import BudgetShare
from reef_release.signing.current import CurrentDocument
from reef_release.signing.keys import PublicKey, Role, SigningKey, create_key


@pytest.fixture(scope="session")
def keys() -> Mapping[Role, SigningKey]:
    return {role: create_key(role) for role in Role}


@pytest.fixture(scope="session")
def trusted(keys: Mapping[Role, SigningKey]) -> tuple[PublicKey, ...]:
    """The public keys of all roles, as a reader that trusts them all has them."""
    return tuple(key.public for key in keys.values())


@pytest.fixture(scope="session")
def document() -> CurrentDocument:
    return CurrentDocument(
        scenario="homework",
        channel="stable",
        serial=41,
        issued_at="2026-01-02T03:04:05.000006Z",
        expires_at="2026-01-02T03:05:05.000006Z",
        release_id="ab" * 32,
        pointer_position=40,
        gate_digest="cd" * 32,
        checkpoint="reef.example/log\n41\n…\n",
        root_version=1,
    )


@pytest.fixture(scope="session")
def decision() -> GateDecision:
    return GateDecision(
        scenario="homework",
        channel="stable",
        gate_id="018f3c1e-0000-7000-8000-000000000000",
        candidate_id="ab" * 32,
        base="cd" * 32,
        phase="standard",
        outcome="passed",
        policy_digest="ef" * 32,
        suite="01" * 32,
        verifiers=["answer@1", "work_steps@1"],
        checkpoint_position=12,
        seed="23" * 32,
        odds=[],
        evidence=[
            Evidence(rule="improves", level="1/960", best=14, middle=0, worst=0, e_value="2183.93")
        ],
        budget=BudgetShare(number=2, promotions=0, spent="1/960", share="1/960", level="1/960"),
        trial_count=6,
        trials_digest="45" * 32,
        canary="67" * 32,
    )
