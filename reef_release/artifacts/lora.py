"""A LoRA adapter against the tensors of the model under it.

Only plain LoRA on linear layers is admitted: one rank, no bias, no replaced modules. What is
left out changes the model in ways that the shapes alone do not show, and serving engines
disagree about it. Source of the names and shapes: PEFT's checkpoint format
(`base_model.model.<module>.lora_A.weight` is [r, in], `lora_B.weight` is [out, r]).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from reef_release.artifacts.file_rules import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from reef_release.artifacts.findings import Findings, show
from reef_release.artifacts.safetensors_header import Tensor
from reef_release.artifacts.schema import TensorSpec

__all__ = ["check_adapter"]

_PREFIX = "base_model.model."
_PART = re.compile(r"(?P<module>.+)\.lora_(?P<side>[AB])\.weight")
_MAX_RANK = 4096
_DTYPES = frozenset({"F32", "F16", "BF16"})

# Fields that are checked by name below, and those that may have any value of their type:
# `use_rslora` only scales, the others are read by training and reports.
_CHECKED = frozenset(
    {"base_model_name_or_path", "bias", "init_lora_weights", "lora_alpha", "modules_to_save"}
    | {"peft_type", "r", "target_modules", "task_type"}
)
_INERT: dict[str, tuple[type, ...]] = {
    "inference_mode": (bool,),
    "lora_dropout": (int, float),
    "megatron_core": (str,),
    "peft_version": (str,),
    "qalora_group_size": (int,),
    "use_rslora": (bool,),
}


def check_adapter(
    config: Mapping[str, Any] | None,
    tensors: Mapping[str, Tensor],
    base: Mapping[str, TensorSpec],
    foundation: str | None,
    findings: Findings,
    *,
    is_complete: bool,
) -> None:
    """Check *config* (None when it could not be read) and *tensors* against the *base*.

    Codes: `wrong-foundation`, `lora-config`, `lora-unsupported`, `lora-rank`, `lora-target`,
    `lora-modules-to-save`, `lora-prefix`, `lora-unknown-tensor`, `lora-unknown-module`,
    `lora-missing-partner`, `lora-missing-module`, `lora-shape`, `lora-dtype`.
    """
    rank, targets = None, None
    if config is not None:
        rank, targets = _check_config(config, foundation, findings)
    modules = _modules(tensors, base, findings)
    for module, sides in modules.items():
        _check_module(module, sides, base, rank, findings, is_complete=is_complete)
    if targets is None:
        return
    for module in modules:
        if not any(_is_target(module, target) for target in targets):
            message = "target_modules does not name this module; name it or remove its tensors"
            findings.add("lora-unknown-module", message, module)
    linear = [
        name.removesuffix(".weight")
        for name, spec in base.items()
        if name.endswith(".weight") and len(spec["shape"]) == 2
    ]
    for target in sorted(targets):
        hit = [module for module in linear if _is_target(module, target)]
        if not hit:
            message = f"{show(target)!r} names no linear layer of the scenario's model; remove it"
            findings.add("lora-target", message, f"{ADAPTER_CONFIG}: target_modules")
        for module in hit:
            if is_complete and module not in modules:
                message = "target_modules names this module, but it has no tensors; add them"
                findings.add("lora-missing-module", message, module)


def _check_config(
    config: Mapping[str, Any], foundation: str | None, findings: Findings
) -> tuple[int | None, frozenset[str] | None]:
    """Check the adapter's configuration; its rank and target modules, where they are valid."""

    def refuse(code: str, field: str, message: str) -> None:
        findings.add(code, message, f"{ADAPTER_CONFIG}: {show(field)}")

    named = config.get("base_model_name_or_path")
    if named not in (None, "", foundation):
        message = f"names {show(named)!r}; name the foundation {foundation} or null"
        refuse("wrong-foundation", "base_model_name_or_path", message)
    if config.get("peft_type") != "LORA":
        refuse("lora-config", "peft_type", "only LORA is served")
    if config.get("task_type") not in (None, "CAUSAL_LM"):
        refuse("lora-config", "task_type", "only CAUSAL_LM is served")
    if config.get("modules_to_save"):
        message = "replaces whole modules of the model; submit full weights instead"
        refuse("lora-modules-to-save", "modules_to_save", message)
    if config.get("bias", "none") != "none":
        refuse("lora-unsupported", "bias", "biases are not served; train with 'none'")
    start = config.get("init_lora_weights", True)
    if not isinstance(start, bool) and start != "gaussian":
        message = "this initialisation changes the model under the adapter; use true"
        refuse("lora-unsupported", "init_lora_weights", message)
    for field, value in config.items():
        if value and field not in _CHECKED and field not in _INERT:
            message = f"is {show(value)}; only an empty or false value is served"
            refuse("lora-unsupported", field, message)
    for field, types in _INERT.items():
        if field in config and type(config[field]) not in types:
            refuse("lora-config", field, f"is {show(config[field])}, which has the wrong type")
    alpha = config.get("lora_alpha")
    if not isinstance(alpha, int | float) or isinstance(alpha, bool) or alpha <= 0:
        refuse("lora-config", "lora_alpha", "must be a positive number")
    rank = config.get("r")
    if type(rank) is not int or not 0 < rank <= _MAX_RANK:
        refuse("lora-rank", "r", f"must be a whole number from 1 to {_MAX_RANK}")
        rank = None
    targets = config.get("target_modules")
    if not isinstance(targets, list) or not targets or not all(map(_is_module_name, targets)):
        message = "must be a list of module names (patterns are not expanded here)"
        refuse("lora-target", "target_modules", message)
        return rank, None
    return rank, frozenset(targets)


def _modules(
    tensors: Mapping[str, Tensor], base: Mapping[str, TensorSpec], findings: Findings
) -> dict[str, dict[str, Tensor]]:
    """The adapter's tensors by the module that they change and the side that they are."""
    modules: dict[str, dict[str, Tensor]] = {}
    dtypes = set()
    for name, tensor in tensors.items():
        dtypes.add(tensor.dtype)
        if not name.startswith(_PREFIX):
            message = f"the name must begin with {_PREFIX!r}, or engines skip the tensor"
            findings.add("lora-prefix", message, name)
            continue
        part = _PART.fullmatch(name.removeprefix(_PREFIX))
        if part is None:
            message = "is neither a lora_A.weight nor a lora_B.weight; remove it"
            findings.add("lora-unknown-tensor", message, name)
        elif f"{part['module']}.weight" not in base:
            message = f"the scenario's model has no {show(part['module'])}.weight"
            findings.add("lora-unknown-module", f"{message}; remove the tensor", name)
        else:
            modules.setdefault(part["module"], {})[part["side"]] = tensor
    if len(dtypes) > 1 or not dtypes <= _DTYPES:
        message = f"dtypes are {sorted(dtypes)}; use one of {sorted(_DTYPES)} throughout"
        findings.add("lora-dtype", message, ADAPTER_WEIGHTS)
    return modules


def _check_module(
    module: str,
    sides: Mapping[str, Tensor],
    base: Mapping[str, TensorSpec],
    rank: int | None,
    findings: Findings,
    *,
    is_complete: bool,
) -> None:
    shape = base[f"{module}.weight"]["shape"]
    if len(shape) != 2:
        message = f"the weight of this module has shape {shape}; LoRA needs a matrix"
        findings.add("lora-shape", f"{message}: remove its tensors", module)
        return
    rows, columns = shape
    for side, tensor in sides.items():
        # Without a valid rank in the configuration, the adapter's own is taken for the shape.
        found = list(tensor.shape)
        ranks = found[:1] if side == "A" else found[-1:]
        own = rank or (ranks[0] if ranks else 0)
        expected = [own, columns] if side == "A" else [rows, own]
        if found != expected:
            message = f"has shape {found}; the rank and the module's weight ask for {expected}"
            findings.add("lora-shape", message, tensor.name)
    if is_complete:
        for side in sorted({"A", "B"} - sides.keys()):
            message = f"the module's lora_{side}.weight is missing; add it"
            findings.add("lora-missing-partner", message, module)


def _is_target(module: str, target: str) -> bool:
    return module == target or module.endswith(f".{target}")


def _is_module_name(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"\w+(?:\.\w+)*", value) is not None
