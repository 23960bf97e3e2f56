"""Weights that are trained on, and the candidate that comes of it.

What always holds: every tensor of the files has its place in the model and the other way round;
a candidate has the tensor names, dtypes, shapes and shards of the origin, and the origin's other
files byte for byte; of an adapter, the configuration does not depend on the process that wrote
it. No code from a directory is run.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from reef_release.artifacts.collector import collect
from reef_release.artifacts.file_rules import ADAPTER_CONFIG, ADAPTER_WEIGHTS, rule_for
from reef_release.domain.weights import candidate_id, digests_by_path
from reef_release.errors import Refused, SettingsError
from trainer.exhaustion import is_of_memory
from trainer.learning.settings import LoraSettings
from trainer.quiet import quiet_transformers

__all__ = [
    "load_policy",
    "load_tokenizer",
    "release_id",
    "rounds",
    "weight_digests",
    "write_adapter",
    "write_full",
]

_SUFFIX = ".safetensors"
_KEEP = "Give a complete, unaltered release."
_DEFAULT = "default"
"""What peft calls an adapter that nobody named."""
_LORA_FIELDS = {"r": "rank", "lora_alpha": "alpha", "target_modules": "targets"}
"""What peft calls the settings of an adapter."""


def load_policy(weights: Path, origin: Path, lora: LoraSettings | None) -> Any:
    """The model to train, in float32: all of it, or with `lora` an adapter on the origin.

    `weights` holds a full model, or an adapter. With `lora` and the origin itself as `weights`,
    the adapter is new and drawn from torch's generator. Raises `Refused`, and `SettingsError` when
    `lora` fits neither the model nor the adapter.
    """
    is_adapter = (weights / ADAPTER_CONFIG).exists()
    if lora is None:
        if is_adapter:
            raise Refused(
                f"{weights} is an adapter, and the settings train all parameters.",
                next_step="Give the settings a lora part.",
            )
        return _load_full(weights)
    if not is_adapter and weight_digests(weights) != weight_digests(origin):
        raise Refused(
            f"{weights} is neither an adapter nor the origin, and an adapter stands on that.",
            next_step="Start from the origin or from an adapter on it.",
        )
    return _load_adapter(weights if is_adapter else None, origin, lora)


def load_tokenizer(directory: Path) -> Any:
    """The tokenizer in `directory`."""
    return AutoTokenizer.from_pretrained(directory, trust_remote_code=False)


def weight_digests(directory: Path) -> dict[str, str]:
    """The sha256 of each weight file by its name."""
    digests = {}
    for path in sorted(directory.glob(f"*{_SUFFIX}")):
        with path.open("rb") as opened:
            digests[path.name] = hashlib.file_digest(opened, "sha256").hexdigest()
    return digests


def rounds(origin: Path) -> bool:
    """Whether files like the origin's hold less than the float32 that is trained."""
    return any(
        shard.get_slice(name).get_dtype() != "F32"
        for _, shard in _shards(origin)
        for name in shard.keys()  # noqa: SIM118 - it is no mapping
    )


def write_full(tensors: Mapping[str, torch.Tensor], origin: Path, out: Path) -> None:
    """Write a model's state dict in the form of the origin's files into `out`."""
    _copy_documents(origin, out)
    for name, shard in _shards(origin):
        wanted: dict[str, torch.Tensor] = {}
        for key in shard.keys():  # noqa: SIM118 - it is no mapping
            dtype = shard.get_tensor(key).dtype
            # A clone: tied tensors share memory, and files may not.
            wanted[key] = tensors[key].detach().to("cpu", dtype, copy=True).contiguous()
        save_file(wanted, out / name, metadata={"format": "pt"})


def write_adapter(model: Any, tensors: Mapping[str, torch.Tensor], origin: Path, out: Path) -> None:
    """Write the adapter of a model with the state dict `tensors` into `out`.

    It names the release id of the origin as its base.
    """
    from peft import get_peft_model_state_dict

    out.mkdir(parents=True)
    config = model.peft_config[_DEFAULT].to_dict()
    config["base_model_name_or_path"] = release_id(origin)
    config["inference_mode"] = True
    # Sets of strings have another order in each process.
    document = json.dumps(config, indent=2, sort_keys=True, default=_plain)
    (out / ADAPTER_CONFIG).write_text(document + "\n", "utf-8")
    found = get_peft_model_state_dict(model, dict(tensors), save_embedding_layers=False)
    save_file(
        {name: tensor.detach().cpu().contiguous() for name, tensor in found.items()},
        out / ADAPTER_WEIGHTS,
        metadata={"format": "pt"},
    )


def _plain(value: Any) -> Any:
    if isinstance(value, set | frozenset | tuple):
        return sorted(value)
    return str(getattr(value, "value", value))


def release_id(directory: Path) -> str:
    """The id that the files in `directory` have as a candidate or release."""
    return candidate_id(digests_by_path((file.path, file.sha256) for file in collect(directory)))


def _copy_documents(origin: Path, out: Path) -> None:
    out.mkdir(parents=True)
    for path in sorted(origin.iterdir()):
        rule = rule_for(path.name)
        if path.is_file() and rule is not None and rule.form not in ("weights", "card"):
            shutil.copyfile(path, out / path.name)


def _shards(directory: Path) -> Iterator[tuple[str, Any]]:
    for path in sorted(directory.glob(f"*{_SUFFIX}")):
        with safe_open(path, "pt") as shard:
            yield path.name, shard


def _load_full(directory: Path) -> Any:
    with quiet_transformers(), _as_refusal(directory):
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            directory,
            dtype=torch.float32,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
        )
        model, info = loaded
        wrong = {
            kind: sorted(map(str, info[kind]))
            for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")
            if info[kind]
        }
        if wrong:
            raise ValueError(f"tensors do not fit the configuration: {json.dumps(wrong)[:2000]}")
    return model


def _load_adapter(directory: Path | None, origin: Path, lora: LoraSettings) -> Any:
    # Two seconds that only adapters cost.
    from peft import LoraConfig, get_peft_model, set_peft_model_state_dict

    wanted = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,  # type: ignore[arg-type]  # a scale; fractions are fine
        target_modules=list(lora.targets),
        task_type="CAUSAL_LM",
    )
    model = _load_full(origin)
    with warnings.catch_warnings():
        # peft asks transformers for something under its older name.
        warnings.simplefilter("ignore", FutureWarning)
        try:
            adapted: Any = get_peft_model(model, wanted)
        except ValueError as error:
            raise SettingsError(
                f"No adapter can be put on the origin's lora.targets {list(lora.targets)}: {error}",
                next_step="Name layers that the origin has in training.lora.targets.",
            ) from error
    if directory is None:
        return adapted
    with _as_refusal(directory):
        found = LoraConfig.from_pretrained(str(directory))
        if found.use_rslora:
            raise ValueError("its scale is by the root of its rank, and no training makes that")
        for field, setting in _LORA_FIELDS.items():
            if getattr(found, field) != getattr(wanted, field):
                raise SettingsError(
                    f"training.lora.{setting} is {getattr(lora, setting)!r}; the adapter that is "
                    f"trained on has {_shown(getattr(found, field))}.",
                    next_step="Set it as it was when that was made, or train from the origin.",
                )
        result: Any = set_peft_model_state_dict(adapted, load_file(directory / ADAPTER_WEIGHTS))
        wrong = [name for name in result.missing_keys if ".lora_" in name]
        wrong += list(result.unexpected_keys)
        if wrong:
            raise ValueError(f"tensors do not fit the origin: {json.dumps(wrong)[:2000]}")
    return adapted


def _shown(value: Any) -> str:
    return repr(sorted(value)) if isinstance(value, set | frozenset) else repr(value)


@contextmanager
def _as_refusal(directory: Path) -> Iterator[None]:
    try:
        yield
    except (
        AttributeError,
        ImportError,
        KeyError,
        OSError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        if is_of_memory(error):
            raise
        raise Refused(f"{directory} makes no model: {error}.", next_step=_KEEP) from error
