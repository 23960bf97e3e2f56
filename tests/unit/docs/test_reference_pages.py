"""Reference pages say what the code says."""

from __future__ import annotations

import importlib.util
import re
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from reef_release.cli.homework import policy_document
from reef_release.domain.canonical import canonical_json
from reef_release.domain.events import EVENT_TYPES, Envelope
from reef_release.domain.gating import rules
from reef_release.domain.gating.budget import Budget, Gamma, Ledger
from reef_release.domain.gating.rules import ConsecutivePasses
from reef_release.domain.odds import course, independent, pass_probability
from reef_release.domain.policy import Generation, Policy, PolicyPart, parse_policy
from reef_release.verifiers.registry import is_objective
from tests.unit.docs import pages

POLICY = pages.REPOSITORY / "docs" / "reference" / "policy.md"
GLOSSARY = pages.REPOSITORY / "docs" / "glossary.md"


def generator() -> ModuleType:
    path = pages.REPOSITORY / "docs" / "generate.py"
    spec = importlib.util.spec_from_file_location("docs_generate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", generator().PAGES, ids=lambda page: page.name)
def test_generated_pages_are_up_to_date(page: Path) -> None:
    assert page.read_text("utf-8") == generator().PAGES[page](), "run: python docs/generate.py"


def test_the_event_page_has_a_heading_for_every_type() -> None:
    text = (pages.REPOSITORY / "docs" / "reference" / "events.md").read_text("utf-8")
    assert set(EVENT_TYPES) <= set(re.findall(r"^## (\S+)$", text, re.MULTILINE))


def test_the_example_policy_is_that_of_the_demo_and_accepted() -> None:
    examples = [block for block in pages.blocks(POLICY) if block.language == "json"]
    assert len(examples) == 1
    policy = parse_policy(examples[0].text.encode(), is_objective)
    own = canonical_json(policy_document(policy.suite))
    assert own == canonical_json(msgspec.to_builtins(policy))


KINDS = [
    Policy,
    Generation,
    PolicyPart,
    Budget,
    Gamma,
    *(
        getattr(rules, name)
        for name in rules.__all__
        if name[0].isupper() and name != "Rule" and isinstance(getattr(rules, name), type)
    ),
]


@pytest.mark.parametrize("kind", KINDS)
def test_the_policy_page_lists_every_field(kind: type[msgspec.Struct]) -> None:
    rows = set(re.findall(r"^\| `([^`]+)`", POLICY.read_text("utf-8"), re.MULTILINE))
    assert {field.encode_name for field in msgspec.structs.fields(kind)} <= rows


def test_the_policy_page_states_true_odds() -> None:
    rules = (
        ConsecutivePasses(k=5, max_trials=24, max_failures=8),
        ConsecutivePasses(k=3, max_trials=36, max_failures=36),
    )
    rows = re.findall(
        r"^\| (0\.\d) \| (\d\.\d+) \| (\d\.\d+) \|$", POLICY.read_text(), re.MULTILINE
    )
    assert rows
    for rate, *stated in rows:
        assert stated == [f"{float(pass_probability(rule, Fraction(rate))):.3f}" for rule in rules]


def test_the_policy_page_states_true_odds_of_the_default() -> None:
    rows = re.findall(
        r"^\| (0\.\d) \| (\d\.\d+) \| (\d\.\d+) \| (\d\.\d+) \|$",
        POLICY.read_text(),
        re.MULTILINE,
    )
    assert rows
    policy = msgspec.convert(policy_document("5a" * 32), Policy)
    assert policy.budget is not None
    level = Fraction(Ledger().share(policy.budget).level)
    for rate, *stated in rows:
        found = [
            course(policy.standard.rule, independent(Fraction(rate), Fraction(incumbent)), level)
            for incumbent in ("0.1", "0.3", "0.5")
        ]
        assert stated == [f"{float(each.passed[-1]):.3f}" for each in found]


def test_the_glossary_explains_every_envelope_field() -> None:
    rows = re.findall(r"^\| (`[^|]+`) \|", GLOSSARY.read_text("utf-8"), re.MULTILINE)
    explained = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert {field.encode_name for field in msgspec.structs.fields(Envelope)} <= explained
