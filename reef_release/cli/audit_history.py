"""What a replayed log tells, as tables: what is served and why, every refusal, every lever.

Everything told here had an effect; what had none stands among the problems of the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reef_release.audit.report import GateSummary, PointerEvent, ReplayReport, Serving
from reef_release.cli.audit_html import code, items, table, text

__all__ = ["history"]


def history(report: ReplayReport) -> list[str]:
    """The tables of *report*."""
    gates = {gate.gate_id: gate for gate in report.gates}
    rests = [
        (each, gate)
        for each in report.pointer_events
        for gate in report.gates
        if each.type == "release.promoted" and _is_ground(gate, each)
    ]
    used = {gate.gate_id for _, gate in rests}
    return [
        table(
            "Served now",
            ("scenario", "channel", "release", "since position", "since", "why"),
            (_served(each, gates[each.gate_id]) for each in report.serving),
        ),
        table(
            "Promotions and rollbacks, each derived again",
            ("position", "time", "event", "scenario", "channel", "release", "by", "why"),
            map(_pointer, report.pointer_events),
        ),
        table(
            "What each promotion rests on",
            ("promoted at", *_GROUNDS),
            ((each.position, *_grounds(gate)) for each, gate in rests),
        ),
        table(
            "Passed by their gates, and not promoted",
            _GATE_COLUMNS,
            map(
                _gate,
                (
                    gate
                    for gate in report.gates
                    if gate.outcome == "passed" and gate.gate_id not in used
                ),
            ),
        ),
        table(
            "Refused by their gates, or not decided",
            _GATE_COLUMNS,
            map(_gate, (gate for gate in report.gates if gate.outcome != "passed")),
        ),
        table(
            "Refused by admission, or by a node",
            ("position", "time", "scenario", "what", "by", "submitted by", "every reason"),
            (
                (
                    each.position,
                    text(each.recorded_at),
                    text(each.scenario),
                    text(each.subject),
                    text(each.actor),
                    text(each.submitted_by),
                    items(
                        f"{code(one.code)}: {_said(one.message, one.where)}" for one in each.reasons
                    ),
                )
                for each in report.refusals
            ),
        ),
        table(
            "Levers: who did what, and why",
            ("position", "time", "scenario", "event", "on what", "by", "reason"),
            (
                (
                    each.position,
                    text(each.recorded_at),
                    "all" if each.scenario == "_" else text(each.scenario),
                    code(each.type),
                    text(each.subject),
                    text(each.actor),
                    text(each.reason),
                )
                for each in report.actions
            ),
        ),
    ]


_GROUNDS = ("gate", "policy", "tasks and trials", "rules and what they found")
_GATE_COLUMNS = ("decided at", "outcome", "scenario", "candidate", *_GROUNDS)


def _is_ground(gate: GateSummary, promotion: PointerEvent) -> bool:
    """Whether *gate* passed what *promotion* promotes, before it did."""
    end = gate.decision_position
    return (
        gate.outcome == "passed"
        and (gate.scenario, gate.candidate_id) == (promotion.scenario, promotion.release_id)
        and end is not None
        and end < promotion.position
    )


def _served(serving: Serving, gate: GateSummary) -> Sequence[object]:
    if serving.type == "release.promoted":
        why = f"promoted: it passed gate {code(serving.gate_id)} with {_tasks(gate)}"
    else:
        why = f"rolled back to by {text(serving.actor)}: {text(serving.reason)}"
    if serving.held is not None:
        why += f"; promotions are held: {text(serving.held)}"
    return (
        text(serving.scenario),
        text(serving.channel),
        code(serving.release_id),
        serving.position,
        text(serving.recorded_at),
        why,
    )


def _pointer(event: PointerEvent) -> Sequence[object]:
    why = text(event.reason) or f"gate {code(event.gate_id)} passed"
    if event.type == "release.promoted" and event.approved_by:
        why += f"; approved of by {', '.join(map(text, event.approved_by))}"
    return (
        event.position,
        text(event.recorded_at),
        code(event.type),
        text(event.scenario),
        text(event.channel),
        code(event.release_id),
        text(event.actor),
        why,
    )


def _gate(gate: GateSummary) -> Sequence[object]:
    return (
        "" if gate.decision_position is None else gate.decision_position,
        text(gate.outcome or "open"),
        text(gate.scenario),
        code(gate.candidate_id),
        *_grounds(gate),
    )


def _grounds(gate: GateSummary) -> Sequence[object]:
    policy = f"version {gate.policy_version}, {gate.phase}: {code(gate.policy_digest)}"
    told = [_tasks(gate), f"{gate.trial_count:,} trials on all sides"]
    if gate.error_count:
        told.append(f"{gate.error_count:,} of them could not be carried out")
    if gate.share is not None:
        told.append(f"level {text(gate.share.level)}")
    return code(gate.gate_id), policy, items(told), _rules(gate)


def _tasks(gate: GateSummary) -> str:
    return f"{gate.passed_count:,} of {gate.task_count:,} tasks passed"


def _rules(gate: GateSummary) -> str:
    return items(_rule_lines(gate))


def _rule_lines(gate: GateSummary) -> Iterable[str]:
    for rule in gate.rules:
        deep = "– " * rule.depth
        found = f"; {text(rule.found)}" if rule.found else ""
        yield (
            f"{deep}{code(rule.kind)} <b>{rule.outcome or 'undecided'}</b>{found}"
            f'<div class="dim">{text(rule.words)}</div>'
        )


def _said(message: str, where: str) -> str:
    return f"{text(message)} ({code(where)})" if where else text(message)
