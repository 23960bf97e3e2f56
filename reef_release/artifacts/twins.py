"""Good candidates of every form, made from one full model: what the attacks start from."""

from __future__ import annotations

import json

from reef_release.artifacts.file_rules import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    INDEX,
    SINGLE_WEIGHTS,
)
from reef_release.artifacts.safetensors_header import ITEM_BYTES
from reef_release.artifacts.spoiling import Files, Form, Header, join_weights, split_weights

__all__ = ["FIRST_SHARD", "LAST_SHARD", "sharded", "twin"]

FIRST_SHARD = "model-00001-of-00002.safetensors"
LAST_SHARD = "model-00002-of-00002.safetensors"
_RANK = 2


def twin(form: Form, files: Files, foundation: str) -> Files:
    """The good candidate of that form, from the files of a full model in `model.safetensors`.

    *foundation* is the release that an adapter names.
    """
    match form:
        case "single":
            return dict(files)
        case "sharded":
            return sharded(files)
        case "adapter":
            return _adapter(files, foundation)


def sharded(files: Files) -> Files:
    """The same model in two shards with an index."""
    header, data = split_weights(files[SINGLE_WEIGHTS])
    metadata = header.pop("__metadata__", {"format": "pt"})
    names = sorted(header, key=lambda name: header[name]["data_offsets"])
    middle = len(names) // 2
    parts = {FIRST_SHARD: names[:middle], LAST_SHARD: names[middle:]}
    result = {path: content for path, content in files.items() if path != SINGLE_WEIGHTS}
    for path, part in parts.items():
        first, last = header[part[0]]["data_offsets"][0], header[part[-1]]["data_offsets"][1]
        own: Header = {"__metadata__": metadata}
        for name in part:
            start, stop = header[name]["data_offsets"]
            own[name] = header[name] | {"data_offsets": [start - first, stop - first]}
        result[path] = join_weights(own, data[first:last])
    index = {
        "metadata": {"total_size": len(data)},
        "weight_map": {name: path for path, part in parts.items() for name in part},
    }
    return result | {INDEX: json.dumps(index).encode()}


def _adapter(files: Files, foundation: str) -> Files:
    """A LoRA adapter of rank 2 that changes nothing, on one linear layer of the model."""
    header, _ = split_weights(files[SINGLE_WEIGHTS])
    name = min(
        name
        for name, entry in header.items()
        if name.endswith("_proj.weight") and len(entry["shape"]) == 2
    )
    module = name.removesuffix(".weight")
    rows, columns = header[name]["shape"]
    own: Header = {"__metadata__": {"format": "pt"}}
    size_bytes = 0
    for part, shape in (("lora_A", [_RANK, columns]), ("lora_B", [rows, _RANK])):
        start, size_bytes = size_bytes, size_bytes + shape[0] * shape[1] * ITEM_BYTES["F32"]
        own[f"base_model.model.{module}.{part}.weight"] = {
            "dtype": "F32",
            "shape": shape,
            "data_offsets": [start, size_bytes],
        }
    config = {
        "base_model_name_or_path": foundation,
        "bias": "none",
        "lora_alpha": 4,
        "peft_type": "LORA",
        "r": _RANK,
        "target_modules": [module],
        "task_type": "CAUSAL_LM",
    }
    return {
        ADAPTER_CONFIG: json.dumps(config).encode(),
        ADAPTER_WEIGHTS: join_weights(own, bytes(size_bytes)),
    }
