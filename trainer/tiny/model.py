"""Tokenizer and architecture of the tiny policy.

What always holds: each of 0..99 after a space is one token, so arithmetic is never spelt by
digits; the chat template marks assistant tokens with ``{% generation %}``; the model is a stock
Qwen3 with tied embeddings, in float32.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from trainer.quiet import quiet_transformers
from trainer.tiny.corpus import warm_start_conversation

__all__ = ["CHAT_TEMPLATE", "build_model", "build_tokenizer", "load_pretrained"]

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] }}<|im_end|>{% endgeneration %}\n"
    "{% else %}{{ message['content'] }}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

_PAD, _START, _END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
_VOCABULARY = 768
_CORPUS_CONVERSATIONS = 6000
_MAX_POSITIONS = 1024


def build_tokenizer(seed: int = 0) -> Any:
    """Train the byte-level BPE on warm-start conversations; a ``PreTrainedTokenizerFast``."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(
                Regex(r" ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+"), behavior="isolated"
            ),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    rng = random.Random(seed)  # noqa: S311  # reproducible data, no secret
    texts = [
        "\n".join(f"{message['role']}\n{message['content']}" for message in conversation)
        for conversation in (warm_start_conversation(rng) for _ in range(_CORPUS_CONVERSATIONS))
    ]
    # Numbers the corpus seldom shows must become tokens too.
    texts += [f" {number}" * 4 for number in range(100)] * 400
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=_VOCABULARY,
            special_tokens=[_PAD, _START, _END],
            min_frequency=5,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    wrapped = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]  # transformers
        tokenizer_object=tokenizer, eos_token=_END, pad_token=_PAD, padding_side="left"
    )
    wrapped.chat_template = CHAT_TEMPLATE
    return wrapped


def build_model(tokenizer: Any, seed: int = 0) -> Any:
    """A ``Qwen3ForCausalLM`` with fresh weights, 0.2 M parameters."""
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=-(-len(tokenizer) // 64) * 64,
        hidden_size=64,
        num_hidden_layers=3,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        intermediate_size=192,
        max_position_embeddings=_MAX_POSITIONS,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        use_cache=True,
    )
    model = Qwen3ForCausalLM(config)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model


def load_pretrained(directory: Path) -> tuple[Any, Any]:
    """Model and tokenizer in ``directory``, by transformers' own means."""
    with quiet_transformers():
        model: Any = AutoModelForCausalLM.from_pretrained(directory)
    return model, AutoTokenizer.from_pretrained(directory)
