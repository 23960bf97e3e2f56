"""Answers of vLLM, as far as they are read; other fields are ignored."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["Cards", "Info", "Reset", "Scores", "Version"]


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """A model or an adapter."""

    id: str
    root: str
    parent: str | None = None


class Cards(msgspec.Struct, frozen=True, kw_only=True):
    """GET /v1/models."""

    data: list[Card]


class ModelConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How the model is run."""

    tokenizer: str
    max_model_len: int
    logprobs_mode: str
    trust_remote_code: bool
    hf_overrides: Any = None


class ParallelConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How it is spread."""

    data_parallel_size: int


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """What vLLM was started with."""

    model_config: ModelConfig
    parallel_config: ParallelConfig
    lora_config: dict[str, Any] | None = None


class Info(msgspec.Struct, frozen=True, kw_only=True):
    """GET /server_info."""

    vllm_config: Config


class Reset(msgspec.Struct, frozen=True, kw_only=True):
    """POST /reset_prefix_cache."""

    success: bool


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """GET /weight_info."""

    weight_version: str


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """One token of a prompt."""

    logprob: float


class Scored(msgspec.Struct, frozen=True, kw_only=True):
    """What a prompt came to."""

    prompt_logprobs: list[dict[str, Prompt] | None]


class Scores(msgspec.Struct, frozen=True, kw_only=True):
    """POST /v1/completions."""

    choices: list[Scored]
