"""Training settings: read, refused, written as an event has them."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from reef_release.errors import SettingsError
from trainer.learning.prompts import hinted_messages
from trainer.learning.settings import (
    HintRendering,
    LoraSettings,
    TrainingSettings,
    settings_text,
)
from trainer.learning.watches import Bounds, StepStopped, check
from trainer.objective.settings import ObjectiveSettings
from trainer.tiny.phrases import hints, with_hint


@pytest.mark.parametrize(
    "fields",
    [
        {"epoch": 2},
        {"epochs": 0},
        {"epochs": 1.5},
        {"objective": "sdpo"},
        {"adam": {"learning_rate": 0}},
        {"adam": {"lr": 1e-4}},
        {"terms": {"policy_wieght": 1}},
        {"bounds": {"drift": -1}},
        {"hints": {"template": "no place for it"}},
        {"hints": {"place": "first"}},
        {"bounds": {"reply_tokens_low": 50, "reply_tokens_high": 10}},
        {"bounds": {"entropy_low": 6}},
        {"lora": {"targets": []}},
        {"lora": {"targets": ["q_proj", ""]}},
        {"hints": {"chat_template_arguments": {"tokenize": False}}},
        {"hints": {"chat_template_arguments": {"add_generation_prompt": False}}},
        {"precision": "float16"},
        {"objective": "trl", "terms": {"support": "teacher"}},
        {"objective": "trl", "terms": {"hint_choice": "token_optimal"}},
        {"objective": "trl", "terms": {"penalty": "k3", "penalty_weight": 0.1}},
        {"terms.policy_weight": 0.5},
    ],
)
def test_settings_that_cannot_be_followed_are_refused(fields: Any) -> None:
    with pytest.raises((SettingsError, msgspec.ValidationError)):
        msgspec.convert(fields, TrainingSettings)


def test_an_event_has_each_setting_as_text_under_its_dotted_name() -> None:
    settings = TrainingSettings(
        terms=ObjectiveSettings(policy_weight=0.1, difference_clamp=None, support="overlap"),
        hints=HintRendering(chat_template_arguments={"enable_thinking": False, "a.b": 1}),
        lora=LoraSettings(rank=4, targets=("q_proj",)),
        bounds=Bounds(drift=0.25),
    )
    text = settings_text(settings)
    assert text["terms.policy_weight"] == "0.1"
    assert text["hints.chat_template_arguments"] == '{"enable_thinking":false,"a.b":1}'
    assert text["lora.targets"] == '["q_proj"]'
    assert (text["bounds.drift"], text["terms.difference_clamp"]) == ("0.25", "null")
    assert all(isinstance(each, str) for each in text.values())
    assert settings_text(TrainingSettings())["lora"] == "null"


def test_a_hint_is_rendered_as_the_tiny_model_was_taught() -> None:
    messages = [
        {"role": "user", "content": "How many?"},
        {"role": "assistant", "content": "**7**"},
        {"role": "user", "content": "No bold."},
    ]
    hint = hints("style", "held_out")[0]
    assert hinted_messages(messages, hint, HintRendering()) == with_hint(messages, hint)
    assert messages[-1]["content"] == "No bold."


def test_a_hint_can_go_to_the_last_message_of_the_user() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": "How many?"}]},
        {"role": "tool", "content": "7"},
    ]
    rendering = HintRendering(template="\n\n({hint})", place="last_user")
    found = hinted_messages(messages, "Use plain words.", rendering)
    assert found[0]["content"] == [
        {"type": "text", "text": "How many?"},
        {"type": "text", "text": "\n\n(Use plain words.)"},
    ]
    assert found[1] == messages[1]
    with pytest.raises(ValueError, match="no message"):
        hinted_messages(messages[1:], "Use plain words.", rendering)


@pytest.mark.parametrize(
    ("metrics", "reason"),
    [
        ({"loss": math.nan}, "non-finite"),
        ({"grad_norm": math.inf}, "non-finite"),
        ({"kl_base": 6.0}, "kl"),
        ({"kl_origin": 11.0}, "kl"),
        ({"entropy": 0.0}, "entropy"),
        ({"entropy": 6.0}, "entropy"),
        ({"reply_tokens": 1.0}, "reply-length"),
        ({"reply_tokens": 200.0}, "reply-length"),
        ({"truncated": 0.75}, "truncation"),
        ({"drift": 0.31}, "drift"),
        ({"drift_share": 0.11}, "drift"),
        ({"loss": 1e39}, "non-finite"),
        ({"update_norm": 0.2}, "update-norm"),
    ],
)
def test_each_watch_stops_with_its_reason(metrics: dict[str, float], reason: str) -> None:
    bounds = Bounds(reply_tokens_high=100.0)
    with pytest.raises(StepStopped) as stopped:
        check(metrics, bounds)
    assert stopped.value.reason == reason
    assert next(iter(metrics)) in stopped.value.detail


def test_what_is_within_its_bounds_or_has_none_goes_on() -> None:
    check({"drift": 0.3, "kl_base": 0.1, "entropy": 0.2, "loss": -5.0}, Bounds())
    check({"drift": 30.0}, Bounds(drift=None))
