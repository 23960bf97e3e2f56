"""Whoever has the gate worker's token, and decisions: of others, on other terms, by other keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reef_release.domain.canonical import parse_json
from reef_release.drill.attack import Outcome, Stop
from reef_release.drill.context import Context
from reef_release.drill.gating import (
    attack_on_gate,
    gate_in_hand,
    rejected,
)
from reef_release.signing.keyring import PRIVATE_NAME
from reef_release.signing.keys import Role, create_key, load_key
from reef_release.tokens import TokenRole
from reef_release.wire import DecisionRequest

__all__ = ["ATTACKS"]

_OTHER = "cd" * 32


def _of_another(context: Context) -> Outcome:
    """The signed pass of the release served, posted for a candidate that failed."""
    served = context.serving() or ""
    passed = context.client(TokenRole.AUDIT).attestation(context.scenario, served)
    attestation = parse_json(passed)
    with gate_in_hand(context) as held:
        held.fail()
        canary = context.client(TokenRole.AUDIT).release(context.scenario, served).canary
        requests = {
            "as it is": DecisionRequest(attestation=attestation),
            "with its canary": DecisionRequest(attestation=attestation, canary=canary),
        }
        seen = rejected(held, requests, "decision")
        ended = held.decide()
    return Outcome(seen=seen, twin=f"its own decision stands at {ended.position}")


def _other_keys(context: Context) -> Outcome:
    keys = context.stack.keys
    with gate_in_hand(context) as held:
        held.fail()
        requests = {
            f"the {role} key": held.decision(
                key=load_key(keys / role.value / PRIVATE_NAME, Role.GATE)
            )
            for role in (Role.LOG, Role.POINTER, Role.POLICY)
        }
        requests["a key of the trainer's own"] = held.decision(key=create_key(Role.GATE))
        seen = rejected(held, requests, "no-trusted-key")
        ended = held.decide()
    return Outcome(seen=seen, twin=f"signed by the gate key it stands at {ended.position}")


def _other_terms(context: Context) -> Outcome:
    """Decisions by the gate key itself that name another policy, suite, base or outcome."""
    changes: Mapping[str, Mapping[str, Any]] = {
        "another policy": {"policy_digest": _OTHER},
        "another suite": {"suite": _OTHER},
        "another base": {"base": _OTHER},
        "another seed": {"seed": _OTHER},
        "other trials": {"trials_digest": _OTHER},
        "other odds": {"odds": [("0.5", "0.000000")]},
        "other verifiers": {"verifiers": ["style@1"]},
    }
    with gate_in_hand(context) as held:
        held.fail()
        requests = {words: held.decision(**each) for words, each in changes.items()}
        requests["a pass"] = held.decision("passed")
        seen = rejected(held, requests, "decision")
        ended = held.decide()
    return Outcome(seen=seen, twin=f"the decision as the trials say stands at {ended.position}")


ATTACKS = (
    attack_on_gate(
        "pass-of-another-candidate",
        (22,),
        "the signed pass of X as the decision on Y",
        _of_another,
        Stop(by="service", code="decision"),
    ),
    attack_on_gate(
        "decision-under-another-key",
        (23,),
        "a decision signed by the log's, the pointer's, the policy's, or the trainer's own key",
        _other_keys,
        Stop(by="service", code="no-trusted-key"),
    ),
    attack_on_gate(
        "decision-on-other-terms",
        (25,),
        "a decision of the gate key that names another policy, suite, seed, or outcome",
        _other_terms,
        Stop(by="service", code="decision"),
    ),
)
