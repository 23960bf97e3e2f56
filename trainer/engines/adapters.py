"""A LoRA adapter, merged into the model under it.

What always holds: the merged model computes in float32, so the merge rounds as little as it can;
every tensor of the adapter has a place in the model and every place that the adapter's
configuration opens has its tensor, or nothing is merged.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

__all__ = ["ADAPTER_CONFIG", "ADAPTER_WEIGHTS", "merge_adapter"]

ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"


def merge_adapter(model: Any, directory: Path, tensors: Mapping[str, torch.Tensor]) -> Any:
    """``model`` with the adapter of ``tensors`` in it; ``directory`` has the configuration.

    ``model`` is used up. Raises ``ValueError`` when the two do not fit or the result is not
    finite, and what peft raises.
    """
    # Two seconds that only adapters cost.
    from peft import LoraConfig, get_peft_model, set_peft_model_state_dict

    config = LoraConfig.from_pretrained(str(directory))
    if not isinstance(config, LoraConfig):
        raise ValueError("the adapter is no LoRA adapter")
    # It was compared with the foundation's id at admission; peft would compare it with a path.
    config.base_model_name_or_path = None
    with warnings.catch_warnings():
        # peft asks transformers for something under its older name.
        warnings.simplefilter("ignore", FutureWarning)
        adapted = get_peft_model(model.float(), config)
    result: Any = set_peft_model_state_dict(adapted, dict(tensors))
    wrong = {
        "missing": [name for name in result.missing_keys if ".lora_" in name],
        "unexpected": list(result.unexpected_keys),
    }
    if any(wrong.values()):
        raise ValueError(f"the adapter does not fit its foundation: {json.dumps(wrong)[:2000]}")
    return adapted.merge_and_unload(safe_merge=True)
