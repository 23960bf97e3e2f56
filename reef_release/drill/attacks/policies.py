"""Policies that nobody who may has signed, and one that measures nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from reef_release.client import ReefClient
from reef_release.domain.canonical import canonical_json, sha256_hex
from reef_release.domain.events import PolicyChanged
from reef_release.domain.gating.default import default_budget
from reef_release.drill.attack import Access, Attack, Outcome, Seen, Stop, stopped
from reef_release.drill.context import Context
from reef_release.drill.errors import GotThrough
from reef_release.drill.sql import append
from reef_release.drill.stage import signed_policy, stage
from reef_release.signing.keyring import PRIVATE_NAME
from reef_release.signing.keys import Role, SigningKey, create_key, load_key
from reef_release.signing.policy import sign_policy
from reef_release.tokens import TokenRole

__all__ = ["ATTACKS"]

_BELIEVER = "drill-policy"


_REASON = "an attempt of the drill"


_EASY = b'{"id": "one", "question": "What is 1 + 1?", "answer": "2"}\n'


def _swapped(context: Context) -> Outcome:
    """A policy of the operator's own: unsigned, by a key of his own, and under an old signature."""
    operator = context.client(TokenRole.OPERATE)
    in_force = context.view()
    easy = operator.put_blob(_EASY)
    version = int(in_force.policy["version"]) + 1
    document = canonical_json(in_force.policy | {"suite": easy, "version": version})
    own = sign_policy(document, create_key(Role.POLICY))
    seen = [_refused(context, operator, own, "no-trusted-key")]
    unsigned = own | {"signatures": []}
    seen.append(_refused(context, operator, unsigned, "signature-count"))
    return Outcome(seen=tuple(seen), twin=f"in force is policy {in_force.policy_digest[:12]}")


def _other_keys(context: Context) -> Outcome:
    """Signed by other roles' keys; an older policy put back; one of another scenario."""
    operator = context.client(TokenRole.OPERATE)
    in_force = context.view()
    version = int(in_force.policy["version"])
    newer = canonical_json(in_force.policy | {"version": version + 1})
    seen = []
    for role in (Role.GATE, Role.LOG, Role.POINTER):
        stolen = load_key(context.stack.keys / role.value / PRIVATE_NAME, Role.POLICY)
        seen.append(_refused(context, operator, sign_policy(newer, stolen), "no-trusted-key"))
    again = signed_policy(context, context.scenario, version=version)
    seen.append(_refused(context, operator, again, "old-policy"))
    other = signed_policy(context, "elsewhere", version=version + 1)
    seen.append(_refused(context, operator, other, "other-scenario"))
    after = context.view()
    if after.policy_digest != in_force.policy_digest:
        raise GotThrough("Another policy is in force.")
    return Outcome(seen=tuple(seen), twin=f"in force is policy {in_force.policy_digest[:12]}")


def _refused(context: Context, operator: ReefClient, policy: dict[str, Any], code: str) -> Seen:
    change = partial(operator.change_policy, context.scenario, policy, _REASON)
    return stopped(context, change, "service", code)


def _believed(context: Context) -> Outcome:
    """A policy by a thief's key, put into the log past the service."""
    stage(context, _BELIEVER, origin=False)
    before = context.view(_BELIEVER)
    thief = create_key(Role.POLICY)
    document = canonical_json(context.stack.policy(_BELIEVER) | {"version": 2})
    data = PolicyChanged(
        policy_digest=sha256_hex(document), policy=sign_policy(document, thief), reason=_REASON
    )
    [position] = append(context, _BELIEVER, data)
    context.until(partial(context.view, _BELIEVER), lambda view: view.position >= position)
    after = context.view(_BELIEVER)
    if after.policy_digest != before.policy_digest:
        raise GotThrough(f"The policy forged at {position} is in force.")
    seen = Seen(by="fold", code="no-effect", event="policy.changed", position=position)
    return Outcome(seen=(seen,), twin=f"in force is policy {after.policy_digest[:12]}")


def _unobjective(context: Context) -> Outcome:
    """Signed by the policy owner, and nothing in it looks at the answer."""
    operator = context.client(TokenRole.OPERATE)
    version = int(context.view().policy["version"]) + 1
    seen = []
    for part in ("standard", "bootstrap"):
        document = context.stack.policy(context.scenario)
        document |= {"version": version, part: document[part] | {"verifiers": ["style@1"]}}
        signed = sign_policy(canonical_json(document), _policy_key(context))
        seen.append(_refused(context, operator, signed, "no-objective-verifier"))
    in_force = context.view().policy_digest
    return Outcome(seen=tuple(seen), twin=f"in force, with one, is policy {in_force[:12]}")


def _unkept(context: Context) -> Outcome:
    """Signed by the policy owner: an error budget over a rule that luck alone gets through."""
    operator = context.client(TokenRole.OPERATE)
    in_force = context.view()
    version = int(in_force.policy["version"]) + 1
    document = in_force.policy | {"version": version, "budget": default_budget()}
    signed = sign_policy(canonical_json(document), _policy_key(context))
    seen = _refused(context, operator, signed, "budget-not-kept")
    return Outcome(seen=(seen,), twin=f"in force is policy {in_force.policy_digest[:12]}")


def _policy_key(context: Context) -> SigningKey:
    return context.key(Role.POLICY)


def _attack(
    name: str,
    row: int,
    tries: str,
    run: Callable[[Context], Outcome],
    needs: frozenset[Access],
    *stops: Stop,
    quick: bool = False,
) -> Attack:
    return Attack(
        name=name,
        rows=(row,),
        tries=tries,
        stops=stops,
        run=run,
        roles=frozenset({TokenRole.AUDIT, TokenRole.OPERATE}),
        needs=needs,
        quick=quick,
    )


ATTACKS = (
    _attack(
        "policy-of-the-operators-own",
        54,
        "an easy suite and its policy, unsigned and by a key of the operator's own",
        _swapped,
        frozenset(),
        Stop(by="service", code="no-trusted-key"),
        Stop(by="service", code="signature-count"),
        quick=True,
    ),
    _attack(
        "policy-under-another-key",
        54,
        "a policy by the gate's, the log's or the pointer's key, an old one, and a stranger's",
        _other_keys,
        frozenset({Access.KEYS}),
        Stop(by="service", code="no-trusted-key"),
        Stop(by="service", code="old-policy"),
        Stop(by="service", code="other-scenario"),
    ),
    _attack(
        "policy-forged-by-hand",
        54,
        "a policy by a thief's key, appended with the service's password",
        _believed,
        frozenset({Access.DATABASE, Access.KEYS}),
        Stop(by="fold", code="no-effect", events=("policy.changed",)),
    ),
    _attack(
        "policy-without-an-objective-verifier",
        55,
        "a policy, signed by its owner, that asks for style alone",
        _unobjective,
        frozenset({Access.KEYS}),
        Stop(by="service", code="no-objective-verifier"),
    ),
    _attack(
        "policy-whose-budget-is-not-kept",
        58,
        "a policy, signed by its owner, with an error budget that its rule does not keep",
        _unkept,
        frozenset({Access.KEYS}),
        Stop(by="service", code="budget-not-kept"),
    ),
)
