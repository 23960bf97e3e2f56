"""Which recorded turns can be trained on, and why the others cannot."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from reef_release.errors import BadRequest
from reef_release.traffic_wire import BatchSampleView
from tests.batches import HINTS, RELEASE, TEMPERATURE, make_batch
from trainer.learning.samples import Model, Skipped, load_samples, read_batch
from trainer.learning.settings import HintRendering, TrainingSettings
from trainer.tiny.phrases import with_hint

SETTINGS = TrainingSettings()


@pytest.fixture(scope="module")
def model() -> Model:
    from trainer.learning.weights import load_tokenizer
    from trainer.tiny.shipped import ORIGIN

    return Model(
        tokenizer=load_tokenizer(ORIGIN),
        vocabulary=768,
        context_tokens=1024,
        end_token_ids=frozenset({2}),
    )


def test_each_kind_of_sample_feeds_its_terms_and_has_its_teachers(model: Model) -> None:
    samples, skipped = load_samples(make_batch(4), model, SETTINGS)
    assert skipped == []
    assert [each.reward for each in samples] == [-1.0, 0.0, -1.0, 1.0]
    assert [len(each.teacher_prompts) for each in samples] == [1, 2, 1, 1]
    assert samples[2].teacher_prompts == (samples[2].prompt_ids,)
    messages = make_batch(4).samples[0].messages
    wanted = model.tokenizer.apply_chat_template(
        with_hint(messages, HINTS[0]), add_generation_prompt=True, return_dict=False
    )
    assert samples[0].teacher_prompts == (tuple(wanted),)
    assert samples[0].hint_characters == (len(HINTS[0]),)
    assert all(each.temperature == TEMPERATURE and not each.truncated for each in samples)


def test_samples_without_a_hint_can_be_left_to_the_policy_term_alone(model: Model) -> None:
    settings = TrainingSettings(teach_unhinted=False)
    samples, skipped = load_samples(make_batch(4), model, settings)
    assert [each.distilled for each in samples] == [True, True, False, False]
    assert skipped == []
    assert all(each.distilled for each in load_samples(make_batch(4), model, SETTINGS)[0])


def test_a_sample_without_a_term_is_a_sample_all_the_same(model: Model) -> None:
    def change(views: list[BatchSampleView]) -> list[BatchSampleView]:
        return [msgspec.structs.replace(views[2], score=0), *views[:1]]

    settings = TrainingSettings(teach_unhinted=False)
    samples, skipped = load_samples(make_batch(4, change), model, settings)
    assert [each.teaches for each in samples] == [False, True]
    assert skipped == []


def test_no_temperature_means_one_and_a_cut_reply_is_seen(model: Model) -> None:
    def change(views: list[BatchSampleView]) -> list[BatchSampleView]:
        first = msgspec.structs.replace(
            views[0],
            temperature=None,
            token_ids=views[0].token_ids[:-1],
            logprobs=views[0].logprobs[:-1],
        )
        return [first]

    samples, _ = load_samples(make_batch(4, change), model, SETTINGS)
    assert samples[0].temperature == 1.0
    assert samples[0].truncated


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"logprobs": [-0.1]}, "length-mismatch"),
        ({"token_ids": []}, "incomplete-token-data"),
        ({"prompt_token_ids": []}, "incomplete-token-data"),
        ({"logprobs": math.nan}, "not-a-log-probability"),
        ({"logprobs": -math.inf}, "not-a-log-probability"),
        ({"logprobs": 0.5}, "not-a-log-probability"),
        ({"release_id": "c" * 64}, "foreign-release"),
        ({"mask": [1]}, "length-mismatch"),
        ({"mask": 2}, "no-mask"),
        ({"token_ids": 768}, "token-id-out-of-range"),
        ({"temperature": 0.0}, "temperature"),
        ({"score": 2}, "score"),
        ({"hints": []}, "no-hint"),
        ({"messages": [{"role": "user", "content": "Something else."}]}, "other-prompt"),
        (
            {
                "messages": [{"role": "user", "content": "Something else."}],
                "hints": [],
                "hinted": False,
            },
            "other-prompt",
        ),
        ({"reply": {"role": "assistant", "content": "Something else."}}, "other-text"),
    ],
)
def test_a_sample_that_cannot_be_trusted_is_skipped_with_its_reason(
    change: dict[str, Any], reason: str, model: Model
) -> None:
    def spoil(views: list[BatchSampleView]) -> list[BatchSampleView]:
        whole = {
            name: [value] * len(views[0].token_ids)
            if name in ("logprobs", "mask", "token_ids") and not isinstance(value, list)
            else value
            for name, value in change.items()
        }
        return [msgspec.structs.replace(views[0], **whole), *views[1:]]

    samples, skipped = load_samples(make_batch(4, spoil), model, SETTINGS)
    assert [(each.turn_id, each.reason) for each in skipped] == [("turn-0", reason)]
    assert [each.turn_id for each in samples] == ["turn-1", "turn-2", "turn-3"]


def test_a_sample_of_an_earlier_release_that_the_batch_names_lags_behind(model: Model) -> None:
    earlier = "c" * 64

    def change(views: list[BatchSampleView]) -> list[BatchSampleView]:
        return [msgspec.structs.replace(views[0], release_id=earlier), *views[1:]]

    batch = msgspec.structs.replace(make_batch(4, change), releases=[RELEASE, earlier])
    samples, skipped = load_samples(batch, model, SETTINGS)
    assert skipped == []
    assert [each.lagging for each in samples] == [True, False, False, False]


def test_a_mask_goes_with_the_sample_and_trls_objective_knows_none(model: Model) -> None:
    def change(views: list[BatchSampleView]) -> list[BatchSampleView]:
        first, second, *rest = views
        half = [place % 2 for place in range(len(first.token_ids))]
        nothing = [0] * len(second.token_ids)
        return [
            msgspec.structs.replace(first, mask=half),
            msgspec.structs.replace(second, mask=nothing),
            *rest,
        ]

    samples, skipped = load_samples(make_batch(4, change), model, SETTINGS)
    assert skipped == []
    assert samples[0].mask[:4] == (0, 1, 0, 1)
    assert set(samples[1].mask) == {0}
    assert samples[2].mask == (1,) * len(samples[2].token_ids)
    settings = TrainingSettings(objective="trl")
    _, skipped = load_samples(make_batch(4, change), model, settings)
    assert [(each.turn_id, each.reason) for each in skipped] == [
        ("turn-0", "masked"),
        ("turn-1", "masked"),
    ]


def test_a_sample_that_is_too_long_with_its_hint_is_skipped_and_never_cut(model: Model) -> None:
    samples, _ = load_samples(make_batch(4), model, SETTINGS)
    plain = [len(each.prompt_ids) + len(each.token_ids) for each in samples]
    hinted = len(samples[0].teacher_prompts[0]) + len(samples[0].token_ids)
    assert hinted > plain[0]
    limit = TrainingSettings(max_sample_tokens=hinted - 1)
    _, skipped = load_samples(make_batch(4), model, limit)
    assert (
        Skipped(
            turn_id="turn-0",
            reason="too-long",
            detail=f"{hinted} tokens with its prompt; {hinted - 1} are allowed",
        )
        in skipped
    )
    small = msgspec.structs.replace(model, context_tokens=hinted - 1)
    assert "turn-0" in [each.turn_id for each in load_samples(make_batch(4), small, SETTINGS)[1]]


def test_another_rendering_can_be_allowed_where_the_server_rendered_otherwise(
    model: Model,
) -> None:
    def change(views: list[BatchSampleView]) -> list[BatchSampleView]:
        other = [{"role": "system", "content": "Be brief."}, *views[0].messages]
        return [msgspec.structs.replace(views[0], messages=other)]

    lax = TrainingSettings(hints=HintRendering(require_same_prompt=False))
    assert len(load_samples(make_batch(4, change), model, lax)[0]) == 1
    assert load_samples(make_batch(4, change), model, SETTINGS)[0] == []


def test_a_message_without_text_cannot_carry_the_hint(model: Model) -> None:
    def change(views: list[BatchSampleView]) -> list[BatchSampleView]:
        silent: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
        return [msgspec.structs.replace(views[0], messages=silent)]

    lax = TrainingSettings(hints=HintRendering(require_same_prompt=False))
    _, skipped = load_samples(make_batch(4, change), model, lax)
    assert [each.reason for each in skipped] == ["prompt"]


def test_a_file_that_holds_no_batch_is_a_bad_request() -> None:
    assert read_batch(msgspec.json.encode(make_batch(4))) == make_batch(4)
    for document in (b"{}", b"[]", b"\xff", b'{"samples": 1}'):
        with pytest.raises(BadRequest):
            read_batch(document)
