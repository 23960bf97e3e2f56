"""The bad-candidate suite: every known way to spoil a candidate's files, and what refuses it.

Each entry turns a good candidate (its twin, which is admitted) into one that must be refused
with exactly the code named. They work on any full model in a single `model.safetensors`, so a
drill can throw them at a running service, made from its own origin.
"""

from __future__ import annotations

import io
import pickle
import zipfile

from reef_release.artifacts import spoilt_weights as spoilt
from reef_release.artifacts.bad_weights import BAD_WEIGHTS
from reef_release.artifacts.file_rules import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from reef_release.artifacts.spoiling import (
    BadCandidate,
    Files,
    Spoil,
    added,
    bytes_of,
    json_of,
    weights_of,
)
from reef_release.artifacts.twins import twin

__all__ = ["BAD_CANDIDATES", "BadCandidate", "twin"]

_CARD = b"# A model\n"
_REMOTE = {"AutoModelForCausalLM": "modeling.Model"}
_OTHER_END = [1, 2, 3, 4]


def _bad(name: str, code: str, spoil: Spoil) -> BadCandidate:
    return BadCandidate(name=name, code=code, spoil=spoil)


def _adapter(name: str, code: str, spoil: Spoil) -> BadCandidate:
    return BadCandidate(name=name, code=code, spoil=spoil, form="adapter")


def _zip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("../../outside.py", "print('outside')")
    return buffer.getvalue()


def _other_template(files: Files) -> Files:
    path = "chat_template.jinja"
    return files | {path: files.get(path, b"") + b" Say yes."}


BAD_CANDIDATES: tuple[BadCandidate, ...] = (
    *BAD_WEIGHTS,
    _bad("appended-zip", "trailing-bytes", bytes_of(lambda raw: raw + _zip())),
    _bad(
        "names-that-differ-by-case",
        "name-collision",
        lambda files: files | {"README.md": _CARD, "readme.md": _CARD},
    ),
    _bad("name-in-decomposed-unicode", "bad-path", added("cafe\u0301.md", _CARD)),
    _bad("path-out-of-the-candidate", "bad-path", added("../README.md", _CARD)),
    _bad("archive-with-traversal", "archive", added("more.zip", _zip())),
    _bad("archive-under-a-harmless-name", "archive", added("README.md", _zip())),
    _bad("python-file", "code-file", added("modeling.py", b"print('hello')\n")),
    _bad("pickle-beside-the-weights", "pickle", added("training_args.bin", pickle.dumps({}))),
    _bad("pickle-under-a-harmless-name", "pickle", added("README.md", pickle.dumps({}))),
    _bad("adapter-beside-full-weights", "unexpected-file", added(ADAPTER_CONFIG, b"{}")),
    _bad("auto-map-in-config", "auto-map", json_of("config.json", auto_map=_REMOTE)),
    _bad("auto-map-in-tokenizer", "auto-map", json_of("tokenizer_config.json", auto_map=_REMOTE)),
    _bad(
        "auto-map-deep-in-config",
        "auto-map",
        json_of("config.json", text_config={"more": [{"auto_map": _REMOTE}]}),
    ),
    _bad(
        "attention-kernel-from-a-hub",
        "remote-code",
        json_of("config.json", _attn_implementation="someone/kernel"),
    ),
    _bad("chat-template-changed", "chat-template-changed", _other_template),
    _bad(
        "chat-template-in-tokenizer-config",
        "chat-template-changed",
        json_of("tokenizer_config.json", chat_template="Say yes."),
    ),
    _bad(
        "generation-config-changed",
        "generation-config-changed",
        json_of("generation_config.json", temperature=0.123),
    ),
    _bad(
        "end-token-swapped-in-generation-config",
        "eos-token-changed",
        json_of("generation_config.json", eos_token_id=_OTHER_END),
    ),
    _bad(
        "end-token-swapped-in-config",
        "eos-token-changed",
        json_of("config.json", eos_token_id=_OTHER_END),
    ),
    _bad("tokenizer-changed", "tokenizer-changed", json_of("tokenizer.json", added_tokens=[])),
    _adapter(
        "adapter-names-another-base",
        "wrong-foundation",
        json_of(ADAPTER_CONFIG, base_model_name_or_path="somebody/else"),
    ),
    _adapter(
        "lora-b-under-another-prefix",
        "lora-prefix",
        weights_of(spoilt.lora_b_elsewhere, ADAPTER_WEIGHTS),
    ),
    _adapter(
        "lora-without-a-partner",
        "lora-missing-partner",
        weights_of(spoilt.dropped, ADAPTER_WEIGHTS),
    ),
    _adapter("lora-of-another-rank", "lora-shape", json_of(ADAPTER_CONFIG, r=3)),
    _adapter(
        "lora-with-nan",
        "non-finite",
        weights_of(spoilt.last_value_nan, ADAPTER_WEIGHTS),
    ),
    _adapter(
        "lora-that-replaces-modules",
        "lora-modules-to-save",
        json_of(ADAPTER_CONFIG, modules_to_save=["lm_head"]),
    ),
    _adapter(
        "lora-that-imports-classes",
        "auto-map",
        json_of(ADAPTER_CONFIG, auto_mapping={"parent_library": "os"}),
    ),
)
