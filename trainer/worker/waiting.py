"""What a candidate waits for, as far as the service's views tell, and who can do something."""

from __future__ import annotations

from reef_release.wire import CandidateView, ScenarioView

__all__ = ["reason", "with_reasons"]


def with_reasons(over: str, candidate: CandidateView) -> str:
    """Why a line is over, with what the service says of its candidate."""
    return ": ".join([over, *(each.message for each in candidate.reasons)])


def reason(candidate: CandidateView, scenario: ScenarioView) -> tuple[str, str]:
    """Why nothing has become of a candidate yet, and the next step."""
    if scenario.held_reason is not None:
        return (
            f"the scenario is held: {scenario.held_reason}",
            f"`reef-release resume {scenario.name}` when that is over; a hold blocks promotion.",
        )
    gate = candidate.gates[-1] if candidate.gates else None
    if gate is not None and gate.outcome is None:
        return (
            f"its gate {gate.gate_id} is undecided",
            "Nothing, while trials are posted; if there come none, look at the gate workers.",
        )
    if candidate.status == "passing":
        return (
            "; ".join(each.message for each in candidate.reasons),
            "See that as many gate workers run as the policy asks for, each with a key and a "
            "token of its own (`reef-release status`).",
        )
    if candidate.status == "passed":
        return (
            "its gate passed, and it is not signed and promoted",
            "See that a signer runs (`reef-release signer`), and whether the policy wants an "
            "approval (`reef-release approve`).",
        )
    if candidate.status == "submitted" and candidate.reasons:
        return (
            "; ".join(each.message for each in candidate.reasons),
            "Nothing, while the one before it goes on (`reef-release status`).",
        )
    if candidate.status == "submitted":
        return ("its files are being admitted", "Look at the service if this does not end.")
    return _before_a_gate(candidate, scenario)


def _before_a_gate(candidate: CandidateView, scenario: ScenarioView) -> tuple[str, str]:
    most = scenario.policy["suite_max_gates"]
    if len(scenario.gates) >= most:
        return (
            f"{len(scenario.gates)} gates were opened, and a suite serves {most}: this one may be "
            "retired",
            "Sign a policy with a new suite (`reef-release policy sign`).",
        )
    for gate in scenario.gates:
        if gate.channel == candidate.channel and gate.outcome is None:
            return (
                f"the gate {gate.gate_id} of the same channel is undecided",
                "Nothing, while trials are posted; if there come none, look at the gate workers.",
            )
    seen = f"it is {candidate.status}"
    return (
        f"{seen}, and no gate is open for it",
        "See that a gate worker runs (`reef-release gate`), and what it says.",
    )
