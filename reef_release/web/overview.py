"""The overview of a scenario: what is served, since when, why; what was refused; is all well.

Everything is as of the position of the `Past`, and no list is longer than its limit. Of the events
without effect the newest thousand of the whole log are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import islice

from reef_release.domain import events as ev
from reef_release.domain.gate import Gate
from reef_release.domain.gating.admission import approximate
from reef_release.domain.gating.rule_words import RuleLine, rule_lines
from reef_release.domain.gating.rules import slot_count
from reef_release.domain.nodes import is_silent
from reef_release.domain.quorum import lacking_workers, passes_with
from reef_release.domain.reasons import Reason
from reef_release.domain.state import Pointer, State, Violation
from reef_release.projections.signal import Counts, SignalHealth
from reef_release.web.facts import Row, release_at, served_before
from reef_release.web.gate_page import headline
from reef_release.web.past import Past
from reef_release.web.policy_page import PolicyLine, policy_line
from reef_release.web.summaries import summary
from reef_release.web.words import count_of

__all__ = [
    "Approval",
    "BudgetLine",
    "ChannelView",
    "Earlier",
    "GateProgress",
    "NodeLine",
    "Overview",
    "Refusal",
    "ScenarioLine",
    "SignalLine",
    "TailRow",
    "Why",
    "WorkersWait",
    "overview",
    "refusals",
    "scenario_line",
    "tail_row",
    "violations_of",
]

_REFUSALS = 5
_TAIL = 20
_NODES = 24
_APPROVALS = 10
_EARLIER = 3
_GATES_LOOKED_AT = 200
_POINTERS_LOOKED_AT = 50
_VIOLATIONS_LOOKED_AT = 1_000
_NEEDED_ROLES = ("gate", "release", "policy", "pointer")
_SCREENED = ("candidate.refused", "gate.failed", "gate.inconclusive", "gate.errored", "gate.stale")


@dataclass(frozen=True, kw_only=True)
class Why:
    """Why a release may be served: the gate that it passed, and who signed what.

    `decisions` are the key of each gate worker that passed it, and where.
    """

    gate_id: str
    phase: str
    passed: int
    slots: int
    incumbent_passed: int | None
    errors: int
    rules: list[RuleLine]
    policy_digest: str
    policy_version: int
    policy_key: str
    policy_position: int | None
    decision_position: int | None
    decisions: list[tuple[str, int | None]]
    release_key: str
    signed_position: int
    approved_by: list[str]
    promoted_position: int | None


@dataclass(frozen=True, kw_only=True)
class GateProgress:
    """A gate that goes on; marks are the verdicts of each slot by side.

    `key_counts` is whether there is a gate key by which it could end.
    """

    gate_id: str
    candidate_id: str
    opened_position: int
    phase: str
    candidate: list[bool]
    incumbent: list[bool] | None
    errors: int
    most_slots: int
    rules: list[RuleLine]
    key_counts: bool


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """A release that was served before and could be again."""

    release_id: str
    pointer: Pointer


@dataclass(frozen=True, kw_only=True)
class ChannelView:
    """A channel: what it serves, since when and why, its document, and what is tried on it.

    `before` is what it served right before, `key_reasons` name the revoked keys behind what it
    serves.
    `document_left_s` is how long the newest current document was still valid.
    """

    channel: str
    pointer: Pointer | None
    before: str | None
    why: Why | None
    revoked_position: int | None
    key_reasons: list[Reason]
    document_serial: int | None
    document_at: str | None
    document_left_s: float | None
    gate: GateProgress | None
    earlier: list[Earlier]


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A candidate that did not get through, and why."""

    position: int
    recorded_at: str
    outcome: str
    candidate_id: str
    gate_id: str | None
    line: str
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, kw_only=True)
class Approval:
    """A candidate that passed its gate and waits for people."""

    candidate_id: str
    gate_id: str
    wanted: int
    given: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class WorkersWait:
    """A candidate that passed and waits for another gate worker; `line` says how many did."""

    candidate_id: str
    gate_id: str
    line: str


@dataclass(frozen=True, kw_only=True)
class BudgetLine:
    """The error budget of the policy in force; decimals."""

    alpha: str
    spent: str
    left: str
    share_left: int
    gates: int
    promotions: int


@dataclass(frozen=True, kw_only=True)
class SignalLine:
    """Signal health in short; the alarm with its position, if it is raised."""

    counts: Counts
    bound: int
    alarm_position: int | None
    alarm_reason: str


@dataclass(frozen=True, kw_only=True)
class NodeLine:
    """The last report of a node; `is_current` says whether it has what its channel serves.

    `is_silent` says that it has not, and has not answered a move of its channel for long.
    """

    node_id: str
    channel: str
    release_id: str | None
    position: int
    recorded_at: str
    reasons: tuple[Reason, ...]
    is_current: bool
    is_silent: bool


@dataclass(frozen=True, kw_only=True)
class TailRow:
    """One event in short."""

    position: int
    type: str
    scenario: str
    recorded_at: str
    actor: str
    line: str


@dataclass(frozen=True, kw_only=True)
class Overview:
    """The whole page. `keyless` are the roles of which no key counts."""

    name: str
    channels: list[ChannelView]
    policy: PolicyLine
    keyless: list[str]
    held: TailRow | None
    held_reason: str
    signal: SignalLine
    budget: BudgetLine | None
    workers: list[WorkersWait]
    approvals: list[Approval]
    refusals: list[Refusal]
    nodes: list[NodeLine]
    violations: int
    last_violation: int | None
    tail: list[TailRow]
    next_before: int | None


async def overview(
    past: Past, signal: SignalHealth, now: datetime, document_lifetime_s: int
) -> Overview:
    """The overview of a scenario. Raises `LogUnavailable`."""
    held = await past.held()
    violations = violations_of(past)
    tail = await past.history.newest(_TAIL, past.name)
    lifetime = timedelta(seconds=document_lifetime_s)
    return Overview(
        name=past.name,
        channels=[await _channel(past, name, now, lifetime) for name in past.channels()],
        policy=await policy_line(past, past.policy),
        keyless=[role for role in _NEEDED_ROLES if not past.key_counts(role)],
        held=None if held is None else tail_row(held, past.history.state),
        held_reason=held.data.reason if held and isinstance(held.data, ev.ScenarioHeld) else "",
        signal=await _signal(past, signal),
        budget=_budget(past),
        workers=_workers(past),
        approvals=_approvals(past),
        refusals=await refusals(past),
        nodes=await _nodes(past, now),
        violations=len(violations),
        last_violation=violations[0].position if violations else None,
        tail=[tail_row(row, past.history.state) for row in tail],
        next_before=tail[-1].position if len(tail) == _TAIL else None,
    )


def violations_of(past: Past) -> list[Violation]:
    """Those without effect among the newest of the log, the newest first."""
    found = past.history.violations(_VIOLATIONS_LOOKED_AT)
    return [each for each in found if each.scenario == past.name]


def tail_row(row: Row, state: State) -> TailRow:
    """An event in short; *state* has folded it."""
    envelope = row.envelope
    return TailRow(
        position=envelope.position,
        type=envelope.type,
        scenario=envelope.scenario,
        recorded_at=envelope.recorded_at,
        actor=envelope.actor,
        line=summary(row, state),
    )


async def _channel(past: Past, name: str, now: datetime, lifetime: timedelta) -> ChannelView:
    pointer, document, gate = past.serving(name), past.document(name), past.open_gate(name)
    left = None
    if document is not None:
        ends = datetime.fromisoformat(document.issued_at) + lifetime
        left = (ends - now).total_seconds()
    return ChannelView(
        channel=name,
        pointer=pointer,
        before=None if pointer is None else served_before(past.scenario, name, pointer.position),
        why=None if pointer is None else _why(past, pointer.release_id),
        revoked_position=None if pointer is None else past.revoked_position(pointer.release_id),
        key_reasons=[]
        if pointer is None
        else [each for each in past.revocations(pointer.release_id) if each.code == "key-revoked"],
        document_serial=None if document is None else document.serial,
        document_at=None if document is None else document.issued_at,
        document_left_s=left,
        gate=None if gate is None else _progress(past, await past.gate(gate)),
        earlier=_earlier(past, name),
    )


def _earlier(past: Past, channel: str) -> list[Earlier]:
    """The releases served last, each once, that the rule allows a rollback to."""
    pointers = past.pointers(channel)
    found: dict[str, Pointer] = {}
    for pointer in reversed(pointers[-_POINTERS_LOOKED_AT:]):
        found.setdefault(pointer.release_id, pointer)
    return [
        Earlier(release_id=release_id, pointer=pointer)
        for release_id, pointer in list(found.items())[1:]
        if not past.revocations(release_id)
    ][:_EARLIER]


def _why(past: Past, release_id: str) -> Why | None:
    release = release_at(past.scenario, release_id, past.at)
    if release is None:
        return None
    gate = past.scenario.gates[release.gate_id]
    incumbents = gate.passes("incumbent") if gate.opened.base is not None else None
    digest = gate.opened.policy_digest
    policy = next(each for each in past.scenario.policies if each.digest == digest)
    return Why(
        gate_id=release.gate_id,
        phase=gate.opened.phase,
        passed=sum(gate.passes("candidate")),
        slots=len(gate.slots()),
        incumbent_passed=None if incumbents is None else sum(incumbents),
        errors=gate.errors,
        rules=_rules(gate),
        policy_digest=digest,
        policy_version=gate.policy.version,
        policy_key=gate.policy_key,
        policy_position=policy.position,
        decision_position=gate.decision_position,
        decisions=[
            (each.decision_key or "", each.decision_position)
            for each in passes_with(past.scenario, gate)
        ],
        release_key=release.key_id,
        signed_position=release.signed_position,
        approved_by=sorted(past.approvals(release.gate_id)),
        promoted_position=release.promoted_position,
    )


def _rules(gate: Gate) -> list[RuleLine]:
    return list(rule_lines(gate.part.rule, gate.level, gate.slots()))


def _progress(past: Past, gate: Gate) -> GateProgress:
    opened = gate.opened
    return GateProgress(
        gate_id=opened.gate_id,
        candidate_id=opened.candidate_id,
        opened_position=gate.opened_position,
        phase=opened.phase,
        candidate=gate.passes("candidate"),
        incumbent=gate.passes("incumbent") if opened.base is not None else None,
        errors=gate.errors,
        most_slots=slot_count(gate.part.rule),
        rules=_rules(gate),
        key_counts=past.key_counts("gate"),
    )


async def _signal(past: Past, signal: SignalHealth) -> SignalLine:
    counts, alarm = signal.total(past.name, past.at), await past.alarm()
    raised = alarm is not None and isinstance(alarm.data, ev.SignalAlarmRaised)
    return SignalLine(
        counts=counts,
        bound=counts.bound.total(),
        alarm_position=None if alarm is None else alarm.position,
        alarm_reason=alarm.data.reason if raised else "",  # type: ignore[union-attr]
    )


def _budget(past: Past) -> BudgetLine | None:
    budget = past.policy.policy.budget
    if budget is None:
        return None
    ledger = past.ledger()
    left = max(budget.total - ledger.spent, Fraction(0))
    return BudgetLine(
        alpha=budget.alpha,
        spent=approximate(ledger.spent),
        left=approximate(left),
        share_left=int(100 * left / budget.total),
        gates=ledger.gates,
        promotions=ledger.promotions,
    )


def _passed(past: Past) -> Iterator[Gate]:
    """Passed gates that could still lead to a promotion, the newest first."""
    for gate in islice(past.gates(), _GATES_LOOKED_AT):
        candidate_id, pointer = gate.opened.candidate_id, past.serving(gate.opened.channel)
        if (
            past.outcome(gate) == "passed"
            and past.promoted_position(candidate_id) is None
            and past.revoked_position(candidate_id) is None
            and (pointer is None or pointer.position < gate.opened_position)
        ):
            yield gate


def _lacking(past: Past, gate: Gate) -> list[Reason]:
    return lacking_workers(past.history.state, past.scenario, gate, past.at)


def _approvals(past: Past) -> list[Approval]:
    """Passed gates of now that lack people, the newest first."""
    found = (
        Approval(
            candidate_id=gate.opened.candidate_id,
            gate_id=gate.opened.gate_id,
            wanted=gate.policy.approvals,
            given=past.approvals(gate.opened.gate_id),
        )
        for gate in _passed(past)
        if not _lacking(past, gate)
    )
    return list(islice((each for each in found if len(each.given) < each.wanted), _APPROVALS))


def _workers(past: Past) -> list[WorkersWait]:
    """Candidates whose newest gate passed and that lack gate workers, the newest first."""
    found = (
        WorkersWait(
            candidate_id=gate.opened.candidate_id,
            gate_id=gate.opened.gate_id,
            line=reason.message,
        )
        for gate in _passed(past)
        if _is_newest(past, gate)
        for reason in _lacking(past, gate)
    )
    return list(islice(found, _APPROVALS))


def _is_newest(past: Past, gate: Gate) -> bool:
    """Whether no later gate of the candidate goes on or has decided it."""
    gates = past.scenario.candidates[gate.opened.candidate_id].gates
    later = (past.scenario.gates[gate_id].opened_position for gate_id in gates)
    return not any(gate.opened_position < each <= past.at for each in later)


async def refusals(past: Past) -> list[Refusal]:
    """Candidates that did not get through last, the newest first. Raises `LogUnavailable`."""
    rows = await past.history.newest(_REFUSALS, past.name, _SCREENED)
    return [_refusal(past, row) for row in rows]


def _refusal(past: Past, row: Row) -> Refusal:
    data, gate_id = row.data, None
    reasons: tuple[Reason, ...] = ()
    if isinstance(data, ev.CandidateRefused):
        candidate_id, reasons = data.candidate_id, tuple(data.reasons)
        line = f"Refused at admission, for {count_of(len(reasons), 'reason')}."
    else:
        assert isinstance(data, ev.DecisionPosted | ev.GateStale)
        gate_id = data.gate_id
        gate = past.scenario.gates[gate_id]
        candidate_id = gate.opened.candidate_id
        line = headline(past.scenario, gate, past.at)
    return Refusal(
        position=row.position,
        recorded_at=row.envelope.recorded_at,
        outcome=row.envelope.type.partition(".")[2],
        candidate_id=candidate_id,
        gate_id=gate_id,
        line=line,
        reasons=reasons,
    )


async def _nodes(past: Past, now: datetime) -> list[NodeLine]:
    return [_node(past, row, now) for row in await past.node_reports(_NODES)]


def _node(past: Past, row: Row, now: datetime) -> NodeLine:
    data = row.data
    assert isinstance(data, ev.NodeLoaded | ev.NodeRefused)
    pointer = past.serving(data.channel)
    reasons: Sequence[Reason] = data.reasons if isinstance(data, ev.NodeRefused) else ()
    return NodeLine(
        node_id=data.node_id,
        channel=data.channel,
        release_id=data.release_id,
        position=row.position,
        recorded_at=row.envelope.recorded_at,
        reasons=tuple(reasons),
        is_current=isinstance(data, ev.NodeLoaded)
        and pointer is not None
        and pointer.release_id == data.release_id,
        is_silent=is_silent(past.pointers(data.channel), data.release_id, row.position, now),
    )


@dataclass(frozen=True, kw_only=True)
class ScenarioLine:
    """A scenario in one line of the list; `serving` is each channel's pointer."""

    name: str
    created_position: int
    serving: list[tuple[str, Pointer | None]]
    gates_open: int
    is_held: bool
    has_alarm: bool


async def scenario_line(past: Past) -> ScenarioLine:
    """A scenario in short. Raises `LogUnavailable`."""
    channels = past.channels()
    return ScenarioLine(
        name=past.name,
        created_position=past.scenario.created_position,
        serving=[(name, past.serving(name)) for name in channels],
        gates_open=sum(past.open_gate(name) is not None for name in channels),
        is_held=await past.held() is not None,
        has_alarm=await past.alarm() is not None,
    )
