"""Timeline, gates and candidates as pages: who reads what, and that replies stay data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from reef_release.domain.events import VerdictRecord
from reef_release.projections.replay import ReplayChecks
from reef_release.tokens import TokenRole
from reef_release.web import model_difference, tensor_difference
from tests.web_site import visit
from tests.web_story import WebStory, tell
from tests.world import SCENARIO, World

pytestmark = pytest.mark.anyio

BASE = f"/s/{SCENARIO}"
AUDIT, OPERATE = TokenRole.AUDIT, TokenRole.OPERATE
MAIN = re.compile(r"<main.*</main>", re.DOTALL)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> WebStory:
    return tell(Path(tmp_path_factory.mktemp("story")))


async def page(
    story: WebStory,
    path: str,
    role: TokenRole = AUDIT,
    *,
    status: int = 200,
    end: int | None = None,
) -> str:
    async with visit(story.world, role, end) as client:
        answer = await client.get(f"{BASE}{path}")
    assert answer.status_code == status, answer.text
    return answer.text


def main(html: str) -> str:
    found = MAIN.search(html)
    assert found is not None
    return found[0]


def words(html: str) -> str:
    """What a person reads."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", main(html))).split())


def addresses(story: WebStory) -> Iterator[str]:
    yield from ("/timeline", "/gates", "/candidates", "/timeline?kind=promotion&kind=hold")
    yield from (f"/gates/{gate_id}" for gate_id in story.scenario.gates)
    yield from (f"/candidates/{each}" for each in story.scenario.candidates)
    yield from (f"/policies/{each.digest}" for each in story.scenario.policies)


async def test_every_page_opens_for_auditors_and_operators(story: WebStory) -> None:
    for path in addresses(story):
        for role in (AUDIT, OPERATE):
            html = await page(story, path, role)
            assert html.count("<h1") == 1


async def test_no_page_takes_anything_from_elsewhere_or_needs_a_script(story: WebStory) -> None:
    for path in addresses(story):
        html = await page(story, path)
        assert re.findall(r'(?:src|href|action)="(?!/|#|\?)[^"]*"', html) == []
        assert " style=" not in html
        assert re.findall(r"<script(?![^>]*src=)", html) == []
        assert re.findall(r"<[^>]*\son\w+=", html) == []


async def test_replies_are_data(story: WebStory) -> None:
    html = await page(story, f"/gates/{story.paired_gate}")
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(&#39;reply&#39;)&lt;/script&gt;" in html
    assert "\u202e" not in html
    assert "⟦U+202E⟧" in html
    assert "\x1b" not in html
    assert "\x07" not in html
    assert "⟦U+001B⟧[31mred\n\n\tThe answer is" in html


async def test_an_operator_sees_verdicts_without_texts(story: WebStory) -> None:
    for path in (f"/gates/{story.paired_gate}", f"/candidates/{story.paired}"):
        html = await page(story, path, OPERATE)
        assert "are for a token of role audit" in words(html)
        assert "answer@1" in html
        for secret in ("What is ", "alert(", "I add two", "final answer", "found in"):
            assert secret not in html, secret
        assert "What is " in await page(story, path, AUDIT)


async def test_an_auditor_sees_what_each_check_found(story: WebStory) -> None:
    found = words(await page(story, f"/gates/{story.paired_gate}"))
    assert "The final answer is the right one." in found
    assert "overrides the direction in which its characters are shown" in found
    assert "found: " in found


async def test_the_list_of_candidates_names_code_and_place_of_a_refusal(story: WebStory) -> None:
    html = await page(story, "/candidates")
    refused = next(each for each in story.scenario.candidates.values() if each.reasons)
    reason = refused.reasons[0]
    place = f' <span class="where">{reason.where}</span>' if reason.where else ""
    assert f"<code>{reason.code}</code> {reason.message}{place}" in html


async def test_a_gate_answers_its_question_before_anything_else(story: WebStory) -> None:
    found = words(await page(story, f"/gates/{story.paired_gate}"))
    assert found.startswith(
        "Gate ✓ passed After 18 tasks everything that the policy asks for held."
    )
    refused = words(await page(story, f"/gates/{story.failed_gate}"))
    assert refused.startswith("Gate ✕ failed After 3 tasks the rule “consecutive passes”")


async def test_slots_are_shown_by_ten(story: WebStory) -> None:
    first = await page(story, f"/gates/{story.paired_gate}")
    assert re.findall(r'id="slot-(\d+)"', first) == [str(slot) for slot in range(10)]
    second = await page(story, f"/gates/{story.paired_gate}?slot=10")
    assert re.findall(r'id="slot-(\d+)"', second) == [str(slot) for slot in range(10, 18)]
    assert f"/gates/{story.paired_gate}?slot=10#trials" in first
    beyond = await page(story, f"/gates/{story.paired_gate}?slot=9000")
    assert "No slot has this number" in beyond


async def test_exact_odds_are_worked_out_when_asked(story: WebStory) -> None:
    path = f"/gates/{story.paired_gate}"
    assert "Work out the exact odds" in await page(story, path)
    found = words(await page(story, f"{path}?odds=exact"))
    assert "Exact odds against an incumbent of pass rate 0.1" in found


async def test_a_candidate_has_regressions_first(story: WebStory) -> None:
    html = await page(story, f"/candidates/{story.paired}")
    assert re.findall(r'id="slot-(\d+)"', html)[0] == "2"
    found = words(html)
    assert found.index("Slot 2 task") < found.index("Slot 0 task")
    assert "all checks 17 of 18 2 +15 1 16" in found
    assert "model.safetensors changed" in found
    assert "w changed F32 [1] same form 4 1" in found


async def test_weights_beyond_the_limit_are_compared_by_their_headers(
    story: WebStory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_values(
        source: tensor_difference.Ranges, *files: object
    ) -> tensor_difference.TensorDifference:
        return tensor_difference.tensor_difference(source, *files, 10)  # type: ignore[arg-type]

    monkeypatch.setattr("reef_release.web.model_difference._tensors", without_values)
    found = words(await page(story, f"/candidates/{story.paired}"))
    assert "python -m reef_release.web.tensor_difference" in found
    assert "w not read F32 [1] same form" in found
    assert "reef/blobs/" in found


async def test_the_weights_of_what_is_not_admitted_are_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    world.create_scenario()
    served = world.release()
    refused, waiting, admitted = world.submit(), world.submit(), world.admitted()
    world.refuse(refused)
    opened: list[object] = []
    whole = model_difference._tensors

    def tensors(*given: Any) -> tensor_difference.TensorDifference:
        opened.append(given)
        return whole(*given)

    monkeypatch.setattr(model_difference, "_tensors", tensors)
    async with visit(world) as client:
        for path in (refused, waiting, f"{admitted}?against={refused}"):
            html = (await client.get(f"{BASE}/candidates/{path}")).text
            assert "is not admitted" in words(html)
            assert "model.safetensors changed" in words(html)
        assert opened == []
        html = (await client.get(f"{BASE}/candidates/{admitted}?against={served}")).text
        assert "w changed F32 [1]" in words(html)
        assert len(opened) == 1


async def test_a_candidate_that_names_a_suite_among_its_files_is_not_opened(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    world.create_scenario()
    world.release()
    suite = b"".join(world.blobs.chunks_sync(world.suite))
    spy = world.submit({"config.json": suite, "model.safetensors": b""})
    for role, is_opened in ((AUDIT, True), (OPERATE, False)):
        async with visit(world, role) as client:
            html = (await client.get(f"{BASE}/candidates/{spy}")).text
        assert ("none is opened" in html) is not is_opened
        assert "What is 3 + 2?" not in html


async def test_levers_are_for_operators_and_for_now(story: WebStory) -> None:
    path = f"/candidates/{story.second}"
    assert "Roll back to it" in await page(story, path, OPERATE)
    assert f"do/roll-back?release_id={story.second}" in await page(story, path, OPERATE)
    assert "Roll back to it" not in await page(story, path, AUDIT)
    assert "Roll back to it" not in await page(story, f"{path}?at={story.world.head}", OPERATE)


async def test_the_timeline_leads_to_the_policy_and_tells_what_it_changed(story: WebStory) -> None:
    second = story.scenario.policies[1].digest
    html = await page(story, "/timeline?kind=policy")
    assert f'href="/s/{SCENARIO}/policies/{second}">policy version 2 in force</a>' in html
    assert "“a better rule” approvals: none → 1 person" in words(html)
    text = words(await page(story, f"/policies/{second}"))
    assert text.startswith("Policy version 2 · replaced Gates that opened from")
    assert "approvals: none → 1 person" in text
    assert '"suite_max_gates": 1000' in text


async def test_the_gates_page_says_how_far_the_suite_is_worn(story: WebStory) -> None:
    gates = len(story.scenario.gates)
    text = words(await page(story, "/gates"))
    assert f"{gates} gates of at most 1,000 used, {1000 - gates} left" in text
    early = words(await page(story, f"/gates?at={story.scenario.created_position}"))
    assert "0 gates of at most 1,000 used, 1,000 left" in early


async def test_a_suite_that_is_worn_out_says_what_comes_next(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create_scenario(suite_max_gates=1)
    world.release()
    waiting = world.admitted()
    async with visit(world) as client:
        text = words((await client.get(f"{BASE}/candidates/{waiting}")).text)
    assert "The suite is retired, so none opens until a policy with another one" in text
    for path in ("/gates", f"/policies/{world.scenario.policy.digest}"):
        async with visit(world) as client:
            text = words((await client.get(f"{BASE}{path}")).text)
        assert "1 gate of at most 1 used ✕ retired" in text
        assert ("no gate opens until a policy with another suite" in text) is (path == "/gates")


async def test_a_revoked_candidate_says_first_who_revoked_it_and_why(story: WebStory) -> None:
    text = words(await page(story, f"/candidates/{story.origin}"))
    assert re.search(r"✕ revoked Revoked \S+.* ago by \w+: “[^”]+” #\d+ After", text)


async def test_the_timeline_is_filtered_by_kind(story: WebStory) -> None:
    found = await page(story, "/timeline?kind=hold&kind=resume&kind=nonsense")
    assert len(re.findall(r'<tr role="row" id="e', found)) == 2
    assert 'value="hold" checked' in found
    assert 'value="promotion" checked' not in found
    none = words(await page(story, "/timeline?kind=fall"))
    assert "Nothing of this kind." in none


async def test_the_timeline_links_its_picture_to_its_table(story: WebStory) -> None:
    html = await page(story, "/timeline")
    marks = re.findall(r'href="#e(\d+)"', html)
    rows = re.findall(r'<tr role="row" id="e(\d+)"', html)
    assert sorted(marks, key=int) == sorted(rows, key=int)
    assert "without effect" in words(html)


async def test_the_timeline_pages_by_position_and_loses_nothing(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create_scenario()
    for _ in range(30):
        world.hold()
        world.resume()
    seen, path = [], "/timeline"
    async with visit(world) as client:
        while path:
            html = (await client.get(f"{BASE}{path}")).text
            seen += [int(each) for each in re.findall(r'<tr role="row" id="e(\d+)"', html)]
            older = re.search(r'rel="next" href="/s/homework(/timeline\?before=\d+)"', html)
            path = older[1] if older else ""
    expected = [world.scenario.created_position, *range(world.head - 59, world.head + 1)]
    assert seen == sorted(expected, reverse=True)


async def test_a_long_reply_is_folded_and_one_that_is_lost_says_so(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create_scenario()
    gate_id = world.open_gate(world.admitted())
    words = "So it goes on. " * 2000
    long = world.trial_body(gate_id, "+", reply=f"{words}The answer is 0.")
    world.append(
        world.trial(
            gate_id, "-", body=world.put_trial(long), verdict=verdict_of(world, gate_id, long.reply)
        )
    )
    world.append(world.trial(gate_id, "+"))
    lost = world.gate_of(gate_id).trials[1].body
    assert lost is not None
    async with visit(world) as client:
        world.blobs.erase_sync(lost)
        html = (await client.get(f"{BASE}/gates/{gate_id}")).text
    assert '<details class="reply"><summary>30,016 characters: So it goes on.' in html
    assert "10,016 more characters; the body has them all." in html
    assert "Its file is lost: the log does not say that it was erased." in html


def verdict_of(world: World, gate_id: str, reply: str) -> VerdictRecord:
    gate = world.gate_of(gate_id)
    checks = ReplayChecks(world.anchor, world.blobs)
    return checks.verdict(gate.part.verifiers, reply, gate.tasks[0].answer)


async def test_an_empty_scenario_says_what_comes_next(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create_scenario()
    async with visit(world) as client:
        for path, say in (
            ("/gates", "One opens when a candidate is admitted"),
            ("/candidates", "A trainer submits one"),
            ("/timeline?kind=promotion", "Nothing of this kind."),
        ):
            text = words((await client.get(f"{BASE}{path}")).text)
            assert say in text
            assert "That is all." not in text


async def test_what_is_not_there_yet_is_not_found(story: WebStory) -> None:
    policy = story.scenario.policies[-1].digest
    for path in (
        f"/gates/{story.paired_gate}",
        f"/candidates/{story.paired}",
        f"/policies/{policy}",
    ):
        await page(story, f"{path}?at=20", status=404)
    await page(story, "/gates/none", status=404)
    await page(story, "/candidates/none", status=404)


async def test_a_page_as_of_a_position_is_the_page_of_a_log_that_ended_there(
    story: WebStory,
) -> None:
    for end in (20, 45, story.violation, 100, story.world.head - 2):
        then = story.state_at(end).scenarios[SCENARIO]
        paths = ["/timeline", "/gates", "/candidates"]
        paths += [f"/gates/{gate_id}" for gate_id in then.gates]
        paths += [f"/candidates/{each}" for each in then.candidates]
        paths += [f"/policies/{each.digest}" for each in then.policies]
        for path in paths:
            back = await page(story, f"{path}?at={end}")
            assert main(back) == main(await page(story, f"{path}?at={end}", end=end)), path
