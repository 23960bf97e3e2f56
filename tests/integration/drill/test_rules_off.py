"""Each rule of fold and node, taken away by itself: the drill must say which no longer holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reef_release.api.routes.candidates import CandidateController
from reef_release.client import ReefClient
from reef_release.domain import draws, gate_rules, revocation, rule, validation
from reef_release.domain.state import State
from reef_release.drill.catalogue import chosen
from reef_release.drill.runner import NOT_STOPPED, STOPPED, run_drill
from reef_release.node import gates, moves, policies, revocations
from reef_release.node.trusted import Trusted
from tests.integration.api.story import SCENARIO
from tests.integration.drill.conftest import Range
from tests.integration.drill.sabotage import disable

GATES = "gate-rewritten-with-the-log-key"
VOID = "events-that-may-not-stand"
DRAWS = "draws-rewritten-with-the-log-key"
MOVES = "moves-rewritten-with-the-log-key"
REVOCATIONS = "revocations-rewritten-with-the-log-key"
GROUNDS = "grounds-told-to-a-new-node"
NODE_MOVES = "moves-told-to-a-new-node"
NODE_REVOCATIONS = "revocations-told-to-a-new-node"
NO = "if False:"

CHECKS: list[tuple[str, Callable[..., Any], str, str, str]] = [
    (MOVES, rule.rollback_reasons, "if data.release_id not in promoted:", NO, "never-promoted"),
    (MOVES, rule.promotion_reasons, "if scenario.held_reason is not None:", NO, "held"),
    (
        MOVES,
        rule.promotion_reasons,
        "if serving is not None and serving.position > gate.opened_position:",
        NO,
        "stale-gate",
    ),
    (GATES, rule.gate_opening_reasons, "if data.seed != seed.hex():", NO, "seed"),
    (
        GATES,
        rule.gate_opening_reasons,
        "if checkpoint is None or checkpoint.position != data.checkpoint_position:",
        "if checkpoint is None:",
        "checkpoint",
    ),
    (
        GATES,
        rule.gate_opening_reasons,
        'if data.phase != ("standard" if serving else "bootstrap"):',
        NO,
        "phase",
    ),
    (
        GATES,
        gate_rules._gate_trial,
        "if data.verdict != checks.verdict(gate.part.verifiers, body.reply, task.answer):",
        NO,
        "verdict",
    ),
    (
        GATES,
        gate_rules._gate_trial,
        'return [_no("other-body", "the body records another trial")]',
        "pass",
        "other-body",
    ),
    (
        VOID,
        rule.gate_opening_reasons,
        "if candidate.submitted.channel != data.channel:",
        NO,
        "other-channel",
    ),
    (
        VOID,
        rule.gate_opening_reasons,
        "if (data.policy_digest, data.suite) != (in_force.digest, in_force.policy.suite):",
        NO,
        "other-policy",
    ),
    (
        VOID,
        gate_rules._gate_trial,
        'return [_no("not-truncated", "a whole reply is no error")] if whole else []',
        "return []",
        "not-truncated",
    ),
    (
        DRAWS,
        rule.gate_opening_reasons,
        "reasons += draw_reasons(scenario, candidate, data.base)",
        "pass",
        "policy-after-draw",
    ),
    (DRAWS, draws.draw_reasons, "if draw.base != base:", NO, "base-after-draw"),
    (
        DRAWS,
        rule.gate_opening_reasons,
        "reasons += same_weights_reasons(scenario, candidate)",
        "pass",
        "same-weights",
    ),
    (
        DRAWS,
        rule.gate_opening_reasons,
        'reasons += key_reasons(state, "policy", in_force.key_id)',
        "pass",
        "key-revoked",
    ),
    (
        VOID,
        validation._checkpoint_published,
        "if last is not None and (data.size <= last.size or data.origin != last.origin):",
        NO,
        "order",
    ),
    (
        REVOCATIONS,
        revocation.revocation_reasons,
        "for role, key_id in signers:",
        "for role, key_id in ():",
        "key-revoked",
    ),
    (
        REVOCATIONS,
        revocation.revocation_reasons,
        "if _had_happened(release.revoked_position, at):",
        NO,
        "revoked",
    ),
    (
        REVOCATIONS,
        State.active_keys,
        " and key.revoked_position is None",
        "",
        "no-trusted-key",
    ),
    (
        NODE_MOVES,
        gates.passed,
        "if not before < opening.position < passing.position < after:",
        NO,
        "stale-gate",
    ),
    (
        GROUNDS,
        gates.passed,
        "if decision.canary is None or decision.canary != posted.canary:",
        NO,
        "no-canary",
    ),
    (NODE_MOVES, policies.applied, "if held is not None:", NO, "held"),
    (
        NODE_MOVES,
        moves._previous,
        'if getattr(previous.data, "release_id", None) != base:',
        NO,
        "other-base",
    ),
    (
        NODE_REVOCATIONS,
        revocations.require_no_revocation,
        "if subject in names and event.position < position:",
        NO,
        "revoked",
    ),
    (
        NODE_REVOCATIONS,
        revocations.require_no_revocation,
        "if revoked is not None:",
        NO,
        "key-revoked",
    ),
    (
        "document-on-another-root",
        Trusted.open_document,
        "if document.root_version > self.root.version:",
        NO,
        "root-missing",
    ),
    (
        "document-on-another-root",
        Trusted.open_document,
        "if document.root_version < memory.root_version:",
        NO,
        "root-lower",
    ),
    (
        "document-of-another-channel",
        Trusted._read,
        "if (document.scenario, document.channel) != (memory.scenario, memory.channel):",
        NO,
        "other-channel",
    ),
    (
        "root-that-has-expired",
        Trusted._check_time,
        "if self.root.expires_at <= latest:",
        NO,
        "root-expired",
    ),
    (
        "document-that-lives-for-a-month",
        Trusted._check_time,
        "if _time(document.expires_at) - _time(document.issued_at) > LONGEST_LIFETIME:",
        NO,
        "lifetime",
    ),
]


def thrown(shooting_range: Range, directory: Path, name: str) -> Any:
    """The row of one attack, on what the drill takes for a stack of its own."""
    context = shooting_range.context(directory)
    try:
        report = run_drill(context, chosen([name], quick=False), lambda _: None, quick=True)
    finally:
        context.close()
    [row] = [row for row in report.rows if row.name == name]
    return row


@pytest.mark.parametrize("name", sorted({check[0] for check in CHECKS}))
def test_with_every_rule_in_place_it_is_stopped(
    shooting_range: Range, tmp_path: Path, name: str
) -> None:
    row = thrown(shooting_range, tmp_path, name)
    assert (row.verdict, row.problem) == (STOPPED, "")


@pytest.mark.parametrize(("name", "function", "check", "instead", "code"), CHECKS)
def test_without_one_rule_the_drill_fails_and_names_it(
    shooting_range: Range,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    function: Callable[..., Any],
    check: str,
    instead: str,
    code: str,
) -> None:
    disable(monkeypatch, function, check, instead)
    row = thrown(shooting_range, tmp_path, name)
    assert row.verdict == NOT_STOPPED
    assert f"not {code}" in row.problem


@pytest.mark.parametrize("name", ["clock-of-the-node", "expired-document"])
def test_a_node_that_takes_what_has_expired(
    shooting_range: Range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    disable(monkeypatch, Trusted._check_time, "if document.expires_at <= latest:", NO)
    row = thrown(shooting_range, tmp_path, name)
    assert row.verdict == NOT_STOPPED
    assert "has expired against the document, and took it" in row.problem


def test_an_origin_that_anybody_may_submit(
    shooting_range: Range, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "origin-by-a-trainer"
    assert shooting_range.drill(name)[0] == 0
    check = "request.user.role is not TokenRole.OPERATE"
    disable(monkeypatch, CandidateController.submit.fn, check, "False")
    status, report = shooting_range.drill(name)
    [row] = [row for row in report["rows"] if row["name"] == name]
    assert (status, row["verdict"]) == (1, NOT_STOPPED)
    assert "It was accepted" in row["problem"]
    with ReefClient(shooting_range.url, shooting_range.running.site.token("operate")) as client:
        [admitted] = client.candidates(SCENARIO, "admitted")
        client.revoke_candidate(SCENARIO, admitted.candidate_id, "made for this test")
