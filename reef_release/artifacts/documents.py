"""Reads the small files of a candidate: configuration, tokenizer, templates, cards.

Each has a form and a length by its name (`file_rules`), and none may be an archive, a pickle
or code under a harmless name. Configuration that makes a library fetch or run code is refused
wherever in the document it stands.
"""

from __future__ import annotations

from typing import Any

import msgspec

from reef_release.artifacts import strict_json
from reef_release.artifacts.content import SNIFF_BYTES, sniff
from reef_release.artifacts.file_rules import FileRule
from reef_release.artifacts.findings import Findings, show

__all__ = ["read_document"]

_MAPS = frozenset({"auto_map", "auto_mapping"})
_REMOTE = frozenset({"custom_generate", "custom_pipelines", "trust_remote_code"})
_ATTENTION = frozenset(
    {"_attn_implementation", "_attn_implementation_internal", "attn_implementation"}
)
_CONTROLS = frozenset(map(chr, range(32))) - frozenset("\t\n\r\f")


def read_document(path: str, rule: FileRule, raw: bytes, findings: Findings) -> Any | None:
    """The JSON object in *raw* where the rule wants one; None for every other form.

    Codes: those of `sniff` and `strict_json.parse`, `bad-json`, `bad-text`, `auto-map`,
    `remote-code`.
    """
    content = sniff(raw[:SNIFF_BYTES])
    if content is not None:
        findings.add(content.code, f"the file is {content.what}; leave it out", path)
        return None
    if rule.form in ("document", "index"):
        value = strict_json.parse(raw, path, findings)
        if value is not None and not isinstance(value, dict):
            findings.add("bad-json", "the file must hold a JSON object", path)
            return None
        _check_code(value, path, "", findings)
        return value
    if rule.form == "json":
        _check_json(path, raw, findings)
    elif rule.form in ("text", "card"):
        _check_text(path, raw, findings)
    return None


def _check_json(path: str, raw: bytes, findings: Findings) -> None:
    # Tokenizers are tens of megabytes: their syntax is checked without building the values.
    try:
        raw.decode("utf-8")
        msgspec.json.decode(raw, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        findings.add("bad-json", f"this is not JSON: {show(error)}; write it again", path)


def _check_text(path: str, raw: bytes, findings: Findings) -> None:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        findings.add("bad-text", f"this is not UTF-8: {show(error)}; write it again", path)
        return
    if not _CONTROLS.isdisjoint(text):
        findings.add("bad-text", "the text has control characters; remove them", path)


def _check_code(value: Any, path: str, place: str, findings: Findings) -> None:
    if isinstance(value, list):
        for item in value:
            _check_code(item, path, place, findings)
        return
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        inside = f"{place}.{key}" if place else key
        where = f"{path}: {show(inside)}"
        # Libraries write these keys with null where there is nothing to import.
        if item is None:
            continue
        if key in _MAPS:
            message = "names classes that a library would import from the files or a hub"
            findings.add("auto-map", f"{message}; remove it", where)
        elif key in _REMOTE:
            findings.add("remote-code", "asks a library to run code; remove it", where)
        elif key in _ATTENTION and "/" in str(item):
            message = "names a kernel that a library would download and run"
            findings.add("remote-code", f"{message}; use a built-in one", where)
        _check_code(item, path, inside, findings)
