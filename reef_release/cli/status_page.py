"""The status of a scenario on one page of a terminal: short sentences, then the last gates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from reef_release.account_wire import AccountView
from reef_release.cli.account import (
    act_line,
    channel_lines,
    policy_lines,
    print_lines,
    refusal_lines,
    signal_lines,
)
from reef_release.cli.candidates import waits_line
from reef_release.cli.output import console, print_list
from reef_release.cli.revocations import NEW_KEY, resting_lines
from reef_release.ids import short_id
from reef_release.traffic_wire import SignalView
from reef_release.wire import BudgetView, CandidateView, NodeView, ReleaseView, ScenarioView

__all__ = ["Seen", "budget_line", "show_status"]

_LAST_GATES = 10


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A scenario and what stands beside it; every token may see the status, and not every one
    the account (then it is None), the releases and the candidates (then there are none).
    """

    view: ScenarioView
    signal: SignalView
    account: AccountView | None
    releases: dict[str, ReleaseView]
    candidates: list[CandidateView]


def budget_line(budget: BudgetView) -> str:
    """The error budget in one line."""
    needs = "cannot pass any more" if budget.wins is None else f"needs {budget.wins} wins in a row"
    return (
        f"Error budget ({budget.procedure.replace('_', ' ')}): {budget.spent} of {budget.alpha} "
        f"spent by {budget.gates} gates, {budget.promotions} promoted; the next tests at "
        f"{budget.next_level} and {needs}"
        + (f"; the last that could pass is gate {budget.last_gate}" if budget.last_gate else "")
    )


def show_status(seen: Seen, *, gate_key: bool) -> None:
    """Print the page; *gate_key* is whether any gate key counts."""
    view = seen.view
    console.print(f"{view.name} at position {view.position}", style="bold", markup=False)
    _warn(_held_lines(seen))
    if seen.account is None:
        print_lines(_bare_lines(view))
    else:
        print_lines(policy_lines(seen.account.policy))
        for channel in seen.account.channels:
            print_lines(channel_lines(channel))
    _warn(_served_warnings(seen))
    for node in view.nodes:
        print_lines(_node_lines(view, node))
    _warn(_alarm_lines(view))
    print_lines(signal_lines(seen.signal))
    print_lines(_waiting_lines(view, seen.candidates))
    if view.budget is not None:
        print_lines([budget_line(view.budget)])
    if seen.account is not None:
        _show_past(seen.account)
    if not gate_key and any(gate.outcome is None for gate in view.gates):
        _warn(["NO GATE KEY COUNTS: every decision on the open gate is refused. " + NEW_KEY])
    if not view.gates:
        return
    print_list(
        "Last gates",
        ["gate", "candidate", "phase", "passed", "outcome"],
        [
            [
                gate.gate_id,
                short_id(gate.candidate_id),
                gate.phase,
                "" if gate.passed_count is None else f"{gate.passed_count}/{gate.task_count}",
                gate.outcome or ("running" if gate_key else "no gate key"),
            ]
            for gate in view.gates[-_LAST_GATES:]
        ],
    )


def _warn(lines: Iterable[str]) -> None:
    print_lines(lines, style="bold red")


def _held_lines(seen: Seen) -> Iterator[str]:
    held = seen.account.held if seen.account is not None else None
    if held is not None:
        yield (
            f"HELD since {held.at} (position {held.position}) by {held.actor}: {held.reason}. "
            "Nothing is promoted until `reef-release resume`."
        )
    elif seen.view.held_reason:
        yield f"HELD: {seen.view.held_reason}"


def _bare_lines(view: ScenarioView) -> Iterator[str]:
    """What is served, for a token that may not be told why."""
    for name, each in view.channels.items():
        yield f"Channel {name} serves {each.release_id}"
        yield f"  since {each.since} (position {each.pointer_position}), by {each.kind}"
    yield "Why it was allowed, and what was refused, is told to a token of role audit or operate."


def _served_warnings(seen: Seen) -> Iterator[str]:
    for name, each in seen.view.channels.items():
        if any(reason.code == "revoked" for reason in each.barred):
            yield (
                f"REVOKED: {short_id(each.release_id)} is still served in channel {name}; roll "
                "back, since a revocation moves no pointer"
            )
        served = seen.releases.get(each.release_id)
        yield from resting_lines(name, served, seen.releases.values())


def _node_lines(view: ScenarioView, node: NodeView) -> Iterator[str]:
    channel = view.channels.get(node.channel)
    current = channel is not None and channel.release_id == node.release_id
    if node.silent:
        held = short_id(node.release_id) if node.release_id else "nothing"
        yield (
            f"Node {node.node_id} in channel {node.channel} was last seen {node.recorded_at}, with "
            f"{held}: it has answered no move of its channel since"
        )
        return
    if node.reasons:
        state = f"REFUSED {short_id(node.release_id) if node.release_id else 'what it was given'}"
    else:
        state = f"serves {short_id(node.release_id) if node.release_id else 'nothing'}"
        state += "" if current else ", which its channel does not serve any more"
    yield f"Node {node.node_id} in channel {node.channel} {state}, as of {node.recorded_at}"
    yield from (f"  {reason}" for reason in node.reasons)


def _alarm_lines(view: ScenarioView) -> Iterator[str]:
    if view.signal_alarm:
        yield (
            f"ALARM: calls come in and none binds to another ({view.signal_alarm}); "
            f"see `reef-release signal {view.name}`"
        )


def _waiting_lines(view: ScenarioView, candidates: Sequence[CandidateView]) -> Iterator[str]:
    for each in candidates:
        missing = each.approvals_wanted - len(each.approved_by)
        if each.status != "passed" or each.revoked or missing <= 0:
            continue
        served = view.channels.get(each.channel)
        # Behind a move of the pointer, no approval leads to a promotion any more.
        if served is None or served.pointer_position < each.gates[-1].opened_position:
            approvals = "approval" if each.approvals_wanted == 1 else "approvals"
            yield (
                f"Candidate {short_id(each.candidate_id)} has passed and waits for {missing} of "
                f"{each.approvals_wanted} {approvals}; see `reef-release approve`"
            )
    yield from [line for line in map(waits_line, candidates) if line][-_LAST_GATES:]


def _show_past(account: AccountView) -> None:
    if account.violations:
        _warn(
            [
                f"Events of the log that break the rule and count for nothing: "
                f"{account.violations} (reef-release audit replay names them)."
            ]
        )
    if account.refusals:
        print_lines(["Refused lately (reef-release candidate show ID tells all of it):"])
    for refusal in account.refusals:
        print_lines(refusal_lines(refusal))
    if account.levers:
        print_lines(["Holds, rollbacks and revocations lately:"])
    print_lines(f"  {act_line(act)}" for act in account.levers)
