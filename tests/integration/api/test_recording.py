"""Recording over HTTP: one interaction, one receipt; whatever comes again, at once or in bulk."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from reef_release.artifacts.blobs import unsalted
from reef_release.ids import uuid7
from tests.integration.api.story import Problem, Story
from tests.integration.api.traffic import interaction, lines

pytestmark = pytest.mark.anyio

NDJSON = {"Content-Type": "application/x-ndjson"}


async def record(story: Story, body: Any, **options: Any) -> Any:
    return await story.post("ingest", story.path("interactions"), body, **options)


async def bulk(story: Story, body: bytes) -> list[Any]:
    response = await story.ask(
        "ingest", "POST", story.path("interactions"), content=body, headers=NDJSON
    )
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.content.splitlines()]


async def test_an_interaction_becomes_an_event_without_a_word_of_what_was_said(
    story: Story,
) -> None:
    receipt = await record(story, interaction("my secret question", tag="s-1"))
    (event,) = await story.events(type="interaction.recorded")
    assert event["position"] == receipt["position"]
    assert event["event_id"] == receipt["interaction_id"]
    assert event["stream"] == f"session/{receipt['interaction_id']}"
    assert "secret" not in json.dumps(event)
    assert event["data"]["tag"] == "s-1"
    assert event["data"]["token_fault"] is None
    assert event["data"]["token_count"] == 2
    assert story.service is not None
    stored = story.service.blobs.read_sync(event["data"]["body"], 10_000)
    body = json.loads(unsalted(stored, event["data"]["body"]))
    assert body["messages"] == [{"role": "user", "content": "my secret question"}]


async def test_the_same_interaction_again_gets_its_first_receipt(story: Story) -> None:
    body = interaction(interaction_id=uuid7(), at="2026-01-02T03:04:05+01:00")
    first = await record(story, body)
    again = await record(story, body)
    assert again == {**first, "duplicate": True}
    assert len(await story.events(type="interaction.recorded")) == 1


async def test_the_temperature_is_part_of_what_is_recorded(story: Story) -> None:
    body = interaction(interaction_id=uuid7(), temperature=0.7)
    await record(story, body)
    assert (await record(story, body))["duplicate"]
    with pytest.raises(Problem) as refused:
        await record(story, {**body, "temperature": 0.8})
    assert refused.value.status == 409
    with pytest.raises(Problem) as refused:
        await record(story, interaction(temperature=-1))
    assert refused.value.status == 400


async def test_a_body_that_was_stored_without_the_newest_fields_is_still_the_same(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert story.service is not None
    put_body = story.service.blobs.put_body

    async def put_older(body: bytes, _salt: bytes | None = None) -> str:
        return await put_body(body.replace(b'"temperature":null,', b""))

    monkeypatch.setattr(story.service.blobs, "put_body", put_older)
    body = interaction(interaction_id=uuid7())
    await record(story, body)
    assert (await record(story, body))["duplicate"]


async def test_one_interaction_sent_many_times_at_once_is_recorded_once(story: Story) -> None:
    body = interaction(interaction_id=uuid7())
    receipts = await asyncio.gather(*(record(story, body) for _ in range(8)))
    assert len({receipt["position"] for receipt in receipts}) == 1
    assert len(await story.events(type="interaction.recorded")) == 1


async def test_another_interaction_under_a_known_id_is_a_conflict_also_once_the_body_is_erased(
    story: Story,
) -> None:
    body = interaction(interaction_id=uuid7())
    await record(story, body)
    with pytest.raises(Problem) as other:
        await record(story, {**body, "reply": {"role": "assistant", "content": "5"}})
    assert other.value.status == 409
    (event,) = await story.events(type="interaction.recorded")
    assert story.service is not None
    await story.service.blobs.erase(event["data"]["body"])
    with pytest.raises(Problem) as erased:
        await record(story, {**body, "reply": {"role": "assistant", "content": "5"}})
    assert erased.value.status == 409


async def test_an_unknown_scenario_is_not_found_and_does_not_come_to_be(story: Story) -> None:
    with pytest.raises(Problem) as problem:
        await story.post("ingest", "/reef/scenarios/homewrok/interactions", interaction())
    assert problem.value.status == 404
    assert len((await story.get("operate", "/reef/scenarios"))["scenarios"]) == 1


async def test_a_malformed_interaction_leaves_nothing_behind(story: Story) -> None:
    malformed: list[dict[str, Any]] = [
        {"messages": []},
        {"reply": None},
        {"interaction_id": "1"},
        {"at": "yesterday"},
        {"at": "2999-01-01T00:00:00Z"},
        {"at": "0001-01-01T00:00:00Z"},
        {"tag": "a\0b"},
        {"turn_type": "other"},
        {"tokenids": []},
    ]
    for changes in malformed:
        with pytest.raises(Problem) as problem:
            await record(story, interaction(**changes))
        assert problem.value.status == 400, changes
        assert problem.value.body["detail"]
    assert await story.events(type="interaction.recorded") == []


@pytest.mark.parametrize("field", ["messages", "reply", "tools"])
async def test_what_is_nested_too_deeply_is_refused(story: Story, field: str) -> None:
    deep: Any = "x"
    for _ in range(120):
        deep = [deep]
    message = {"role": "user", "content": deep}
    value = message if field == "reply" else [message]
    with pytest.raises(Problem) as problem:
        await story.post("ingest", story.path("interactions"), interaction(**{field: value}))
    assert problem.value.status == 400
    assert "deep" in problem.value.body["detail"]


async def test_a_number_that_is_not_finite_is_refused_as_json(story: Story) -> None:
    body = json.dumps(interaction()).replace("-1.5", "NaN").encode()
    with pytest.raises(Problem) as problem:
        await record(story, body)
    assert problem.value.status == 400


async def test_token_data_that_do_not_fit_are_recorded_as_they_are_with_the_reason(
    story: Story,
) -> None:
    faults: list[tuple[dict[str, Any], str]] = [
        ({"logprobs": [-0.1, -0.2, -0.3]}, "length-mismatch"),
        ({"logprobs": [-0.1]}, "length-mismatch"),
        ({"logprobs": [-0.1, None]}, "not-a-log-probability"),
        ({"logprobs": [-0.1, 0.5]}, "not-a-log-probability"),
        ({"mask": [1]}, "length-mismatch"),
        ({"mask": [1, 7]}, "no-mask"),
        ({"logprobs": None}, "incomplete-token-data"),
        ({"token_ids": [], "logprobs": []}, "incomplete-token-data"),
        ({"token_ids": [4, -1]}, "token-id-out-of-range"),
        ({"prompt_token_ids": None, "token_ids": None, "logprobs": None}, "no-token-data"),
    ]
    for changes, _ in faults:
        await record(story, interaction(**changes))
    events = await story.events(type="interaction.recorded")
    assert [event["data"]["token_fault"] for event in events] == [fault for _, fault in faults]


async def test_a_call_that_failed_is_recorded_as_what_it_is(story: Story) -> None:
    await record(story, interaction(reply=None, error="upstream-error", status=502))
    (event,) = await story.events(type="interaction.failed")
    assert (event["data"]["error"], event["data"]["status"]) == ("upstream-error", 502)


async def test_a_reply_that_was_broken_off_is_a_call_that_failed(story: Story) -> None:
    body = interaction(interaction_id=uuid7(), finish_reason="content_filter")
    first = await record(story, body)
    assert (await record(story, body))["duplicate"] is True
    (event,) = await story.events(type="interaction.failed")
    assert event["position"] == first["position"]
    assert event["data"]["error"] == "upstream-error"


async def test_each_line_of_a_bulk_is_recorded_or_not_whatever_its_neighbours(
    story: Story,
) -> None:
    good = [interaction(f"question {number}") for number in range(150)]
    known = {**good[0], "interaction_id": uuid7()}
    other = {**known, "reply": {"role": "assistant", "content": "no"}}
    body = lines([known, *good, known, other]) + b"\n{broken\n" + lines([good[0]])[:-1]
    outcomes = await bulk(story, body)
    assert [each["line"] for each in outcomes] == [*range(1, 154), 155, 156]
    assert [each["line"] for each in outcomes if each["problem"]] == [153, 155]
    assert outcomes[151]["receipt"] == {**outcomes[0]["receipt"], "duplicate": True}
    positions = [each["receipt"]["position"] for each in outcomes[:151]]
    assert positions == sorted(positions)
    assert len(await story.events(type="interaction.recorded")) == 152


async def test_a_report_is_received_once_for_each_receipt(story: Story) -> None:
    receipts = [(await record(story, interaction()))["interaction_id"] for _ in range(2)]
    body = {"references": receipts, "score": 0.5, "feedback": "nice"}
    first = await story.post("ingest", "/reef/report", body)
    assert len(first["positions"]) == 2
    assert (await story.post("ingest", "/reef/report", body))["positions"] == []
    events = await story.events(type="report.received")
    assert [event["data"]["turn_id"] for event in events] == receipts
    assert {event["data"]["score"] for event in events} == {"0.5"}
    assert "nice" not in json.dumps(events)


@pytest.mark.parametrize(
    "score", ["NaN", "Infinity", "-Infinity", "1e999", '"NaN"', '"inf"', "true"]
)
async def test_a_score_that_is_no_finite_number_is_refused(story: Story, score: str) -> None:
    receipt = (await record(story, interaction()))["interaction_id"]
    body = f'{{"references": ["{receipt}"], "score": {score}}}'.encode()
    with pytest.raises(Problem) as problem:
        await story.post("ingest", "/reef/report", body)
    assert problem.value.status == 400
    assert await story.events(type="report.received") == []


async def test_a_divergent_report_is_refused_and_the_first_one_still_stands(story: Story) -> None:
    receipt = (await record(story, interaction()))["interaction_id"]
    fine = {"references": [receipt], "score": 1, "feedback": "good"}
    await story.post("ingest", "/reef/report", fine)
    for change in ({"score": -1}, {"feedback": "bad"}, {"feedback": None}):
        with pytest.raises(Problem) as problem:
            await story.post("ingest", "/reef/report", {**fine, **change})
        assert problem.value.status == 409
    await story.post("ingest", "/reef/report", fine)
    assert len(await story.events(type="report.received")) == 1


async def test_a_report_on_an_unknown_receipt_writes_nothing_for_the_known_ones(
    story: Story,
) -> None:
    receipt = (await record(story, interaction()))["interaction_id"]
    with pytest.raises(Problem) as problem:
        await story.post("ingest", "/reef/report", {"references": [receipt, uuid7()], "score": 1})
    assert problem.value.status == 404
    assert await story.events(type="report.received") == []
