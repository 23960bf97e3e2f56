"""Which files a candidate may consist of, by name; everything not listed is refused.

A candidate is flat: no directories. Names are plain ASCII, and no two of them are one name on
a file system that ignores case or Unicode form. `README.md`, `LICENSE` and `NOTICE` are
admitted as text that nothing reads: tools write model cards unasked.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from reef_release.artifacts.content import by_name
from reef_release.artifacts.findings import Findings, show
from reef_release.domain.events import FileEntry

__all__ = [
    "ADAPTER_CONFIG",
    "ADAPTER_WEIGHTS",
    "INDEX",
    "SINGLE_WEIGHTS",
    "Allowance",
    "FileRule",
    "Form",
    "Kind",
    "check_collisions",
    "check_names",
    "check_path",
    "rule_for",
]

Kind = Literal["full", "lora"]
Allowance = Literal["chat_template", "config", "generation_config", "tokenizer"]
Form = Literal["weights", "index", "document", "json", "text", "binary", "card"]

SINGLE_WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"
ADAPTER_CONFIG = "adapter_config.json"

_MAX_FILES = 1_000
_MAX_NAME = 128
_MAX_WEIGHTS_BYTES = 1024**4
_KIB, _MIB = 1024, 1024**2
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?")


class FileRule(msgspec.Struct, frozen=True, kw_only=True):
    """What is expected of the file of one name."""

    form: Form
    """`document`: JSON, compared key by key; `json`, `text`, `binary`: compared by digest;
    `card`: not compared."""
    max_bytes: int
    allowance: Allowance | None = None
    """The allowed change that covers a difference from the schema."""
    kinds: frozenset[str] = frozenset({"full", "lora"})


_FULL, _LORA = frozenset({"full"}), frozenset({"lora"})
_TOKENIZER_DOCUMENT = FileRule(form="document", max_bytes=2 * _MIB, allowance="tokenizer")
_TOKENIZER_JSON = FileRule(form="json", max_bytes=64 * _MIB, allowance="tokenizer")
_TOKENIZER_TEXT = FileRule(form="text", max_bytes=64 * _MIB, allowance="tokenizer")
_TOKENIZER_BINARY = FileRule(form="binary", max_bytes=64 * _MIB, allowance="tokenizer")
_CARD = FileRule(form="card", max_bytes=_MIB)

_RULES: dict[str, FileRule] = {
    "config.json": FileRule(form="document", max_bytes=_MIB, allowance="config"),
    "generation_config.json": FileRule(
        form="document", max_bytes=256 * _KIB, allowance="generation_config"
    ),
    "tokenizer_config.json": _TOKENIZER_DOCUMENT,
    "special_tokens_map.json": _TOKENIZER_DOCUMENT,
    "added_tokens.json": _TOKENIZER_DOCUMENT,
    "preprocessor_config.json": _TOKENIZER_DOCUMENT,
    "processor_config.json": _TOKENIZER_DOCUMENT,
    "video_preprocessor_config.json": _TOKENIZER_DOCUMENT,
    "tokenizer.json": _TOKENIZER_JSON,
    "vocab.json": _TOKENIZER_JSON,
    "merges.txt": _TOKENIZER_TEXT,
    "vocab.txt": _TOKENIZER_TEXT,
    "tokenizer.model": _TOKENIZER_BINARY,
    "chat_template.jinja": FileRule(form="text", max_bytes=_MIB, allowance="chat_template"),
    "chat_template.json": FileRule(form="json", max_bytes=_MIB, allowance="chat_template"),
    INDEX: FileRule(form="index", max_bytes=16 * _MIB, kinds=_FULL),
    ADAPTER_CONFIG: FileRule(form="document", max_bytes=_MIB, kinds=_LORA),
    ADAPTER_WEIGHTS: FileRule(form="weights", max_bytes=_MAX_WEIGHTS_BYTES, kinds=_LORA),
    "README.md": _CARD,
    "LICENSE": _CARD,
    "NOTICE": _CARD,
}
_WEIGHTS = FileRule(form="weights", max_bytes=_MAX_WEIGHTS_BYTES, kinds=_FULL)


def rule_for(path: str) -> FileRule | None:
    """The rule of the file of that name, or None when no such file may be in a candidate."""
    rule = _RULES.get(path)
    if rule is None and path.endswith(".safetensors"):
        return _WEIGHTS
    return rule


def check_path(path: str, findings: Findings) -> bool:
    """Whether *path* is a plain file name; if not, one `bad-path` says why."""
    reason = _path_fault(path)
    if reason is not None:
        findings.add("bad-path", f"{reason}; rename the file", path)
    return reason is None


def check_names(files: Sequence[FileEntry], kind: Kind, findings: Findings) -> list[FileEntry]:
    """The files whose names and lengths are in order, which alone are looked into.

    Codes: `too-many-files`, `bad-path`, `name-collision`, `archive`, `pickle`, `code-file`,
    `unknown-file`, `unexpected-file`, `file-too-large`.
    """
    if len(files) > _MAX_FILES:
        message = f"there are {len(files)} files; a candidate has at most {_MAX_FILES}"
        findings.add("too-many-files", message)
        return []
    check_collisions((file.path for file in files), findings)
    return [
        file
        for file in files
        if check_path(file.path, findings) and _check_rule(file, kind, findings)
    ]


def check_collisions(paths: Iterable[str], findings: Findings) -> None:
    """Find names that are one on some file system: `name-collision`."""
    first: dict[str, str] = {}
    for path in paths:
        key = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", path).casefold())
        if key in first:
            message = (
                "the file is listed twice"
                if first[key] == path
                else f"differs from {show(first[key])!r} only by case or Unicode form"
            )
            findings.add("name-collision", f"{message}; keep one", path)
        first.setdefault(key, path)


def _check_rule(file: FileEntry, kind: Kind, findings: Findings) -> bool:
    rule = rule_for(file.path)
    if rule is None:
        content = by_name(file.path)
        if content is not None:
            findings.add(content.code, f"the file is {content.what}; leave it out", file.path)
        else:
            message = "no file of that name belongs to a model; leave it out"
            findings.add("unknown-file", message, file.path)
        return False
    if kind not in rule.kinds:
        other = "a LoRA adapter" if kind == "lora" else "a full model"
        findings.add("unexpected-file", f"{other} has no such file; leave it out", file.path)
        return False
    if not 0 <= file.size_bytes <= rule.max_bytes:
        message = f"the file has {file.size_bytes} bytes; such a file may have {rule.max_bytes}"
        findings.add("file-too-large", message, file.path)
        return False
    return True


def _path_fault(path: str) -> str | None:
    if not path or len(path) > _MAX_NAME:
        return f"a file's name has 1 to {_MAX_NAME} characters"
    if any(unicodedata.category(character)[0] == "C" for character in path):
        return "the name has control or invisible characters"
    if "\\" in path:
        return "the name has a backslash"
    if path.startswith("/"):
        return "the path is absolute"
    if ".." in path.split("/"):
        return "the path leads out of the candidate"
    if "/" in path:
        return "a candidate has no directories"
    if path != unicodedata.normalize("NFC", path):
        return "the name is not in Unicode's composed form (NFC)"
    if not _NAME.fullmatch(path):
        return "a name has letters, digits, '_', '-' and dots, none of them first or last"
    return None
