"""The structure of the one rule in Postgres: every refusal beside the twin that passes.

Each test tells an honest story, tries one crime on the database, which must name it, and goes
on honestly.
"""

from __future__ import annotations

import msgspec
import pytest

from reef_release.domain import events as ev
from reef_release.log import RuleRefused
from reef_release.signing.keys import Role
from tests.integration.log.mirror import Mirror, new_event
from tests.world import CHANNEL, SCENARIO, World

pytestmark = pytest.mark.anyio

NOBODY = "0" * 64


def changed(data: ev.EventData, **fields: object) -> ev.EventData:
    return msgspec.structs.replace(data, **fields)


# Scenarios


async def test_whatever_the_fold_accepts_the_database_accepts(world: World, mirror: Mirror) -> None:
    first = world.release()
    second = world.release()
    world.gate(world.admitted(), "---")
    world.gate(world.admitted(), "eee")
    world.refuse(world.submit())
    world.hold()
    world.rollback(first)
    world.resume()
    world.revoke_release(second)
    world.revoke_candidate(world.admitted())
    world.change_policy()
    world.release()
    world.revoke_key(Role.RELEASE)
    await mirror.follow()
    assert world.state.violations == []
    assert await mirror.log.head() == world.head


async def test_a_scenario_is_created_once(world: World, mirror: Mirror) -> None:
    again = world.scenario_data()
    assert await mirror.codes_against(again) == {"known-scenario"}
    assert await mirror.codes_against(again, scenario="physics") == set()


async def test_events_need_their_scenario(mirror: Mirror) -> None:
    held = ev.ScenarioHeld(reason="odd answers")
    assert await mirror.codes_against(held, scenario="homwork") == {"unknown-scenario"}
    assert await mirror.codes_against(held) == set()


async def test_only_trust_belongs_to_all_scenarios(world: World, mirror: Mirror) -> None:
    held = ev.ScenarioHeld(reason="odd answers")
    assert await mirror.codes_against(held, scenario="_") == {"other-scenario"}
    checkpoint = world.checkpoint_data()
    assert await mirror.codes_against(checkpoint, scenario=SCENARIO) == {"other-scenario"}
    await mirror.accepts(checkpoint)


async def test_an_event_stands_in_the_stream_of_what_it_speaks_of(
    world: World, mirror: Mirror
) -> None:
    candidate, other = world.submit(), world.submit()
    revoked = ev.CandidateRevoked(candidate_id=candidate, reason="trained on tests")
    for stream in (
        f"candidate/{other}",
        f"candidate/{candidate}/x",
        f"gate/{candidate}",
        "candidate",
        "scenario",
    ):
        assert await mirror.codes_against(revoked, stream=stream) == {"other-stream"}
    await mirror.accepts(revoked)


# Opening a gate


async def test_a_candidate_is_admitted_after_it_was_submitted(world: World, mirror: Mirror) -> None:
    candidate = world.submission().candidate_id
    admitted = ev.CandidateAdmitted(
        candidate_id=candidate, schema=world.scenario.schema, tensor_count=1, size_bytes=4
    )
    assert await mirror.codes_against(admitted) == {"not-submitted"}
    other = world.submit()
    await mirror.accepts(changed(admitted, candidate_id=other))


async def test_a_gate_opens_over_an_admitted_candidate_only(world: World, mirror: Mirror) -> None:
    candidate = world.submit()
    assert await mirror.codes_against(world.opening(candidate)) == {"not-admitted"}
    world.admit(candidate)
    world.checkpoint()
    await mirror.accepts(world.opening(candidate))


async def test_a_refused_candidate_gets_no_gate(world: World, mirror: Mirror) -> None:
    candidate = world.submit()
    world.refuse(candidate)
    assert await mirror.codes_against(world.opening(candidate)) == {"not-admitted"}


async def test_a_revoked_candidate_gets_no_gate(world: World, mirror: Mirror) -> None:
    revoked, sound = world.admitted(), world.admitted()
    world.revoke_candidate(revoked)
    assert await mirror.codes_against(world.opening(revoked)) == {"revoked"}
    await mirror.accepts(world.opening(sound))


async def test_a_gates_base_is_what_the_channel_serves(world: World, mirror: Mirror) -> None:
    candidate = world.admitted()
    assert await mirror.codes_against(changed(world.opening(candidate), base=NOBODY)) == {
        "other-base"
    }
    serving = world.release()
    challenger = world.admitted()
    opening = world.opening(challenger)
    assert opening.base == serving
    assert await mirror.codes_against(changed(opening, base=None)) == {"other-base"}
    assert await mirror.codes_against(changed(opening, base=candidate)) == {"other-base"}
    await mirror.accepts(opening)


async def test_every_channel_has_its_own_base(world: World, mirror: Mirror) -> None:
    world.release()
    candidate = world.admitted(channel="canary", base=None, parent=None)
    opening = world.opening(candidate, channel="canary", base=None, phase="bootstrap")
    stable = changed(opening, channel=CHANNEL)
    assert await mirror.codes_against(stable) == {"other-base"}
    assert await mirror.codes_against(opening) == set()


async def test_a_gate_opens_once(world: World, mirror: Mirror) -> None:
    opening = world.opening(world.admitted())
    await mirror.accepts(opening)
    assert await mirror.codes_against(opening) == {"known-gate"}


# The course of a gate


async def test_trials_need_an_open_gate(world: World, mirror: Mirror) -> None:
    gate = world.open_gate(world.admitted())
    trial = world.trial(gate)
    assert await mirror.codes_against(changed(trial, gate_id=world.new_id())) == {"unknown-gate"}
    await mirror.accepts(trial)
    world.run_trials(gate, "+++")
    world.decide(gate)
    assert await mirror.codes_against(trial) == {"gate-closed"}


async def test_the_trials_of_another_scenarios_gate_are_not_found(
    world: World, mirror: Mirror
) -> None:
    gate = world.open_gate(world.admitted())
    trial = world.trial(gate)
    assert await mirror.codes_against(world.scenario_data(), scenario="physics") == set()
    assert await mirror.codes_against(trial, scenario="physics") == {"unknown-gate"}


@pytest.mark.parametrize("second", ["passed", "failed", "inconclusive", "errored", "stale"])
@pytest.mark.parametrize(
    ("marks", "first"), [("++", "passed"), ("---", "failed"), ("eee", "errored")]
)
async def test_a_gate_ends_once(
    world: World, mirror: Mirror, marks: str, first: str, second: str
) -> None:
    gate = world.open_gate(world.admitted())
    world.run_trials(gate, marks)
    decision = world.decision(gate)
    assert f"gate.{first}" == decision.TYPE
    await mirror.accepts(decision)
    another = (
        ev.GateStale(gate_id=gate, pointer_position=0)
        if second == "stale"
        else world.decision(gate, outcome=second)
    )
    assert await mirror.codes_against(another) == {"gate-closed"}


async def test_a_decision_needs_its_gate(world: World, mirror: Mirror) -> None:
    gate = world.open_gate(world.admitted())
    world.run_trials(gate, "++")
    decision = world.decision(gate)
    assert await mirror.codes_against(changed(decision, gate_id=world.new_id())) == {"unknown-gate"}
    await mirror.accepts(decision)


@pytest.mark.parametrize(
    "crime", [{"candidate_id": NOBODY}, {"base": NOBODY}, {"channel": "canary"}]
)
async def test_a_decision_is_about_what_its_gate_is_about(
    world: World, mirror: Mirror, crime: dict[str, str]
) -> None:
    gate = world.open_gate(world.admitted())
    world.run_trials(gate, "++")
    decision = world.decision(gate)
    assert await mirror.codes_against(changed(decision, **crime)) == {"other-gate"}
    await mirror.accepts(decision)


async def test_a_gate_is_stale_only_after_the_pointer_has_moved(
    world: World, mirror: Mirror
) -> None:
    world.release()
    late = world.passed()
    gate = world.open_gate(world.admitted())
    before = world.scenario.serving(CHANNEL)
    assert before is not None
    stale = ev.GateStale(gate_id=gate, pointer_position=before.position)
    assert await mirror.codes_against(stale) == {"not-stale"}
    moved = world.promote(late)
    for position in (before.position, moved + 1, moved - 1):
        assert await mirror.codes_against(changed(stale, pointer_position=position)) == {"pointer"}
    await mirror.accepts(changed(stale, pointer_position=moved))


# Signing


async def test_weights_are_signed_after_their_gate_has_passed(world: World, mirror: Mirror) -> None:
    gate = world.open_gate(world.admitted())
    world.run_trials(gate, "++")
    signature = world.signature(gate)
    assert await mirror.codes_against(signature) == {"no-passed-gate"}
    world.decide(gate)
    other = changed(signature, release_id=world.submit())
    assert await mirror.codes_against(other) == {"other-gate"}
    await mirror.accepts(signature)


async def test_the_weights_of_a_failed_gate_are_not_signed(world: World, mirror: Mirror) -> None:
    gate = world.gate(world.admitted(), "---")
    assert await mirror.codes_against(world.signature(gate)) == {"no-passed-gate"}


async def test_nothing_revoked_is_signed(world: World, mirror: Mirror) -> None:
    candidate = world.admitted()
    gate = world.gate(candidate)
    signature = world.signature(gate)
    world.revoke_candidate(candidate)
    assert await mirror.codes_against(signature) == {"revoked"}
    await mirror.accepts(world.signature(world.gate(world.admitted())))


async def test_a_revoked_key_signs_nothing(world: World, mirror: Mirror) -> None:
    gate = world.gate(world.admitted())
    signature = world.signature(gate)
    world.revoke_key(Role.RELEASE)
    assert await mirror.codes_against(signature) == {"key-revoked"}
    assert await mirror.codes_against(changed(signature, key_id="1" * 64)) == set()


# Promotion


async def test_a_promotion_needs_a_passed_gate(world: World, mirror: Mirror) -> None:
    passed, failed = world.passed(), world.gate(world.admitted(), "---")
    promotion = world.promotion(passed)
    for gate in (failed, world.new_id()):
        assert await mirror.codes_against(changed(promotion, gate_id=gate)) == {"no-passed-gate"}
    await mirror.accepts(promotion)


async def test_a_gate_of_another_scenario_promotes_nothing(world: World, mirror: Mirror) -> None:
    promotion = world.promotion(world.passed())
    assert await mirror.codes_against(world.scenario_data(), scenario="physics") == set()
    assert await mirror.codes_against(promotion, scenario="physics") == {"no-passed-gate"}


async def test_the_pass_of_one_candidate_does_not_promote_another(
    world: World, mirror: Mirror
) -> None:
    first = world.promotion(world.passed())
    second = world.promotion(world.passed())
    crossed = changed(first, gate_id=second.gate_id)
    assert await mirror.codes_against(crossed) == {"other-gate", "not-signed"}
    await mirror.accepts(first)


async def test_a_pass_counts_for_its_base_and_its_channel(world: World, mirror: Mirror) -> None:
    origin = world.release()
    promotion = world.promotion(world.passed())
    assert promotion.base == origin
    assert await mirror.codes_against(changed(promotion, base=None)) == {"other-gate"}
    canary = changed(promotion, channel="canary")
    assert await mirror.codes_against(canary) == {"other-gate"}
    assert await mirror.codes_against(promotion, stream="release/canary") == {"other-stream"}
    await mirror.accepts(promotion)


async def test_a_pass_is_used_once(world: World, mirror: Mirror) -> None:
    promotion = world.promotion(world.passed())
    await mirror.accepts(promotion)
    assert await mirror.codes_against(promotion) == {"stale-gate"}


async def test_a_pass_is_stale_once_another_release_was_promoted(
    world: World, mirror: Mirror
) -> None:
    world.release()
    early, late = world.promotion(world.passed()), world.promotion(world.passed())
    await mirror.accepts(late)
    with pytest.raises(RuleRefused) as caught:
        await mirror.log.append(new_event(early))
    (reason,) = caught.value.reasons
    assert (reason.code, reason.where) == ("stale-gate", f"position {world.head}")


async def test_a_pass_stays_stale_after_the_pointer_has_come_back_to_its_base(
    world: World, mirror: Mirror
) -> None:
    origin = world.release()
    kept = world.promotion(world.passed())
    world.release()
    world.rollback(origin)
    assert kept.base == world.serving
    assert await mirror.codes_against(kept) == {"stale-gate"}
    await mirror.accepts(world.promotion(world.passed()))


async def test_a_rollback_makes_open_gates_stale(world: World, mirror: Mirror) -> None:
    origin = world.release()
    world.release()
    kept = world.promotion(world.passed())
    world.rollback(origin)
    assert await mirror.codes_against(kept) == {"stale-gate"}


async def test_unsigned_weights_are_not_promoted(world: World, mirror: Mirror) -> None:
    gate = world.gate(world.admitted())
    promotion = world.promotion(gate)
    assert await mirror.codes_against(promotion) == {"not-signed"}
    world.sign(gate)
    await mirror.accepts(promotion)


async def test_a_revoked_candidate_is_not_promoted(world: World, mirror: Mirror) -> None:
    candidate = world.admitted()
    promotion = world.promotion(world.passed(candidate))
    world.revoke_candidate(candidate)
    assert await mirror.codes_against(promotion) == {"revoked"}
    await mirror.accepts(world.promotion(world.passed()))


async def test_a_revoked_release_is_not_promoted(world: World, mirror: Mirror) -> None:
    promotion = world.promotion(world.passed())
    world.revoke_release(promotion.release_id)
    assert await mirror.codes_against(promotion) == {"revoked"}
    await mirror.accepts(world.promotion(world.passed()))


async def test_an_adapter_whose_foundation_is_revoked_is_not_promoted(
    world: World, mirror: Mirror
) -> None:
    foundation = world.release()
    waiting = world.admitted(kind="lora", foundation=foundation)
    gated = world.gate(world.admitted(kind="lora", foundation=foundation))
    promotion = world.promotion(world.passed(world.admitted(kind="lora", foundation=foundation)))
    signature = world.signature(gated)
    opening = world.opening(waiting)
    other = world.release()
    world.revoke_release(foundation)
    assert await mirror.codes_against(opening) == {"revoked", "other-base"}
    assert await mirror.codes_against(signature) == {"revoked"}
    assert await mirror.codes_against(promotion) == {"revoked", "stale-gate"}
    await mirror.accepts(
        world.promotion(world.passed(world.admitted(kind="lora", foundation=other)))
    )


async def test_candidates_that_name_each_other_as_foundation_harm_nobody(
    world: World, mirror: Mirror
) -> None:
    candidate = world.admitted()
    gate = world.passed(candidate)
    await mirror.follow()
    circle = changed(world.submission(), candidate_id=candidate, foundation=candidate)
    other = changed(world.submission(), candidate_id="x", foundation="x")
    for data in (circle, other):
        assert await mirror.codes_against(data) == set()
    assert await mirror.codes_against(world.promotion(gate)) == set()


async def test_weights_signed_by_a_key_revoked_since_are_not_promoted(
    world: World, mirror: Mirror
) -> None:
    promotion = world.promotion(world.passed())
    world.revoke_key(Role.RELEASE)
    assert await mirror.codes_against(promotion) == {"key-revoked"}


async def test_a_hold_stops_promotion_until_it_is_resumed(world: World, mirror: Mirror) -> None:
    promotion = world.promotion(world.passed())
    world.hold()
    assert await mirror.codes_against(promotion) == {"held"}
    world.resume()
    await mirror.accepts(promotion)


async def test_every_reason_is_named_at_once(world: World, mirror: Mirror) -> None:
    candidate = world.admitted()
    promotion = world.promotion(world.gate(candidate))
    world.release()
    world.revoke_candidate(candidate)
    world.hold()
    assert await mirror.codes_against(promotion) == {"stale-gate", "not-signed", "revoked", "held"}


# Rollback


async def test_a_rollback_goes_to_what_was_promoted_in_this_channel(
    world: World, mirror: Mirror
) -> None:
    origin = world.release()
    world.release()
    unserved = world.gate_of(world.passed()).opened.candidate_id
    rollback = world.rollback_data(origin)
    for crime in ({"release_id": unserved}, {"channel": "canary"}):
        assert await mirror.codes_against(changed(rollback, **crime)) == {"never-promoted"}
    await mirror.accepts(rollback)


async def test_a_hold_does_not_stop_a_rollback(world: World, mirror: Mirror) -> None:
    origin = world.release()
    world.release()
    world.hold()
    await mirror.accepts(world.rollback_data(origin))


async def test_a_rollback_says_why(world: World, mirror: Mirror) -> None:
    origin = world.release()
    world.release()
    assert await mirror.codes_against(world.rollback_data(origin, reason=" ")) == {"no-reason"}
    await mirror.accepts(world.rollback_data(origin))


async def test_a_rollback_goes_elsewhere_than_where_it_is(world: World, mirror: Mirror) -> None:
    origin, second = world.release(), world.release()
    assert await mirror.codes_against(world.rollback_data(second)) == {"already-serving"}
    await mirror.accepts(world.rollback_data(origin))
    assert await mirror.codes_against(world.rollback_data(origin)) == {"already-serving"}
    await mirror.accepts(world.rollback_data(second))


async def test_nobody_rolls_back_to_something_revoked(world: World, mirror: Mirror) -> None:
    origin, second, third = world.release(), world.release(), world.release()
    world.revoke_release(origin)
    world.revoke_candidate(second)
    for revoked in (origin, second):
        assert await mirror.codes_against(world.rollback_data(revoked)) == {"revoked"}
    fourth = world.release()
    assert fourth == world.serving
    await mirror.accepts(world.rollback_data(third))


async def test_nobody_rolls_back_to_weights_whose_key_is_revoked(
    world: World, mirror: Mirror
) -> None:
    origin = world.release()
    world.release()
    world.revoke_key(Role.RELEASE)
    assert await mirror.codes_against(world.rollback_data(origin)) == {"key-revoked"}
