"""A rule that no attack of the drill runs into: taken away, it would not be missed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from reef_release.drill.catalogue import catalogue

DOMAIN = [
    "approval",
    "candidate_rules",
    "draws",
    "fold",
    "gate_claims",
    "gate_rules",
    "gating/admission",
    "gating/budget",
    "policy",
    "policy_numbers",
    "quorum",
    "revocation",
    "rule",
    "same_weights",
    "validation",
    "watch_rule",
    "watch_rules",
    "weights",
]
"""What replays an event, in `reef_release/domain`."""
GIVE = {"Reason", "no", "_no", "reason", "_reason", "refuse", "refused", "_fault"}
"""What a reason's code is handed to, by position or as `code`."""

NEVER_PROVOKED = {
    "decimal": "signed bytes with floats are not canonical JSON, which is refused before",
    "implicit-fields": "says how to write a policy; one that leaves fields out allows nothing",
    "no-verdict": "needs a rule of metrics alone, which is the policy owner's own signature",
    "name": "asked of a new policy; in the log one for another name is other-scenario",
    "unknown-task": "needs a protected task that no suite has: such a gate would be stricter",
    "too-many-files": "a bound on work; the files of such a candidate do not fit into an event",
    "fallen": "no refusal: why a watch rolls back to another release",
    "watch-over": "a second fall of what fell already changes nothing",
}
NEVER_PROVOKED_AT_A_NODE = {
    "canary-record": "needs a passed gate over a record that no node can read",
    "clock-behind": "a warning",
    "disk": "the node's own trouble",
    "expiring": "a warning",
    "no-contradiction": "no refusal: two documents that are shown do not contradict each other",
    "foundation": "a service that leaves out what is below an adapter, so nothing is loaded",
    "no-trials": "a pass by a stolen gate key over no trials; an audit finds its decision",
    "not-passed": "a decision of another outcome, which a signer signs no weights for",
    "other-event": "an event of another type than was asked for, without the fields that are read",
    "other-policy": "what is signed of the gate says another policy, too: other-gate",
    "policy-digest": "the policy's digest is in the signed decision, too: other-policy, other-gate",
    "nothing-loaded": "no refusal: there is nothing to explain",
    "revoked-since": "a warning; a node goes on until the pointer moves",
    **dict.fromkeys(
        (
            "extra-file",
            "file-differs",
            "file-name",
            "gate-digest",
            "hidden-event",
            "missing-event",
            "never-promoted",
            "no-origin",
            "nothing-served",
            "other-record",
            "other-root",
            "reopened-gate",
            "unreadable-event",
            "wrong-stream",
        ),
        "lies of a service without the log key, and the node's own disk: tests/unit/node",
    ),
}


def given(path: Path) -> Iterator[str]:
    """The reason codes that stand in the source at *path*."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name not in GIVE:
            continue
        for value in [
            *node.args[:1],
            *(each.value for each in node.keywords if each.arg == "code"),
        ]:
            for each in ast.walk(value):
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    yield each.value


def codes(paths: list[Path]) -> set[str]:
    words = {code for path in paths for code in given(path)}
    return {code for code in words if " " not in code and not code.startswith(("{", "."))}


def provoked(*, at_a_node: bool) -> set[str]:
    return {
        stop.code
        for attack in catalogue()
        for stop in attack.stops
        if (stop.by == "node") == at_a_node
    }


@pytest.mark.parametrize("at_a_node", [False, True])
def test_every_rule_has_an_attack_that_runs_into_it(repository: Path, at_a_node: bool) -> None:
    if at_a_node:
        paths = sorted((repository / "reef_release/node").glob("*.py"))
        excepted = NEVER_PROVOKED_AT_A_NODE
    else:
        paths = [repository / f"reef_release/domain/{name}.py" for name in DOMAIN]
        excepted = NEVER_PROVOKED
    rules = codes(paths)
    missing = rules - provoked(at_a_node=at_a_node)
    assert missing - set(excepted) == set(), "give each an attack, or say here why it needs none"
    assert set(excepted) - missing == set(), "these need no exception"
