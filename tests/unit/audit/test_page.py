"""The report as one HTML file: whole, closed, escaped, without anything to fetch."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

from typer.testing import CliRunner

from reef_release.audit import replay, verify
from reef_release.cli import app
from reef_release.cli.audit_page import report_page
from reef_release.domain import events as ev
from reef_release.domain.reasons import Reason
from reef_release.signing.keys import Role
from tests.unit.audit.conftest import Story
from tests.unit.audit.tampering import Tampered
from tests.world import World


class Reader(HTMLParser):
    """Collects the texts, and makes sure that what is opened is closed and fetches nothing."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in {"script", "link", "img", "iframe", "a", "object"}
        assert not {"src", "href"} & {name for name, _ in attrs}
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


def test_the_page_of_a_replay_tells_what_is_served_and_why(story: Story) -> None:
    page = report_page(replay(story.folder, story.anchor), 0.5)
    texts = Reader(page).texts
    assert "good" in texts
    for wanted in (story.r1, story.r2, "release.rolled_back", "worse at fractions", "failed"):
        assert wanted in texts
    # No violation and no other problem, no pass without a promotion, no refusal by admission or a
    # node, no erasure.
    assert texts.count("None.") == 5
    assert f"0.50 s, {2 * len(story.world.bodies):,} events per second" in texts
    assert "prefers-color-scheme: dark" in page


def test_the_page_says_what_the_audit_rested_on_and_how_far_it_went(story: Story) -> None:
    for report in (replay(story.folder, story.anchor), verify(story.folder, story.anchor)):
        texts = Reader(report_page(report, 0.5)).texts
        assert hashlib.sha256(story.anchor.encode()).hexdigest() in texts
        assert f"{len(story.world.bodies) - 1:,}" in texts
        assert story.world.state.tree.root().hex() in texts
        assert [each.message for each in report.unchecked] == [
            each for each in texts if each in {one.message for one in report.unchecked}
        ]


def test_the_page_tells_every_refusal_and_every_lever_with_its_reasons(
    world: World, exported: Callable[[World], Path]
) -> None:
    reasons = [
        Reason(code="dtype", message="model.embed is F16", where="model.safetensors"),
        Reason(code="not-finite", message="model.norm has a NaN"),
    ]
    bad = world.submit()
    world.append(ev.CandidateRefused(candidate_id=bad, reasons=reasons), actor="admission-1")
    first = world.release()
    world.release()
    world.append(ev.ScenarioHeld(reason="a complaint"), actor="ada")
    world.append(world.rollback_data(first, reason="worse in use"), actor="bob")
    world.append(ev.ScenarioResumed(reason="it was nothing"), actor="ada")
    world.revoke_key(Role.GATE, reason="its laptop was stolen")
    report = replay(exported(world), world.anchor)
    assert report.good
    (refusal,) = report.refusals
    assert (refusal.subject, refusal.reasons) == (f"candidate {bad}", reasons)
    assert (refusal.actor, refusal.submitted_by) == ("admission-1", "trainer")
    assert [(each.type, each.actor, each.reason) for each in report.actions[-4:]] == [
        ("scenario.held", "ada", "a complaint"),
        ("release.rolled_back", "bob", "worse in use"),
        ("scenario.resumed", "ada", "it was nothing"),
        ("key.revoked", "service", "its laptop was stolen"),
    ]
    (serving,) = report.serving
    assert (serving.type, serving.actor, serving.reason) == (
        "release.rolled_back",
        "bob",
        "worse in use",
    )
    texts = Reader(report_page(report, 1.0)).texts
    for wanted in (
        *(each.message for each in reasons),
        *("dtype", "not-finite", "model.safetensors", "admission-1"),
        *("a complaint", "ada", "it was nothing", "its laptop was stolen", "bob"),
    ):
        assert wanted in texts


def test_the_page_has_the_rules_of_every_promotion_with_their_figures(story: Story) -> None:
    report = replay(story.folder, story.anchor)
    gates = {gate.gate_id: gate for gate in report.gates}
    page = report_page(report, 1.0)
    texts = Reader(page).texts
    promotions = [each for each in report.pointer_events if each.type == "release.promoted"]
    for promotion in promotions:
        gate = gates[promotion.gate_id]
        assert gate.policy_digest in texts
        assert {rule.outcome for rule in gate.rules} == {"passed"}
        for rule in gate.rules:
            assert {rule.kind, rule.words} <= set(texts)
            assert rule.found in texts
    told = [gates[each.gate_id] for each in promotions]
    assert [(gate.task_count, gate.trial_count) for gate in told] == [(2, 2), (2, 4)]
    assert texts.count("2 of 2 tasks passed") == len(told)
    assert "4 trials on all sides" in texts


def test_a_pass_that_was_not_promoted_is_told(
    world: World, exported: Callable[[World], Path]
) -> None:
    gate = world.gate(world.admitted())
    page = report_page(replay(exported(world), world.anchor), 1.0)
    told = page.split("Passed by their gates, and not promoted")[1].split("Refused by")[0]
    assert gate in told
    assert world.gate_of(gate).opened.candidate_id in told


def test_an_approval_stands_with_its_promotion_and_among_the_levers(
    world: World, exported: Callable[[World], Path]
) -> None:
    world.change_policy(approvals=1)
    gate = world.passed()
    candidate = world.gate_of(gate).opened.candidate_id
    approval = ev.ReleaseApproved(release_id=candidate, gate_id=gate, reason="read the replies")
    world.append(approval, actor="carol")
    world.promote(gate)
    report = replay(exported(world), world.anchor)
    assert report.good
    assert [each.approved_by for each in report.pointer_events] == [["carol"]]
    texts = Reader(report_page(report, 1.0)).texts
    assert "read the replies" in texts
    assert texts.count("carol") == 2


def test_the_page_of_a_verification_has_no_promotions(story: Story) -> None:
    texts = Reader(report_page(verify(story.folder, story.anchor), 0.0)).texts
    assert "Served now" not in texts
    assert story.world.state.tree.root().hex() in texts


def test_the_page_lists_what_is_wrong(tampered: Tampered, story: Story) -> None:
    position = tampered.position_of("release.promoted")
    tampered.edit_data(position, base=None)
    tampered.resign()
    texts = Reader(report_page(replay(tampered.path, story.anchor), 1.0)).texts
    assert "bad" in texts
    assert "other-gate" in texts
    assert str(position) in texts


def test_what_a_log_says_is_text_and_never_markup(
    world: World, exported: Callable[[World], Path]
) -> None:
    first = world.release()
    world.release()
    world.append(world.rollback_data(first, reason="<script>alert(1)</script>"))
    page = report_page(replay(exported(world), world.anchor), 1.0)
    assert "<script>alert(1)</script>" in Reader(page).texts
    assert "<script" not in page


def test_what_turns_or_hides_a_text_is_named_on_the_page(
    world: World, exported: Callable[[World], Path]
) -> None:
    first = world.release()
    world.release()
    world.append(world.rollback_data(first, reason="fine\u202egnorw\x1b[2J\u200b!"))
    page = report_page(replay(exported(world), world.anchor), 1.0)
    assert not {"\u202e", "\x1b", "\u200b"} & set(page)
    texts = Reader(page).texts
    assert "fine⟦U+202E⟧gnorw⟦U+001B⟧[2J⟦U+200B⟧!" in texts


def test_the_commands_write_the_page(story: Story, tmp_path: Path) -> None:
    root = tmp_path / "root.json"
    root.write_text(story.anchor, "utf-8")
    for verb in ("verify", "replay"):
        page = tmp_path / f"{verb}.html"
        arguments = ["audit", verb, str(story.folder), "--root", str(root), "--report", str(page)]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        assert "Audit: good" in Reader(page.read_text("utf-8")).texts
    nowhere = ["audit", "verify", str(story.folder), "--root", str(root), "--report", str(tmp_path)]
    result = CliRunner().invoke(app, nowhere)
    assert result.exit_code != 0
