"""The gate policy: spelled out, objective, within its limits, or refused with every reason."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import pytest

from reef_release.domain.canonical import canonical_json
from reef_release.domain.gating.rules import MAX_TRIALS
from reef_release.domain.policy import Policy, parse_new_policy, parse_policy
from reef_release.errors import BadRequest, Refused

KNOWN = {"answer@1": True, "answer@2": True, "style@1": False}
GOOD: dict[str, Any] = {
    "name": "homework",
    "version": 1,
    "suite": "5a" * 32,
    "generation": {"temperature": "0.7", "max_new_tokens": 256},
    "canaries": ["What is 2 + 2?"],
    "standard": {
        "verifiers": ["answer@1", "style@1"],
        "rule": {"kind": "consecutive_passes", "k": 3, "max_trials": 36, "max_failures": 9},
    },
    "bootstrap": {
        "verifiers": ["answer@1"],
        "rule": {"kind": "consecutive_passes", "k": 2, "max_trials": 12, "max_failures": 3},
    },
    "max_errors": 3,
    "max_attempts": 2,
    "suite_max_gates": 1000,
    "allowed_changes": [],
    "budget": None,
    "approvals": 0,
    "watch": None,
}


def parse(value: Any) -> Policy:
    return parse_policy(canonical_json(value), KNOWN.get)


def changed(path: str, value: Any) -> dict[str, Any]:
    document = copy.deepcopy(GOOD)
    *parents, last = path.split(".")
    place = document
    for name in parents:
        place = place[name]
    place[last] = value
    return document


def without(path: str) -> dict[str, Any]:
    document = copy.deepcopy(GOOD)
    *parents, last = path.split(".")
    place = document
    for name in parents:
        place = place[name]
    del place[last]
    return document


def codes(value: Any) -> list[tuple[str, str]]:
    with pytest.raises(Refused) as caught:
        parse(value)
    return [(reason.code, reason.where) for reason in caught.value.reasons]


def test_a_complete_policy_is_read_with_both_its_parts() -> None:
    policy = parse(GOOD)
    assert policy.part("bootstrap").verifiers == ["answer@1"]
    assert policy.part("standard").verifiers == ["answer@1", "style@1"]
    assert policy.part("standard").rule.k == 3
    assert msgspec.to_builtins(policy) == GOOD


def test_how_the_document_was_written_makes_no_difference() -> None:
    document = b" " + canonical_json(GOOD).replace(b",", b" ,\n ")
    assert parse_policy(document, KNOWN.get) == parse(GOOD)


@pytest.mark.parametrize(
    "path",
    [
        "max_errors",
        "max_attempts",
        "suite_max_gates",
        "allowed_changes",
        "generation.temperature",
    ],
)
def test_a_field_left_to_its_default_is_refused_since_the_digest_would_depend_on_it(
    path: str,
) -> None:
    assert codes(without(path)) == [("implicit-fields", "")]


@pytest.mark.parametrize(
    ("field", "meaning"), [("budget", None), ("approvals", 0), ("watch", None)]
)
def test_a_later_field_may_be_absent_from_an_old_policy_and_from_no_new_one(
    field: str, meaning: object
) -> None:
    policy = parse(without(field))
    assert getattr(policy, field) == meaning
    assert msgspec.to_builtins(policy) == without(field), "the digest is that of what was signed"
    with pytest.raises(Refused) as caught:
        parse_new_policy(canonical_json(without(field)), KNOWN.get)
    assert [reason.code for reason in caught.value.reasons] == ["implicit-fields"]
    assert parse_new_policy(canonical_json(GOOD), KNOWN.get) == parse(GOOD)


def new_codes(**changes: Any) -> list[str]:
    with pytest.raises(Refused) as caught:
        parse_new_policy(canonical_json({**GOOD, **changes}), KNOWN.get)
    return [reason.code for reason in caught.value.reasons]


@pytest.mark.parametrize("text", ["٠.٥", "1_0e-1", " 1 ", "1e-999999999", "1e0", "+1", ".5"])
def test_a_new_temperature_is_written_like_every_decimal(text: str) -> None:
    generation = {**GOOD["generation"], "temperature": text}
    assert new_codes(generation=generation) == ["temperature"]
    old = parse({**GOOD, "generation": generation})
    assert old.generation.temperature == text, "what was signed before keeps its meaning"


@pytest.mark.parametrize(
    "name", ["", "a\0b", "a\u202eb", "a b", ".a", "a/b", "a" * 65, "a" * 2**20]
)
def test_a_new_policy_is_for_a_name_that_a_scenario_can_have(name: str) -> None:
    assert new_codes(name=name) == ["name"]


def test_k_left_to_its_default_is_refused() -> None:
    assert codes(without("standard.rule.k")) == [("implicit-fields", "")]


@pytest.mark.parametrize(
    "path", ["name", "suite", "standard", "bootstrap", "generation", "standard.rule.max_failures"]
)
def test_a_field_without_a_default_must_stand_there(path: str) -> None:
    with pytest.raises(Refused, match="missing required field"):
        parse(without(path))


@pytest.mark.parametrize("path", ["force", "standard.force", "generation.seed", "standard.rule.p"])
def test_a_field_that_nobody_knows_is_refused(path: str) -> None:
    with pytest.raises(Refused, match="unknown field"):
        parse(changed(path, True))


@pytest.mark.parametrize("part", ["standard", "bootstrap"])
def test_a_part_without_an_objective_verifier_is_refused(part: str) -> None:
    assert parse(changed(f"{part}.verifiers", ["style@1", "answer@1"])).part(part)
    assert codes(changed(f"{part}.verifiers", ["style@1"])) == [("no-objective-verifier", part)]
    assert codes(changed(f"{part}.verifiers", [])) == [("no-objective-verifier", part)]


@pytest.mark.parametrize("spec", ["answer", "answer@3", "judge@1", "Answer@1", ""])
def test_a_verifier_without_a_known_version_is_refused_even_beside_a_good_one(spec: str) -> None:
    assert codes(changed("standard.verifiers", ["answer@1", spec])) == [
        ("unknown-verifier", "standard")
    ]


def test_a_verifier_stands_once() -> None:
    assert parse(changed("standard.verifiers", ["answer@1", "answer@2"]))
    assert codes(changed("standard.verifiers", ["answer@1", "answer@1"])) == [
        ("duplicate-verifier", "standard")
    ]


@pytest.mark.parametrize("suite", ["", "5a", "5A" * 32, "5g" * 32, "5a" * 33, "5a" * 32 + "\n"])
def test_a_suite_is_named_by_its_digest(suite: str) -> None:
    assert codes(changed("suite", suite)) == [("suite", "")]


@pytest.mark.parametrize(
    ("k", "max_trials", "max_failures"),
    [(0, 5, 5), (-1, 5, 5), (6, 5, 5), (1, MAX_TRIALS + 1, 5), (1, 5, 0), (1, 5, 6), (1, 0, 1)],
)
def test_a_rule_that_could_pass_without_trials_or_never_end_is_refused(
    k: int, max_trials: int, max_failures: int
) -> None:
    rule = {
        "kind": "consecutive_passes",
        "k": k,
        "max_trials": max_trials,
        "max_failures": max_failures,
    }
    found = codes(changed("bootstrap.rule", rule))
    assert set(found) == {("rule", "bootstrap")}


@pytest.mark.parametrize(("k", "max_trials", "max_failures"), [(1, 1, 1), (5, 5, 5), (200, 200, 1)])
def test_the_limits_of_a_rule_themselves_are_allowed(
    k: int, max_trials: int, max_failures: int
) -> None:
    rule = {
        "kind": "consecutive_passes",
        "k": k,
        "max_trials": max_trials,
        "max_failures": max_failures,
    }
    assert parse(changed("standard.rule", rule)).standard.rule.max_trials == max_trials


def test_a_rule_of_an_unknown_kind_is_refused() -> None:
    rule = {"kind": "always", "k": 1, "max_trials": 1, "max_failures": 1}
    with pytest.raises(Refused, match="Invalid value 'always'"):
        parse(changed("standard.rule", rule))


@pytest.mark.parametrize("temperature", ["warm", "", "NaN", "Infinity", "-0.1", "5.1", "1e9"])
def test_a_temperature_is_a_finite_decimal_from_0_to_5(temperature: str) -> None:
    assert codes(changed("generation.temperature", temperature)) == [("temperature", "")]


@pytest.mark.parametrize("temperature", ["0", "0.7", "1", "5"])
def test_greedy_and_sampled_generation_are_both_allowed(temperature: str) -> None:
    assert parse(changed("generation.temperature", temperature)).generation.temperature == (
        temperature
    )


@pytest.mark.parametrize("tokens", [0, -1, 1_000_001])
def test_a_reply_has_room_for_at_least_one_token(tokens: int) -> None:
    assert codes(changed("generation.max_new_tokens", tokens)) == [("max-new-tokens", "")]


@pytest.mark.parametrize(
    ("path", "value"), [("max_errors", -1), ("max_attempts", 0), ("suite_max_gates", 0)]
)
def test_limits_below_their_minimum_are_refused(path: str, value: int) -> None:
    assert parse(changed(path, value + 1))
    assert codes(changed(path, value)) == [("limits", "")]


def test_only_known_changes_beside_the_weights_can_be_allowed() -> None:
    assert parse(changed("allowed_changes", ["chat_template"])).allowed_changes
    assert codes(changed("allowed_changes", ["chat_template", "code"])) == [("allowed-changes", "")]


def test_a_policy_without_a_canary_is_refused() -> None:
    assert codes(changed("canaries", [])) == [("no-canaries", "")]


def test_every_reason_is_reported_at_once() -> None:
    document = changed("canaries", [])
    document["suite"] = "easy"
    document["standard"]["verifiers"] = ["style@1"]
    document["bootstrap"]["rule"]["k"] = 0
    document["max_attempts"] = 0
    assert {code for code, _ in codes(document)} == {
        "suite",
        "no-canaries",
        "no-objective-verifier",
        "rule",
        "limits",
    }


@pytest.mark.parametrize("path", ["standard.rule.k", "max_errors"])
def test_a_float_cannot_stand_where_an_integer_belongs(path: str) -> None:
    document = canonical_json(changed(path, 3)).replace(b":3", b":3.5")
    with pytest.raises((Refused, BadRequest)):
        parse_policy(document, KNOWN.get)


def test_decimals_as_json_numbers_are_named_with_what_to_write() -> None:
    document = copy.deepcopy(GOOD) | {
        "generation": {"temperature": 0.7, "max_new_tokens": 256.0},
        "canaries": ["x", 1.5],
    }
    with pytest.raises(Refused) as caught:
        parse_policy(json.dumps(document).encode(), KNOWN.get)
    told = {reason.where: reason.message for reason in caught.value.reasons}
    assert told["generation.temperature"] == 'write the string "0.7" instead of the number 0.7'
    assert told["generation.max_new_tokens"].startswith("write 256 for a count")
    assert "canaries[1]" in told
    assert 'for example "0.05"' in caught.value.next_step
    with pytest.raises(Refused) as whole:
        parse_policy(canonical_json(changed("generation.temperature", 1)), KNOWN.get)
    assert "$.generation.temperature" in whole.value.detail
    assert 'Decimals are strings, such as "1".' in whole.value.next_step


WATCH: dict[str, Any] = {
    "verifiers": ["answer@1"],
    "bar": "0.8",
    "fallen": "0.5",
    "alpha": "0.01",
    "every_s": 60,
    "max_trials": 500,
    "automatic": True,
}


def test_a_policy_may_leave_the_quorum_out_for_ever_and_then_asks_for_one_worker() -> None:
    assert "gate_quorum" not in GOOD
    policy = parse_new_policy(canonical_json(GOOD), KNOWN.get)
    assert policy.gate_quorum == 1
    assert policy.most_gates == policy.max_attempts
    assert canonical_json(msgspec.to_builtins(policy)) == canonical_json(GOOD)
    asked = parse_new_policy(canonical_json({**GOOD, "gate_quorum": 3}), KNOWN.get)
    assert asked.gate_quorum == 3
    assert asked.most_gates == asked.max_attempts + 2


@pytest.mark.parametrize("quorum", [-1, 0, 17])
def test_a_quorum_is_a_number_of_workers(quorum: int) -> None:
    assert codes({**GOOD, "gate_quorum": quorum}) == [("gate-quorum", "")]


@pytest.mark.parametrize("quorum", ["2", None, True])
def test_a_quorum_is_nothing_but_a_number(quorum: object) -> None:
    with pytest.raises(Refused):
        parse({**GOOD, "gate_quorum": quorum})


@pytest.mark.parametrize("approvals", [-1, 17])
def test_approvals_are_a_number_of_people(approvals: int) -> None:
    assert parse(changed("approvals", 2)).approvals == 2
    assert codes(changed("approvals", approvals)) == [("approvals", "")]


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("verifiers", ["style@1"], "no-objective-verifier"),
        ("verifiers", ["answer@9"], "unknown-verifier"),
        ("bar", "0.5", "watch-rates"),
        ("bar", "1", "watch-rates"),
        ("bar", "0.8 ", "watch-rates"),
        ("bar", "8e-1", "watch-rates"),
        ("fallen", "0.0", "watch-rates"),
        ("fallen", "-0.5", "watch-rates"),
        ("fallen", "nan", "watch-rates"),
        ("alpha", "1.0", "watch-alpha"),
        ("alpha", "0.0", "watch-alpha"),
        ("every_s", 0, "watch-every"),
        ("max_trials", 0, "watch-trials"),
        ("max_trials", 100_001, "watch-trials"),
        ("max_trials", 3, "watch-trials"),
    ],
)
def test_a_watch_that_cannot_watch_is_refused(field: str, value: Any, code: str) -> None:
    assert parse(changed("watch", WATCH)).watch is not None
    wrong = changed("watch", {**WATCH, field: value})
    assert code in [found for found, _ in codes(wrong)]


@pytest.mark.parametrize("field", sorted(WATCH))
def test_every_field_of_a_watch_is_spelled_out(field: str) -> None:
    wrong = {name: value for name, value in WATCH.items() if name != field}
    with pytest.raises(Refused, match="missing required field"):
        parse(changed("watch", wrong))
