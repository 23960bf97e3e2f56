"""A LoRA adapter as peft writes it, on the shipped models."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from trainer.quiet import quiet_transformers

__all__ = ["make_adapter"]


def make_adapter(
    foundation: Path, out: Path, *, size: float = 0.01, named: str | None = None
) -> Any:
    """Write an adapter of rank 4 on two kinds of modules into *out*; returns the adapted model.

    Its matrices are random with standard deviation *size*; *named* is the base that it names.
    """
    with quiet_transformers():
        model: Any = AutoModelForCausalLM.from_pretrained(foundation)
    config = LoraConfig(
        r=4, lora_alpha=8, target_modules=["q_proj", "down_proj"], task_type="CAUSAL_LM"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft uses an older name of transformers
        adapted = get_peft_model(model, config)
    generator = torch.Generator().manual_seed(0)
    for name, parameter in adapted.named_parameters():
        if ".lora_" in name:
            parameter.data = torch.randn(parameter.shape, generator=generator) * size
    adapted.save_pretrained(out)
    (out / "README.md").unlink()
    path = out / "adapter_config.json"
    document = json.loads(path.read_text()) | {"base_model_name_or_path": named}
    path.write_text(json.dumps(document))
    return adapted.eval()
