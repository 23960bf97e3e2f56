"""A log that an earlier version began: what passed there has passed, for ever."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from reef_release.audit import replay, verify
from reef_release.domain import events as ev
from reef_release.domain.policy import parse_new_policy, parse_policy
from reef_release.errors import Refused
from reef_release.signing.keys import PublicKey, Role
from reef_release.signing.root import open_root
from reef_release.signing.strict import decode_base64
from reef_release.signing.vsa import verify_decision
from reef_release.verifiers.registry import is_objective

EARLY = Path(__file__).parent / "data" / "early.tar.gz"


@pytest.fixture(scope="module")
def early(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the export `early` and its `early-root.json` are."""
    directory = tmp_path_factory.mktemp("early")
    with tarfile.open(EARLY) as packed:
        packed.extractall(directory, filter="data")
    return directory


def anchor(early: Path) -> str:
    return (early / "early-root.json").read_text("utf-8")


def events(early: Path) -> Iterator[ev.Event]:
    for segment in sorted((early / "early" / "events").iterdir()):
        yield from map(ev.decode, segment.read_bytes().splitlines())


def test_an_early_log_verifies_and_replays_without_a_violation(early: Path) -> None:
    assert verify(early / "early", anchor(early)).good
    report = replay(early / "early", anchor(early))
    assert report.good
    assert (report.replayed_count, report.violation_count) == (257, 0)


def test_what_passed_early_is_still_what_is_served(early: Path) -> None:
    report = replay(early / "early", anchor(early))
    outcomes = [gate.outcome for gate in report.gates]
    assert outcomes.count("passed") == 3
    assert "failed" in outcomes
    assert {gate.share for gate in report.gates} == {None}, "there was no budget to spend"
    promoted = [each for each in report.pointer_events if each.type == "release.promoted"]
    (serving,) = report.serving
    assert len(promoted) == 3
    assert serving.release_id == report.pointer_events[-1].release_id


def test_the_early_log_is_of_the_early_forms(early: Path) -> None:
    found = list(events(early))
    created = next(each.data for each in found if isinstance(each.data, ev.ScenarioCreated))
    payload = decode_base64(created.policy["payload"], "policy", "payload")
    assert set(msgspec.json.decode(payload)).isdisjoint({"budget", "approvals", "watch"})
    keys = open_root(anchor(early)).keys_by_role[Role.GATE]
    passed = next(each.data for each in found if isinstance(each.data, ev.GatePassed))
    decision = verify_decision(passed.attestation, [PublicKey(Role.GATE, k.pem) for k in keys])
    assert {"evidence", "budget"}.isdisjoint(msgspec.to_builtins(decision.decision))
    versions = {(each.envelope.type, each.envelope.schema_version) for each in found}
    assert {("root.rotated", 1), ("training.completed", 1)} <= versions


def test_an_early_policy_is_read_and_comes_into_force_no_more(early: Path) -> None:
    created = next(each.data for each in events(early) if isinstance(each.data, ev.ScenarioCreated))
    payload = decode_base64(created.policy["payload"], "policy", "payload")
    policy = parse_policy(payload, is_objective)
    assert (policy.budget, policy.approvals, policy.watch) == (None, 0, None)
    with pytest.raises(Refused) as caught:
        parse_new_policy(payload, is_objective)
    assert [(each.code, each.message) for each in caught.value.reasons] == [
        ("implicit-fields", "spell out every field: approvals, budget, watch")
    ]
