"""A gate policy: which verifiers, which rule over their verdicts, on which suite.

A policy is a signed JSON document; its digest is the SHA-256 of its canonical bytes. It has a
`standard` part for candidates and an absolute `bootstrap` part for the origin, which has no
incumbent to be compared with. Each part must name at least one objective verifier.

A log is read for ever, so fields that came after the first version of the service may be absent
from a document as a whole, which is fixed to mean none of it. A policy that is signed now spells
them out; only `gate_quorum` may be left out for ever, and is then 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from reef_release.domain.canonical import canonical_json, parse_json
from reef_release.domain.gating.admission import rule_reasons
from reef_release.domain.gating.budget import Budget, budget_reasons
from reef_release.domain.gating.rules import Rule, fraction, slot_count
from reef_release.domain.policy_numbers import refuse_numbers
from reef_release.domain.reasons import Reason
from reef_release.domain.watch_rule import WatchRule, watch_reasons
from reef_release.errors import Refused

__all__ = ["Generation", "Policy", "PolicyPart", "parse_new_policy", "parse_policy"]

MAX_APPROVALS = 16
MAX_QUORUM = 16
_MAY_BE_LEFT_OUT = frozenset({"gate_quorum"})
"""Few policies ask for more than one worker; the others need not say so."""
ALLOWED_CHANGES = frozenset({"chat_template", "config", "generation_config", "tokenizer"})
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MAX_NAME = 64
_NAME = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9._-]{{0,{_MAX_NAME - 1}}}")


class Generation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a reply is sampled: temperature as a decimal ("0" is greedy), length in tokens."""

    temperature: str = "0.7"
    max_new_tokens: int


class PolicyPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Verifiers (all must pass a reply) and the rule over the trials' verdicts."""

    verifiers: list[str]
    rule: Rule


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole document.

    `name` is the scenario it is for and `version` grows with every policy of that scenario, so
    a signed policy can be neither used elsewhere nor put back later. `suite`: digest of the
    JSON-lines blob of tasks. `canaries`: prompts whose greedy continuations identify the
    weights on a node. `max_errors`: errored trials beyond which a gate ends as errored;
    `max_attempts`: gates one candidate may get when they error or go stale;
    `suite_max_gates`: gates after which the suite is retired. `budget`: what the standard rule's
    test against the incumbent may spend over the scenario's life, None for no bound on it.
    `approvals`: people who must approve of a passed gate before its candidate is promoted;
    `watch`: how the served release is watched, None for not at all. `gate_quorum`: independent
    gate workers, each with its own gate key, who must pass a candidate.
    """

    name: str
    version: int
    suite: str
    generation: Generation
    canaries: list[str]
    standard: PolicyPart
    bootstrap: PolicyPart
    max_errors: int = 3
    max_attempts: int = 2
    suite_max_gates: int = 1000
    allowed_changes: list[str] = []
    stated_budget: Budget | UnsetType | None = msgspec.field(default=UNSET, name="budget")
    stated_approvals: int | UnsetType = msgspec.field(default=UNSET, name="approvals")
    stated_watch: WatchRule | UnsetType | None = msgspec.field(default=UNSET, name="watch")
    stated_quorum: int | UnsetType = msgspec.field(default=UNSET, name="gate_quorum")

    @property
    def budget(self) -> Budget | None:
        """The error budget; None also where the document is older than budgets."""
        return None if self.stated_budget is UNSET else self.stated_budget

    @property
    def has_budgets(self) -> bool:
        """Whether the document is young enough to say something of a budget, also `null`."""
        return self.stated_budget is not UNSET

    @property
    def approvals(self) -> int:
        """How many people must approve; 0 also where the document is older than approvals."""
        return 0 if self.stated_approvals is UNSET else self.stated_approvals

    @property
    def watch(self) -> WatchRule | None:
        """How what is served is watched; None also where the document is older than watches."""
        return None if self.stated_watch is UNSET else self.stated_watch

    @property
    def gate_quorum(self) -> int:
        """How many independent gate workers must pass a candidate; 1 where it is left out."""
        return 1 if self.stated_quorum is UNSET else self.stated_quorum

    @property
    def most_gates(self) -> int:
        """The most gates of one candidate: each worker beyond the first has one more."""
        return self.max_attempts + self.gate_quorum - 1

    def part(self, phase: str) -> PolicyPart:
        """The part for `phase`: "bootstrap" or "standard"."""
        return self.bootstrap if phase == "bootstrap" else self.standard

    def slot_count(self) -> int:
        """The most tasks that a gate of either phase may need."""
        return max(slot_count(self.standard.rule), slot_count(self.bootstrap.rule))


def parse_policy(document: bytes, objective: Callable[[str], bool | None]) -> Policy:
    """The policy in *document*; raises `Refused` with every reason.

    *objective* says of a verifier ("answer@1") whether it is objective, None if unknown.
    The document must spell out every field, so that its digest does not depend on defaults; only
    later fields may be absent, as from policies that were signed before there were such.
    """
    value = parse_json(document)
    refuse_numbers(value)
    canonical = canonical_json(value)
    reasons: list[Reason] = []
    try:
        policy = msgspec.convert(value, Policy)
    except msgspec.ValidationError as error:
        decimal = str(error).startswith("Expected `str`, got `int`")
        raise Refused(
            f"This is not a gate policy: {error}.",
            next_step=('Decimals are strings, such as "1". ' if decimal else "")
            + "See docs/reference/policy.md for every field.",
        ) from error
    if canonical_json(msgspec.to_builtins(policy)) != canonical:
        reasons.append(_reason("implicit-fields", f"spell out every field: {_missing(value)}"))
    if not _DIGEST.fullmatch(policy.suite):
        reasons.append(_reason("suite", "suite must be the SHA-256 of a suite blob"))
    if not 1 <= policy.version < 2**53:
        reasons.append(_reason("version", "version counts the scenario's policies from 1"))
    if not policy.canaries:
        reasons.append(_reason("no-canaries", "name at least one canary prompt"))
    reasons += _generation_reasons(policy.generation)
    of_budget = [] if policy.budget is None else budget_reasons(policy.budget)
    reasons += of_budget
    for name in ("standard", "bootstrap"):
        part = policy.part(name)
        reasons += _verifier_reasons(name, part.verifiers, objective)
        if not of_budget:
            paired = name == "standard"
            reasons += rule_reasons(part.rule, name, policy.budget, paired=paired)
    if policy.max_errors < 0 or policy.max_attempts < 1 or policy.suite_max_gates < 1:
        reasons.append(_reason("limits", "max_errors >= 0, max_attempts and suite_max_gates >= 1"))
    unknown = sorted(set(policy.allowed_changes) - ALLOWED_CHANGES)
    if unknown:
        reasons.append(
            _reason("allowed-changes", f"{unknown} are not among {sorted(ALLOWED_CHANGES)}")
        )
    if not 0 <= policy.approvals <= MAX_APPROVALS:
        reasons.append(_reason("approvals", f"approvals is from 0 to {MAX_APPROVALS}"))
    if not 1 <= policy.gate_quorum <= MAX_QUORUM:
        reasons.append(_reason("gate-quorum", f"gate_quorum is from 1 to {MAX_QUORUM}"))
    if policy.watch is not None:
        reasons += watch_reasons(
            policy.watch, lambda name, specs: _verifier_reasons(name, specs, objective)
        )
    if reasons:
        raise Refused("The policy is refused.", reasons=reasons)
    return policy


def parse_new_policy(document: bytes, objective: Callable[[str], bool | None]) -> Policy:
    """As `parse_policy`, for a policy that is to come into force now: later fields stand in it.

    So does a name that a scenario can have, and a temperature that is written like all decimals.
    """
    policy = parse_policy(document, objective)
    reasons = []
    if not _NAME.fullmatch(policy.name):
        message = f"name has 1 to {_MAX_NAME} letters, digits, dots, dashes and underscores"
        reasons.append(_reason("name", message))
    if fraction(policy.generation.temperature) is None:
        reasons.append(_reason("temperature", 'temperature must be a decimal such as "0.7"'))
    if reasons:
        raise Refused("The policy is refused.", reasons=reasons)
    absent = sorted(_fields() - _MAY_BE_LEFT_OUT - set(msgspec.to_builtins(policy)))
    if absent:
        message = f"spell out every field: {', '.join(absent)}"
        raise Refused("The policy is refused.", reasons=[_reason("implicit-fields", message)])
    return policy


def _fields() -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(Policy)}


def _reason(code: str, message: str, where: str = "") -> Reason:
    return Reason(code=code, message=message, where=where)


def _missing(value: Any) -> str:
    missing = sorted(_fields() - _MAY_BE_LEFT_OUT - set(value)) if isinstance(value, dict) else []
    return ", ".join(missing) or "a nested field is missing"


def _generation_reasons(generation: Generation) -> list[Reason]:
    reasons = []
    try:
        temperature = Decimal(generation.temperature)
        valid = temperature.is_finite() and 0 <= temperature <= 5
    except InvalidOperation:
        valid = False
    if not valid:
        reasons.append(_reason("temperature", 'temperature must be a decimal such as "0.7"'))
    if not 1 <= generation.max_new_tokens <= 1_000_000:
        reasons.append(_reason("max-new-tokens", "max_new_tokens must be from 1 to 1,000,000"))
    return reasons


def _verifier_reasons(
    name: str, verifiers: list[str], objective: Callable[[str], bool | None]
) -> list[Reason]:
    reasons = []
    known = [(spec, objective(spec)) for spec in verifiers]
    for spec, is_objective in known:
        if is_objective is None:
            reasons.append(
                _reason("unknown-verifier", f"{spec!r} is not a verifier with a version", name)
            )
    if len(set(verifiers)) != len(verifiers):
        reasons.append(_reason("duplicate-verifier", "a verifier stands twice", name))
    if not any(is_objective for _, is_objective in known):
        reasons.append(
            _reason(
                "no-objective-verifier",
                "no objective verifier is named; add one such as answer@1",
                name,
            )
        )
    return reasons
