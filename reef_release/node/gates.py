"""Rule: a gate of exactly this release, base and channel passed, signed, and is not stale.

Where the policy asks for several gate workers, the passes beside it are of the same draw, and each
is judged as that one is; one that does not hold is not counted, and keeps nothing from serving.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reef_release.domain.decision import GateDecision
from reef_release.domain.events import EventData, GateOpened, GatePassed, GateTrial
from reef_release.domain.reasons import Reason
from reef_release.errors import Refused, SignatureRejected
from reef_release.node.case import Beside, Case
from reef_release.node.leaves import Leaf, Proven, refuse
from reef_release.node.moves import Move
from reef_release.node.quorum import Pass
from reef_release.signing.keys import Role
from reef_release.signing.vsa import VerifiedDecision, verify_decision

__all__ = ["PassedGate", "draw_of", "passed", "passed_beside"]

_SHARED = (
    "gate_id",
    "candidate_id",
    "base",
    "channel",
    "phase",
    "policy_digest",
    "suite",
    "checkpoint_position",
    "seed",
)
"""What `gate.opened` fixed and the signed decision repeats."""


@dataclass(frozen=True, kw_only=True)
class PassedGate:
    """Where the gate opened and passed, its signed decision, and its canary record."""

    opening: Proven
    passing: Proven
    verified: VerifiedDecision
    canary: str

    @property
    def signed(self) -> Pass:
        """By whom."""
        return Pass(key_id=self.verified.key_id, actor=self.passing.envelope.actor)


def passed(case: Case, move: Move) -> PassedGate:
    """The gate that the promotion names. Raises `Refused` and `SignatureRejected`."""
    scenario, promoted = case.document.scenario, move.promoted
    opening, passing = case.proven(case.material.opened), case.proven(case.material.passed)
    opened = opening.as_a(GateOpened, scenario)
    posted = passing.as_a(GatePassed, scenario)
    gates = {
        (each.gate_id, each.candidate_id, each.base, each.channel) for each in (opened, posted)
    }
    if gates != {(promoted.gate_id, promoted.release_id, promoted.base, promoted.channel)}:
        raise refuse(
            "other-gate",
            f"no gate.passed of gate {promoted.gate_id} for this release, base and channel was "
            "shown",
        )
    if opening.envelope.version != 1:
        # Or an old pass could be used again under a copy of its opening.
        raise refuse("reopened-gate", f"gate {opened.gate_id} had been opened before")
    before, after = move.previous_position, move.promotion.position
    if not before < opening.position < passing.position < after:
        raise refuse(
            "stale-gate",
            f"the gate opened at {opening.position} and passed at {passing.position}; both must "
            f"lie between the pointer events at {before} and {after}",
        )
    verified = verify_decision(
        posted.attestation, case.ledger.counting(Role.GATE, passing.position)
    )
    decision = verified.decision
    if verified.digest != case.document.gate_digest:
        raise refuse("gate-digest", "the document names another gate decision")
    if decision.outcome != "passed":
        raise refuse("not-passed", f"the signed decision is {decision.outcome!r}")
    if decision.canary is None or decision.canary != posted.canary:
        raise refuse("no-canary", "event and decision name no common canary record")
    says = [getattr(decision, name) for name in _SHARED]
    if says != [getattr(opened, name) for name in _SHARED] or decision.scenario != scenario:
        raise refuse("other-gate", "the signed decision is for another gate")
    case.found(
        "a gate of this release, base and channel passed and is not stale",
        f"gate {opened.gate_id}, opened at {opening.position}, passed at {passing.position}",
    )
    case.found(
        "a gate key that counted there signed the decision",
        f"key {verified.key_id[:12]}, decision {verified.digest[:12]}, "
        f"{decision.trial_count} trials",
    )
    if case.trials:
        told = _trials(case, case.material.trials, opening, passing, decision)
        case.found("all trials of the gate stand in the log", told)
    return PassedGate(opening=opening, passing=passing, verified=verified, canary=decision.canary)


def draw_of(opened: EventData) -> list[object]:
    """What gates whose passes count together have in common."""
    return [getattr(opened, name, None) for name in _SHARED[1:]]


def passed_beside(
    case: Case, shown: Sequence[Beside], opening: Proven, after: int, *, trials: bool
) -> tuple[list[PassedGate], list[Reason]]:
    """Which of the passes *shown* count beside that of the gate opened at *opening*.

    They lie between the position *after* and that opening; with *trials* all of theirs must be
    shown. What does not count is left out, and told in the reasons: else anybody who can append
    an event without effect could keep a release from every node.
    """
    found: dict[str, PassedGate] = {}
    doubts: list[Reason] = []
    for each in shown:
        try:
            gate = _beside(case, each, opening, after, trials=trials)
        except (Refused, SignatureRejected) as error:
            doubts += error.reasons
        else:
            found.setdefault(gate.verified.decision.gate_id, gate)
    return list(found.values()), doubts


def _beside(case: Case, shown: Beside, main: Proven, after: int, *, trials: bool) -> PassedGate:
    """Raises `Refused` and `SignatureRejected` unless *shown* is of the draw of *main*."""
    scenario = case.document.scenario
    opening, passing = case.proven(shown.opened), case.proven(shown.passed)
    opened = opening.as_a(GateOpened, scenario)
    posted = passing.as_a(GatePassed, scenario)
    verified = verify_decision(
        posted.attestation, case.ledger.counting(Role.GATE, passing.position)
    )
    decision = verified.decision
    draw = draw_of(main.data)
    same = (
        decision.gate_id == opened.gate_id == posted.gate_id
        and draw_of(opened) == draw
        and [getattr(decision, name) for name in _SHARED[1:]] == draw
        and (posted.candidate_id, posted.base, posted.channel)
        == (opened.candidate_id, opened.base, opened.channel)
        and (decision.scenario, decision.outcome) == (scenario, "passed")
        and decision.canary == posted.canary
    )
    in_order = after < opening.position < passing.position < main.position
    if not same or not in_order or opening.envelope.version != 1 or decision.canary is None:
        raise refuse(
            "other-gate",
            f"the pass at {passing.position} is none of the same draw, with the pointer where it "
            "stood",
        )
    if trials:
        _trials(case, shown.trials, opening, passing, decision)
    return PassedGate(opening=opening, passing=passing, verified=verified, canary=decision.canary)


def _trials(
    case: Case,
    shown: Sequence[Leaf] | None,
    opening: Proven,
    passing: Proven,
    decision: GateDecision,
) -> str:
    """The verdicts of the trials in a word per side: right, wrong, or not carried out.

    The events of a gate are one stream without a gap, so none can be left out between its
    opening and its end.
    """
    events = [case.proven(leaf) for leaf in shown or ()]
    trials = [event.as_a(GateTrial, case.document.scenario) for event in events]
    course = [(each.envelope.stream, each.envelope.version) for each in (*events, passing)]
    expected = range(2, passing.envelope.version + 1)
    if course != [(opening.envelope.stream, version) for version in expected]:
        raise refuse(
            "hidden-event",
            f"{len(trials)} trials of the gate were shown, and they are not all of them in order",
        )
    # More may stand there than count: the fold gives no effect to a trial that was not due.
    if len(trials) < decision.trial_count:
        raise refuse("no-trials", f"the decision rests on {decision.trial_count} trials")
    words: dict[str, str] = {}
    for trial in trials:
        mark = "?" if trial.verdict is None else "+" if trial.verdict.passed else "-"
        words[trial.side] = words.get(trial.side, "") + mark
    told = ", ".join(f"{side} {word}" for side, word in sorted(words.items()))
    return f"{told or 'none'} (+ passed, - failed, ? not carried out); {decision.trial_count} count"
