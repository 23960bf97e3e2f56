"""What a policy says, in words, term by term; and what differs between two of them.

Every field of the document is in one of the terms, so that two policies with the same terms ask
for the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from reef_release.domain.gating.budget import Budget
from reef_release.domain.gating.rule_words import rule_texts
from reef_release.domain.policy import Policy, PolicyPart
from reef_release.domain.watch_rule import WatchRule
from reef_release.web.words import count_of, words_of

__all__ = ["PolicyChange", "policy_changes", "policy_document", "policy_terms"]

_IN_WORDS = frozenset(
    {
        "allowed_changes",
        "approvals",
        "bootstrap",
        "budget",
        "canaries",
        "gate_quorum",
        "generation",
        "max_attempts",
        "max_errors",
        "standard",
        "suite",
        "suite_max_gates",
        "watch",
    }
)
_OF_THE_DOCUMENT = frozenset({"name", "version"})
_NONE = "none"


@dataclass(frozen=True, kw_only=True)
class PolicyChange:
    """One term in which two policies differ: what only the older says, and only the newer."""

    term: str
    before: tuple[str, ...]
    after: tuple[str, ...]


def policy_terms(policy: Policy) -> Mapping[str, tuple[str, ...]]:
    """What *policy* says: each term with its lines."""
    terms = {
        "rule for candidates": _rule(policy.standard),
        "checks of a candidate’s reply": tuple(policy.standard.verifiers),
        "rule for an origin": _rule(policy.bootstrap),
        "checks of an origin’s reply": tuple(policy.bootstrap.verifiers),
        "error budget": (_budget(policy.budget),),
        "suite": (policy.suite,),
        "life of a suite": (f"at most {count_of(policy.suite_max_gates, 'gate')}",),
        "gate workers": (str(policy.gate_quorum),),
        "approvals": (
            count_of(policy.approvals, "person", "people") if policy.approvals else _NONE,
        ),
        "watch": (_watch(policy.watch),),
        "sampling": (
            f"temperature {policy.generation.temperature}, at most "
            f"{count_of(policy.generation.max_new_tokens, 'token')}",
        ),
        "errors": (f"more than {count_of(policy.max_errors, 'error')} end a gate",),
        "attempts": (f"at most {count_of(policy.max_attempts, 'gate')} for one candidate",),
        "allowed changes": tuple(policy.allowed_changes) or (_NONE,),
        "canary prompts": tuple(policy.canaries),
    }
    return terms | _others(policy)


def policy_changes(before: Policy, after: Policy) -> tuple[PolicyChange, ...]:
    """In what *after* differs from *before*, in the order of the terms."""
    old, new = policy_terms(before), policy_terms(after)
    return tuple(
        PolicyChange(
            term=term,
            before=_without(old.get(term, (_NONE,)), new.get(term, (_NONE,))),
            after=_without(new.get(term, (_NONE,)), old.get(term, (_NONE,))),
        )
        for term in dict.fromkeys((*new, *old))
        if old.get(term) != new.get(term)
    )


def policy_document(policy: Policy) -> str:
    """All of the document, to be read; its digest is that of the same fields in canonical form."""
    return json.dumps(msgspec.to_builtins(policy), indent=2, ensure_ascii=False)


def _without(lines: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    """The *lines* that are not among *others*; all of them where only their order differs."""
    if sorted(lines) == sorted(others):
        return lines
    left = list(others)
    found = []
    for line in lines:
        if line in left:
            left.remove(line)
        else:
            found.append(line)
    return tuple(found)


def _rule(part: PolicyPart) -> tuple[str, ...]:
    return tuple(f"{'– ' * each.depth}{each.words}" for each in rule_texts(part.rule))


def _budget(budget: Budget | None) -> str:
    if budget is None:
        return _NONE
    gamma = budget.gamma
    return (
        f"{budget.alpha} over the scenario’s life, as {words_of(budget.procedure)}; equal shares "
        f"for the first {count_of(gamma.first_block, 'draw')}, then they fall, decay {gamma.decay}"
    )


def _watch(watch: WatchRule | None) -> str:
    if watch is None:
        return _NONE
    return (
        f"{'rolls back' if watch.automatic else 'holds promotions'} once a served release has "
        f"fallen from a pass rate of {watch.bar} to {watch.fallen}, at level {watch.alpha}; checks "
        f"{', '.join(watch.verifiers)}; a trial every {watch.every_s} s, at most {watch.max_trials}"
    )


def _others(policy: Policy) -> dict[str, tuple[str, ...]]:
    """Fields that have no words of their own, as they stand in the document."""
    fields = msgspec.to_builtins(policy)
    return {
        words_of(name): (json.dumps(value, ensure_ascii=False),)
        for name, value in fields.items()
        if name not in _IN_WORDS | _OF_THE_DOCUMENT
    }
