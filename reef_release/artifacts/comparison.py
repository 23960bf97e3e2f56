"""A candidate against the scenario's schema: tensors exactly, files up to what is allowed.

Nothing is ignored but bookkeeping, which no library computes with: the keys
`transformers_version` and `_name_or_path`, and the older name `torch_dtype` of `dtype`, whose
value still has to be the same. A chat template or an end-of-text token counts by what it is,
wherever it is written, because it changes what the same weights say.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Set
from typing import Any, NamedTuple

from reef_release.artifacts.file_rules import Allowance, FileRule, rule_for
from reef_release.artifacts.findings import Findings, show
from reef_release.artifacts.inspection import Inspection
from reef_release.artifacts.safetensors_header import Tensor
from reef_release.artifacts.schema import Schema, TensorSpec
from reef_release.artifacts.strict_json import is_same

__all__ = ["compare_files", "compare_tensors"]

_BOOKKEEPING = frozenset({"transformers_version", "_name_or_path"})
_END_TOKENS = frozenset({"eos_token", "eos_token_id"})
_CODES: dict[Allowance, str] = {
    "chat_template": "chat-template-changed",
    "config": "config-changed",
    "generation_config": "generation-config-changed",
    "tokenizer": "tokenizer-changed",
}
_REMOVABLE: frozenset[Allowance] = frozenset({"chat_template", "generation_config"})
"""Files without which a model still loads; an allowed change of the others is no removal."""
_ABSENT = object()


class Difference(NamedTuple):
    """One key of a document that is not as the schema has it."""

    path: tuple[str, ...]
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"is {_value(self.after)} and was {_value(self.before)}"


def compare_tensors(
    tensors: Mapping[str, Tensor],
    expected: Mapping[str, TensorSpec],
    findings: Findings,
    *,
    is_complete: bool,
) -> None:
    """Every tensor of the schema with its dtype and shape, and no other.

    Codes: `unknown-tensor`, `missing-tensor` (only when all files could be read),
    `dtype-mismatch`, `shape-mismatch`.
    """
    for name, tensor in tensors.items():
        spec = expected.get(name)
        if spec is None:
            message = "the scenario's model has no such tensor; rename or remove it"
            findings.add("unknown-tensor", message, name)
            continue
        if tensor.dtype != spec["dtype"]:
            message = f"is {tensor.dtype}; the scenario's model has {spec['dtype']}: convert it"
            findings.add("dtype-mismatch", message, name)
        if list(tensor.shape) != spec["shape"]:
            message = f"has shape {list(tensor.shape)}; {spec['shape']} is needed"
            findings.add("shape-mismatch", message, name)
    if is_complete:
        for name in expected:
            if name not in tensors:
                message = "the scenario's model has this tensor; add it"
                findings.add("missing-tensor", message, name)


def compare_files(
    inspection: Inspection, schema: Schema, allowed: Set[str], findings: Findings, *, needed: bool
) -> None:
    """Every other file as the schema has it, unless its kind of change is allowed.

    With *needed*, files that the schema has must be there (an adapter may leave them out).
    Codes: `missing-file`, `chat-template-changed`, `tokenizer-changed`, `config-changed`,
    `generation-config-changed`, `eos-token-changed`.
    """
    for path, digest in inspection.digests.items():
        rule = rule_for(path)
        if rule is not None and digest != schema["files"].get(path):
            _compare(path, rule, inspection, schema, allowed, findings)
    if not needed:
        return
    for path in schema["files"]:
        rule = rule_for(path)
        removable = rule is not None and rule.allowance in allowed & _REMOVABLE
        if path not in inspection.digests and not removable:
            findings.add("missing-file", "the scenario's model has this file; add it", path)


def _compare(
    path: str,
    rule: FileRule,
    inspection: Inspection,
    schema: Schema,
    allowed: Set[str],
    findings: Findings,
) -> None:
    allowance = rule.allowance
    if allowance is None:
        return
    if rule.form != "document":
        if allowance not in allowed:
            how = "differs from" if path in schema["files"] else "is not among"
            message = f"the file {how} the scenario's files; {_advice(allowance)}"
            findings.add(_CODES[allowance], message, path)
        return
    document = inspection.documents.get(path)
    if document is None:
        return
    before = _settled(schema["documents"].get(path, {}))
    for difference in _differences(before, _settled(document), ()):
        covered: Allowance = "chat_template" if difference.path[0] == "chat_template" else allowance
        if covered not in allowed:
            is_end = not _END_TOKENS.isdisjoint(difference.path)
            code = "eos-token-changed" if is_end else _CODES[covered]
            where = f"{path}: {show('.'.join(difference.path))}"
            findings.add(code, f"{difference}; {_advice(covered)}", where)


def _advice(allowance: Allowance) -> str:
    return f"restore it, or ask for a policy that allows a change of {allowance}"


def _settled(document: Any) -> Any:
    """The document without bookkeeping."""
    if not isinstance(document, dict):
        return document
    result = {key: _settled(value) for key, value in document.items() if key not in _BOOKKEEPING}
    if "torch_dtype" in result and is_same(
        result.get("dtype", result["torch_dtype"]), result["torch_dtype"]
    ):
        result["dtype"] = result.pop("torch_dtype")
    return result


def _differences(
    before: Mapping[str, Any], after: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[Difference]:
    for key in [*before, *(key for key in after if key not in before)]:
        old, new = before.get(key, _ABSENT), after.get(key, _ABSENT)
        # An object that came or went is reported by its keys, so that an end-of-text token in it
        # is seen.
        old, new = ({} if _came(old, new) else old), ({} if _came(new, old) else new)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _differences(old, new, (*path, key))
        elif old is _ABSENT or new is _ABSENT or not is_same(old, new):
            yield Difference((*path, key), old, new)


def _came(before: Any, after: Any) -> bool:
    return before is _ABSENT and isinstance(after, dict) and bool(after)


def _value(value: Any) -> str:
    return "absent" if value is _ABSENT else show(json.dumps(value, ensure_ascii=False))
