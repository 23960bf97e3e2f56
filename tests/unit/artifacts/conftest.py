"""A small full model, a blob store, and the admission of files that stand in memory."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from reef_release.artifacts.admission import Admission, admit
from reef_release.artifacts.directory_store import DirectoryBlobStore
from reef_release.artifacts.schema import Schema, stored_schema
from reef_release.artifacts.spoiling import Files, join_weights
from reef_release.domain.events import FileEntry

FOUNDATION = "f" * 64
TENSORS: dict[str, tuple[str, tuple[int, ...]]] = {
    "model.embed_tokens.weight": ("F32", (12, 8)),
    "model.layers.0.self_attn.q_proj.weight": ("F32", (8, 8)),
    "model.layers.0.self_attn.k_proj.weight": ("F32", (4, 8)),
    "model.layers.0.mlp.down_proj.weight": ("BF16", (8, 16)),
    "model.layers.0.input_layernorm.weight": ("F32", (8,)),
    "model.norm.weight": ("F16", (8,)),
}
_ITEM_BYTES = {"F32": 4, "F16": 2, "BF16": 2}

Put = Callable[[Mapping[str, bytes]], list[FileEntry]]
Admit = Callable[..., Admission]


def weights(tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> bytes:
    """Made by hand, byte by byte, so that no library's leniency gets into the tests."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, (dtype, shape) in tensors.items():
        count = 1
        for dimension in shape:
            count *= dimension
        start = len(data)
        for number in range(count):
            value = struct.pack("<f", (number % 7 - 3) / 8)
            data += {
                "F32": value,
                "BF16": value[2:],
                "F16": struct.pack("<e", (number % 7 - 3) / 8),
            }[dtype]
        assert len(data) - start == count * _ITEM_BYTES[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, len(data)]}
    return join_weights(header, data)


@pytest.fixture(scope="session")
def model() -> Files:
    """The origin's files."""
    documents = {
        "config.json": {
            "architectures": ["Qwen3ForCausalLM"],
            "dtype": "float32",
            "eos_token_id": 2,
            "hidden_size": 8,
            "model_type": "qwen3",
            "rms_norm_eps": 1e-06,
            "transformers_version": "5.24.0",
        },
        "generation_config.json": {"eos_token_id": 2, "temperature": 0.7},
        "tokenizer_config.json": {"eos_token": "<|im_end|>", "model_max_length": 1024},
        "tokenizer.json": {"model": {"type": "BPE", "vocab": {"a": 0}}},
    }
    return {
        "model.safetensors": weights(TENSORS),
        "chat_template.jinja": b"{% for m in messages %}{{ m['content'] }}{% endfor %}",
        **{path: json.dumps(document).encode() for path, document in documents.items()},
    }


@pytest.fixture
def store(tmp_path: Path) -> DirectoryBlobStore:
    return DirectoryBlobStore(tmp_path / "store", min_free_bytes=0)


@pytest.fixture
def put(store: DirectoryBlobStore) -> Put:
    """Uploads files and lists them as a manifest does."""

    def upload(files: Mapping[str, bytes]) -> list[FileEntry]:
        for content in set(files.values()):
            store.put_bytes_sync(content)
        return [
            FileEntry(
                path=path, sha256=hashlib.sha256(content).hexdigest(), size_bytes=len(content)
            )
            for path, content in files.items()
        ]

    return upload


@pytest.fixture
def schema(put: Put, store: DirectoryBlobStore, model: Files) -> Schema:
    return stored_schema(put(model), store)


@pytest.fixture
def admit_files(put: Put, store: DirectoryBlobStore, schema: Schema) -> Admit:
    """Admits files in memory against the origin's schema."""

    def run(files: Mapping[str, bytes], **options: Any) -> Admission:
        if options.get("kind") == "lora":
            options = {"foundation": FOUNDATION, "expected_foundation": FOUNDATION} | options
        return admit(put(files), store, schema, **({"kind": "full"} | options))

    return run


@pytest.fixture
def foundation() -> str:
    return FOUNDATION
