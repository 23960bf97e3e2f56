"""Accounts as lines of text: short sentences, ids that can be copied, nothing folded.

The words come from the service, where the pages have them from; here they are only laid out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from reef_release.account_wire import (
    ActView,
    CandidateAccountView,
    ChannelAccountView,
    GateAccountView,
    GroundsView,
    PolicyInForceView,
    RefusalView,
)
from reef_release.cli.output import console
from reef_release.domain.reasons import Reason
from reef_release.ids import short_id
from reef_release.traffic_wire import SignalView

__all__ = [
    "act_line",
    "candidate_lines",
    "channel_lines",
    "policy_lines",
    "print_lines",
    "refusal_lines",
    "signal_lines",
]

_MUCH = 0.25
"""The share of judged turns without a sample from which on it is told."""
_OWN_EVENTS = {
    "submitted": "candidate.submitted",
    "admitted": "candidate.admitted",
    "refused": "candidate.refused",
    "passing": "gate.passed",
    "promoted": "release.promoted",
}
"""The event that made a candidate what its status says; for the others, its gate's end."""


def print_lines(lines: Iterable[str], style: str = "") -> None:
    """Print each as one line, however wide the terminal is, so that ids can be copied.

    What prints nothing or steers a terminal is named: reasons and manifests are of other people.
    """
    for line in lines:
        shown = "".join(c if c.isprintable() else f"<U+{ord(c):04X}>" for c in line)
        console.print(shown, style=style, markup=False, soft_wrap=True)


def act_line(act: ActView) -> str:
    """An event with its time, place, actor and reason."""
    said = f"{act.at} at position {act.position}, {act.actor}: {act.line}"
    # The line has the reason of most events already, if it was short.
    return said if not act.reason or act.reason in act.line else f"{said}: {act.reason}"


def channel_lines(view: ChannelAccountView) -> Iterator[str]:
    """What a channel serves, since when, by whom, and why that was allowed."""
    if view.release_id is None or view.pointer is None:
        yield f"Channel {view.channel} serves nothing yet."
    else:
        pointer = view.pointer
        how = "rolled back to" if pointer.type == "release.rolled_back" else "promoted"
        yield f"Channel {view.channel} serves {view.release_id}"
        yield (
            f"  since {pointer.at} (position {pointer.position}), {how} by {pointer.actor}"
            + (f": {pointer.reason}" if pointer.reason else "")
        )
        if view.grounds is not None:
            yield from _grounds_lines(view.grounds)
        for act in view.revocations:
            yield f"  REVOKED {act_line(act)}"
    if view.gate is not None:
        gate = view.gate
        yield f"  Gate {gate.gate_id} on candidate {short_id(gate.candidate_id)}: {gate.headline}"


def policy_lines(view: PolicyInForceView) -> Iterator[str]:
    """The policy in force, since when, by whom and why, and what it asks for besides its rules."""
    workers, approvals = view.gate_quorum, view.approvals
    reason = f": {view.act.reason}" if view.act.reason else ""
    yield (
        f"Policy version {view.version} in force since {view.act.at} (position "
        f"{view.act.position}) by {view.act.actor}{reason}; asks {workers} gate "
        f"{'worker' if workers == 1 else 'workers'}, {approvals} "
        f"{'approval' if approvals == 1 else 'approvals'}"
    )


def _grounds_lines(grounds: GroundsView) -> Iterator[str]:
    gate = grounds.gate
    yield f"  allowed because its {gate.phase} gate {gate.gate_id} passed. {gate.headline}"
    yield f"    {_score(gate)}, by policy version {grounds.policy_version}:"
    yield from rule_lines(gate, "    ")
    for each in grounds.signatures:
        place = "" if each.position is None else f" at position {each.position}"
        when = f", {each.at}" if each.at else ""
        yield f"    {each.what}: signed by key {short_id(each.key_id)}{place}{when}"
    for act in grounds.approvals:
        yield f"    approved by {act.actor} at position {act.position}, {act.at}: {act.reason}"


def _score(gate: GateAccountView) -> str:
    if gate.tasks is None:
        return "what its tasks came to is told when it has ended"
    score = f"{gate.passed} of {gate.tasks} tasks right"
    if gate.incumbent_passed is not None:
        score += f", the incumbent {gate.incumbent_passed}"
    if gate.errors:
        trials = "trial" if gate.errors == 1 else "trials"
        score += f", {gate.errors} {trials} that could not be carried out"
    return score


def rule_lines(gate: GateAccountView, indent: str) -> Iterator[str]:
    """Each rule with what it decided and what it found."""
    for rule in gate.rules:
        found = f" [{rule.found}]" if rule.found else ""
        space = "  " * rule.depth
        yield f"{indent}{space}{rule.outcome or 'undecided'}: {rule.words}{found}"


def reason_lines(reasons: Sequence[Reason], indent: str) -> Iterator[str]:
    """Each reason with its code, its words and its place."""
    for reason in reasons:
        yield f"{indent}{reason}"


def refusal_lines(view: RefusalView) -> Iterator[str]:
    """A candidate that did not get through, and why."""
    yield (
        f"  {view.at} (position {view.position}) candidate {short_id(view.candidate_id)} "
        f"{view.outcome}: {view.line}"
    )
    yield from reason_lines(view.reasons, "    ")
    if view.gate is not None:
        yield f"    gate {view.gate.gate_id}: {_score(view.gate)}"
        yield from rule_lines(view.gate, "    ")


def signal_lines(view: SignalView) -> Iterator[str]:
    """Whether there is an alarm, in one line, and what was found to be odd or is lost."""
    total = view.total
    counts = (
        f"{total.calls} calls, {total.main} main, {sum(total.bound.values())} bound, "
        f"{total.judged} judged, {total.batched} batched, {total.trained} trained into a release"
    )
    refused = sum(total.refused.values())
    state = "ALARM" if view.alarm is not None else "no alarm" if total.calls else "no calls yet"
    yield f"Signal: {state}; {counts} (reef-release signal {view.scenario})"
    if refused >= _MUCH * max(total.judged, 1):
        why = ", ".join(f"{reason} {count}" for reason, count in sorted(total.refused.items()))
        yield (
            f"  {refused} of {total.judged} judged turns gave no sample and train nothing: {why}"
        )
    yield from reason_lines(view.findings, "  ")


def candidate_lines(view: CandidateAccountView) -> Iterator[str]:
    """One candidate: how far it came, what comes next, why, and at the end what it is made of."""
    yield (
        f"Candidate {view.candidate_id} is {view.status} at position {_decided_at(view)} "
        f"(as of position {view.position})."
    )
    yield f"  {view.headline}"
    yield f"  {_serving(view)}"
    yield from reason_lines(view.reasons, "  ")
    if view.approvals_wanted:
        approvals = "approval" if view.approvals_wanted == 1 else "approvals"
        yield f"  {view.approvals_given} of {view.approvals_wanted} {approvals}"
    yield f"Next: {view.next_step}"
    yield "What became of it:"
    yield from (f"  {act_line(act)}" for act in view.steps)
    for gate in view.gates:
        ended = gate.outcome or "undecided"
        yield f"Its {gate.phase} gate {gate.gate_id}: {ended}. {gate.headline}"
        yield f"  {_score(gate)}:"
        yield from rule_lines(gate, "  ")
    yield from _manifest_lines(view)


def _decided_at(view: CandidateAccountView) -> int:
    """Where it became what its status says, and not where the log ends."""
    decided = _OWN_EVENTS.get(view.status, f"gate.{view.status}")
    return next(
        (each.position for each in view.steps[::-1] if each.type == decided),
        view.steps[-1].position,
    )


def _serving(view: CandidateAccountView) -> str:
    if view.is_serving:
        return f"Channel {view.channel} serves it now."
    if view.serving is None:
        return f"Channel {view.channel} serves nothing yet."
    return f"Channel {view.channel} serves {view.serving} now, not this one."


def _manifest_lines(view: CandidateAccountView) -> Iterator[str]:
    manifest = view.manifest
    size = sum(file.size_bytes for file in manifest.files)
    yield (
        f"Manifest: {view.kind} weights for channel {view.channel}, {len(manifest.files)} files "
        f"of {size:,} bytes"
    )
    for name, value in (
        ("base", manifest.base),
        ("parent", manifest.parent),
        ("foundation", manifest.foundation),
        ("seed", manifest.seed),
        ("batches", ", ".join(manifest.batches)),
    ):
        if value not in (None, ""):
            yield f"  {name}: {value}"
    for name, values in (("setting", manifest.settings), ("metric", manifest.metrics)):
        for key, value in values.items():
            yield f"  {name} {key}: {value}"
    for file in manifest.files:
        yield f"  {file.path}: {file.size_bytes:,} bytes, sha256 {file.sha256}"
