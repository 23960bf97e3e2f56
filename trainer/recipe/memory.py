"""How much memory of a GPU each process of the recipe needs, estimated from dimensions.

What always holds: an estimate is a sum of stated parts, in GB of 10^9 bytes; none was measured
on a GPU. Serving: the weights, by the number of GPUs; keys and values of one request of full
length; `OVERHEAD_GB` for activations, graphs and the library. Training (AdamW in float32): 16
bytes per trained parameter, sharded; the frozen teacher in float32, not sharded; float32 logits
over the vocabulary, five copies of them (policy, teacher, their log-softmax, the gradient);
one activation per layer, recomputed in between; the same overhead.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import msgspec

__all__ = ["OVERHEAD_GB", "Dimensions", "compared", "read_models", "serving_gb", "training_gb"]

OVERHEAD_GB = 4.0
_GB = 1e9
_LOGITS = 5


class Dimensions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields of a Qwen3 `config.json`."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    tie_word_embeddings: bool

    @property
    def parameters(self) -> int:
        """Their number."""
        queries = self.num_attention_heads * self.head_dim
        keys = self.num_key_value_heads * self.head_dim
        attention = self.hidden_size * (2 * queries + 2 * keys) + 2 * self.head_dim
        layer = attention + 3 * self.hidden_size * self.intermediate_size + 2 * self.hidden_size
        embeddings = self.vocab_size * self.hidden_size * (1 if self.tie_word_embeddings else 2)
        return self.num_hidden_layers * layer + embeddings + self.hidden_size

    @property
    def cache_bytes_per_token(self) -> int:
        """Keys and values of all layers, two bytes each."""
        return 4 * self.num_hidden_layers * self.num_key_value_heads * self.head_dim


def read_models(path: Path) -> dict[str, Dimensions]:
    """Name to dimensions. Raises `ValueError` and `OSError`."""
    return msgspec.convert(tomllib.loads(path.read_text("utf-8")), dict[str, Dimensions])


def compared(name: str, stated: Dimensions, directory: Path) -> str:
    """That the model in *directory* has the *stated* dimensions. Raises `ValueError`, `OSError`."""
    config = json.loads((directory / "config.json").read_text("utf-8"))
    wrong = [
        f"{field} is {config.get(field)}, not {getattr(stated, field)}"
        for field in Dimensions.__struct_fields__
        if config.get(field) != getattr(stated, field)
    ]
    if wrong:
        raise ValueError(f"{name}: {'; '.join(wrong)}")
    return f"{stated.parameters / _GB:.2f} billion parameters"


def serving_gb(model: Dimensions, context_tokens: int, gpus: int) -> float:
    """On each of *gpus* that share a bfloat16 model."""
    weights = 2 * model.parameters
    cache = model.cache_bytes_per_token * context_tokens
    return (weights + cache) / gpus / _GB + OVERHEAD_GB


def training_gb(model: Dimensions, sample_tokens: int, micro_batch: int, gpus: int) -> float:
    """On each of *gpus* that share the training of all parameters."""
    tokens = sample_tokens * micro_batch
    trained = 16 * model.parameters / gpus
    teacher = 4 * model.parameters
    logits = 4 * _LOGITS * tokens * model.vocab_size
    activations = 2 * model.num_hidden_layers * tokens * model.hidden_size
    return (trained + teacher + logits + activations) / _GB + OVERHEAD_GB
