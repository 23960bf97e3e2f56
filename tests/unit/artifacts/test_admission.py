"""The rules of admission beyond the attacks: what may differ, and what the schema records."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reef_release.artifacts.admission import Admission, admit
from reef_release.artifacts.directory_store import DirectoryBlobStore
from reef_release.artifacts.errors import BlobCorrupt
from reef_release.artifacts.file_rules import check_names
from reef_release.artifacts.findings import Findings
from reef_release.artifacts.schema import Schema, parse_schema, schema_bytes, stored_schema
from reef_release.artifacts.spoiling import Files, added, join_weights, json_of
from reef_release.artifacts.twins import LAST_SHARD, twin
from reef_release.domain.events import FileEntry
from reef_release.domain.weights import parse_statement, weights_statement
from reef_release.errors import BadRequest, Refused

Admit = Callable[..., Admission]
Put = Callable[[Mapping[str, bytes]], list[FileEntry]]


def codes(admission: Admission) -> set[str]:
    return {reason.code for reason in admission.reasons}


def without(files: Files, path: str) -> Files:
    return {name: content for name, content in files.items() if name != path}


# What an admission says


def test_an_admission_counts_tensors_and_bytes(admit_files: Admit, model: Files) -> None:
    found = admit_files(model)
    assert found.admitted
    assert found.tensor_count == 6
    assert found.size_bytes == sum(map(len, model.values()))


def test_the_same_model_in_shards_is_the_same_model(
    admit_files: Admit, model: Files, foundation: str
) -> None:
    sharded = twin("sharded", model, foundation)
    assert len([path for path in sharded if path.endswith(".safetensors")]) == 2
    found = admit_files(sharded)
    assert found.admitted
    assert found.tensor_count == 6


def test_a_candidate_without_any_file_says_all_that_is_missing(admit_files: Admit) -> None:
    found = admit_files({})
    assert {"no-weights", "missing-file", "missing-tensor"} <= codes(found)


def test_a_file_that_was_not_uploaded_is_named(
    store: DirectoryBlobStore, put: Put, model: Files, schema: Schema
) -> None:
    files = put(model)
    store.erase_sync(files[0].sha256)
    found = admit(files, store, schema, kind="full")
    assert [(reason.code, reason.where) for reason in found.reasons] == [
        ("missing-blob", files[0].path)
    ]


def test_a_wrong_length_in_the_manifest_is_named(
    store: DirectoryBlobStore, put: Put, model: Files, schema: Schema
) -> None:
    files = [
        FileEntry(path=file.path, sha256=file.sha256, size_bytes=file.size_bytes + 1)
        for file in put(model)
    ]
    assert codes(admit(files, store, schema, kind="full")) == {"size-mismatch"}


def test_a_damaged_blob_is_the_stores_fault_and_not_the_candidates(
    store: DirectoryBlobStore, put: Put, model: Files, schema: Schema
) -> None:
    files = put(model)
    [file] = [file for file in files if file.path == "model.safetensors"]
    path = store.root / "blobs" / file.sha256[:2] / file.sha256[2:]
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(BlobCorrupt):
        admit(files, store, schema, kind="full")


def test_a_tensor_in_two_shards_is_refused(
    admit_files: Admit, model: Files, foundation: str
) -> None:
    files = twin("sharded", model, foundation)
    both = files | {"model-00001-of-00002.safetensors": files[LAST_SHARD]}
    assert {"duplicate-tensor", "index-mismatch", "missing-tensor"} <= codes(admit_files(both))


def test_shards_without_an_index_and_a_single_file_of_another_name_are_refused(
    admit_files: Admit, model: Files, foundation: str
) -> None:
    files = twin("sharded", model, foundation)
    assert codes(admit_files(without(files, "model.safetensors.index.json"))) == {"index-missing"}
    renamed = without(model, "model.safetensors") | {
        "weights.safetensors": model["model.safetensors"]
    }
    assert codes(admit_files(renamed)) == {"index-missing"}


def test_two_forms_of_the_weights_side_by_side_are_refused(
    admit_files: Admit, model: Files, foundation: str
) -> None:
    both = twin("sharded", model, foundation) | model
    assert {"duplicate-tensor", "index-mismatch"} <= codes(admit_files(both))


def test_a_header_that_cannot_be_read_does_not_make_every_tensor_missing(
    admit_files: Admit, model: Files
) -> None:
    found = admit_files(model | {"model.safetensors": b"\xff" * 100})
    assert codes(found) == {"header-too-long"}


def test_a_hundred_wrong_tensors_are_counted_and_not_listed(
    admit_files: Admit, model: Files
) -> None:
    entry = {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}
    weights = join_weights({f"t{number}": entry for number in range(100)}, b"")
    found = admit_files(model | {"model.safetensors": weights})
    assert len([reason for reason in found.reasons if reason.code == "unknown-tensor"]) == 21
    assert "unknown-tensor: and 80 more of this kind" in map(str, found.reasons)


@pytest.mark.parametrize(
    ("path", "content", "code"),
    [
        ("config.json", b"[]", "bad-json"),
        ("config.json", b'{"a": 1, "a": 2}', "duplicate-key"),
        ("config.json", b'{"a":' * 100, "json-too-deep"),
        ("config.json", b" " * (1024**2 + 1), "file-too-large"),
        ("tokenizer.json", b"[" * 100_000, "bad-json"),
        ("tokenizer.json", b'{"a": "\xff"}', "bad-json"),
        ("chat_template.jinja", b"\xff\xfe", "bad-text"),
        ("README.md", b"a\0b", "bad-text"),
        ("model.gguf", b"GGUF", "unknown-file"),
        ("README.md", b"#!/bin/sh\n", "code-file"),
        ("README.md", b"\x7fELF", "code-file"),
        ("README.md", bytes(257) + b"ustar", "archive"),
        ("PICKLE.PKL", b"", "pickle"),
        ("more.tar.gz", b"", "archive"),
        ("sub/config.json", b"{}", "bad-path"),
        ("C:\\config.json", b"{}", "bad-path"),
        ("/config.json", b"{}", "bad-path"),
        ("tokenizer_config.json", b'{"trust_remote_code": false}', "remote-code"),
        ("config.json", b'{"custom_pipelines": {}}', "remote-code"),
        ("adapter_model.safetensors", b"", "unexpected-file"),
    ],
)
def test_other_files_are_refused_by_name_form_and_content(
    admit_files: Admit, model: Files, path: str, content: bytes, code: str
) -> None:
    assert code in codes(admit_files(model | {path: content}))


@pytest.mark.parametrize("path", ["README.md", "LICENSE", "NOTICE"])
def test_a_model_card_is_no_difference(admit_files: Admit, model: Files, path: str) -> None:
    assert admit_files(model | {path: "# größe\n".encode()}).admitted


def test_a_thousand_and_one_files_are_too_many(admit_files: Admit, model: Files) -> None:
    many = {f"shard-{number}.safetensors": b"" for number in range(1001)}
    assert "too-many-files" in codes(admit_files(model | many))


@given(names=st.lists(st.text(max_size=12) | st.sampled_from(["a.safetensors", "LICENSE"])))
def test_whatever_names_pass_can_stand_in_a_weights_statement(names: list[str]) -> None:
    findings = Findings()
    files = [FileEntry(path=name, sha256="0" * 64, size_bytes=1) for name in names]
    passed = check_names(files, "full", findings)
    assert len(passed) + len(findings) >= len(names)
    if passed and not findings:
        assert parse_statement(weights_statement({file.path: file.sha256 for file in passed}))


# Changes

CHANGES: dict[str, tuple[str, Callable[[Files], Files]]] = {
    "chat-template-changed": ("chat_template", added("chat_template.jinja", b"{{ 1 }}")),
    "tokenizer-changed": ("tokenizer", json_of("tokenizer_config.json", model_max_length=7)),
    "generation-config-changed": (
        "generation_config",
        json_of("generation_config.json", temperature=2),
    ),
    "config-changed": ("config", json_of("config.json", rms_norm_eps=1e-05)),
}


@pytest.mark.parametrize("code", CHANGES)
def test_a_change_needs_its_own_allowance(admit_files: Admit, model: Files, code: str) -> None:
    allowance, change = CHANGES[code]
    changed = change(dict(model))
    others = {name for name, _ in CHANGES.values()} - {allowance}
    assert codes(admit_files(changed)) == {code}
    assert codes(admit_files(changed, allowed_changes=others)) == {code}
    assert admit_files(changed, allowed_changes={allowance}).admitted


@pytest.mark.parametrize(
    ("path", "change", "allowance"),
    [
        ("config.json", {"eos_token_id": 3}, "config"),
        ("generation_config.json", {"eos_token_id": [2, 3]}, "generation_config"),
        ("tokenizer_config.json", {"eos_token": "<|endoftext|>"}, "tokenizer"),
        ("special_tokens_map.json", {"eos_token": {"content": "x"}}, "tokenizer"),
        ("config.json", {"text_config": {"eos_token_id": 3}}, "config"),
    ],
)
def test_another_end_token_is_called_that_wherever_it_stands(
    admit_files: Admit, model: Files, path: str, change: dict[str, Any], allowance: str
) -> None:
    changed = json_of(path, **change)(dict(model))
    assert codes(admit_files(changed)) == {"eos-token-changed"}
    assert admit_files(changed, allowed_changes={allowance}).admitted


def test_a_chat_template_in_the_tokenizers_configuration_needs_the_template_allowance(
    admit_files: Admit, model: Files
) -> None:
    changed = json_of("tokenizer_config.json", chat_template="{{ 1 }}")(dict(model))
    assert codes(admit_files(changed, allowed_changes={"tokenizer"})) == {"chat-template-changed"}
    assert admit_files(changed, allowed_changes={"chat_template"}).admitted


def test_every_key_that_differs_is_named_with_both_values(admit_files: Admit, model: Files) -> None:
    config = json.loads(model["config.json"]) | {"rope": {"theta": 7}, "hidden_size": True}
    del config["rms_norm_eps"]
    found = admit_files(model | {"config.json": json.dumps(config).encode()})
    said = {reason.where: reason.message for reason in found.reasons}
    assert said.keys() == {
        "config.json: rope.theta",
        "config.json: hidden_size",
        "config.json: rms_norm_eps",
    }
    assert said["config.json: hidden_size"].startswith("is true and was 8;")
    assert said["config.json: rms_norm_eps"].startswith("is absent and was 1e-06;")


def test_bookkeeping_and_the_layout_of_a_document_are_no_difference(
    admit_files: Admit, model: Files
) -> None:
    config = json.loads(model["config.json"])
    config |= {"transformers_version": "9.9", "_name_or_path": "/somewhere", "hidden_size": 8.0}
    config["torch_dtype"] = config.pop("dtype")
    text = json.dumps(dict(reversed(config.items())), indent=4)
    assert admit_files(model | {"config.json": text.encode()}).admitted


@pytest.mark.parametrize(
    "changes", [{"dtype": "float16"}, {"torch_dtype": "float16"}, {"dtype": None}]
)
def test_another_dtype_is_a_difference_under_either_name(
    admit_files: Admit, model: Files, changes: dict[str, Any]
) -> None:
    assert codes(admit_files(json_of("config.json", **changes)(dict(model)))) == {"config-changed"}


@pytest.mark.parametrize("path", ["tokenizer.json", "tokenizer_config.json", "config.json"])
def test_a_file_that_a_model_needs_is_missed_whatever_is_allowed(
    admit_files: Admit, model: Files, path: str
) -> None:
    allowed = {"chat_template", "config", "generation_config", "tokenizer"}
    assert codes(admit_files(without(model, path), allowed_changes=allowed)) == {"missing-file"}


@pytest.mark.parametrize(
    ("path", "allowance"),
    [
        ("chat_template.jinja", "chat_template"),
        ("generation_config.json", "generation_config"),
    ],
)
def test_a_file_that_a_model_can_do_without_may_go_where_its_change_is_allowed(
    admit_files: Admit, model: Files, path: str, allowance: str
) -> None:
    assert codes(admit_files(without(model, path))) == {"missing-file"}
    assert admit_files(without(model, path), allowed_changes={allowance}).admitted


def test_full_weights_stand_on_no_foundation(
    admit_files: Admit, model: Files, foundation: str
) -> None:
    assert codes(admit_files(model, foundation=foundation)) == {"wrong-foundation"}


# The schema


def test_a_schema_is_the_same_bytes_from_the_same_files(
    put: Put, store: DirectoryBlobStore, model: Files, schema: Schema
) -> None:
    other = stored_schema(put(dict(reversed(model.items()))), store)
    assert schema_bytes(other) == schema_bytes(schema)
    assert parse_schema(schema_bytes(schema)) == schema
    assert schema["tensors"]["model.norm.weight"] == {"dtype": "F16", "shape": [8]}
    assert schema["documents"]["config.json"]["rms_norm_eps"] == 1e-06
    assert "model.safetensors" not in schema["files"]


def test_a_schema_of_shards_is_that_of_the_single_file(
    put: Put, store: DirectoryBlobStore, model: Files, schema: Schema, foundation: str
) -> None:
    assert stored_schema(put(twin("sharded", model, foundation)), store) == schema


def test_a_schema_does_not_carry_what_json_cannot(schema: Schema) -> None:
    schema["documents"]["config.json"]["x"] = float("nan")
    with pytest.raises(ValueError, match="JSON"):
        schema_bytes(schema)


def test_files_that_could_not_be_admitted_make_no_schema(
    put: Put, store: DirectoryBlobStore, model: Files
) -> None:
    bad = without(model, "config.json") | {"modeling.py": b"", "model.safetensors": b"short"}
    with pytest.raises(Refused) as caught:
        stored_schema(put(bad), store)
    assert {reason.code for reason in caught.value.reasons} == {
        "code-file",
        "missing-file",
        "truncated",
    }


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"extra": 1},
        {"tensors": {}},
        {"tensors": {"x": {"dtype": "F4", "shape": [1]}}},
        {"tensors": {"x": {"dtype": ["F32"], "shape": [1]}}},
        {"tensors": {"x": {"dtype": "F32", "shape": [-1]}}},
        {"tensors": {"x": {"dtype": "F32", "shape": [True]}}},
        {"documents": {}},
        {"documents": {"config.json": []}},
        {"documents": {"config.json": {}, "other.json": {}}},
        {"files": {"config.json": 1}},
    ],
    ids=str,
)
def test_an_uploaded_schema_of_another_form_is_refused(
    schema: Schema, change: dict[str, Any]
) -> None:
    raw = json.dumps({**schema, **change}).encode()
    with pytest.raises(BadRequest, match="bad-schema"):
        parse_schema(raw)


@pytest.mark.parametrize("raw", [b"", b"[]", b"null", b'{"format": 1, "format": 2}', b"\xff"])
def test_bytes_that_are_no_schema_are_refused(raw: bytes) -> None:
    with pytest.raises(BadRequest, match="not a model schema"):
        parse_schema(raw)


# Whatever is in the small files

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FIELDS = [
    "weight_map", "metadata", "auto_map", "r", "target_modules", "base_model_name_or_path",
    "lora_alpha", "peft_type", "init_lora_weights", "dtype", "torch_dtype", "eos_token_id",
    "chat_template", "_attn_implementation", "lora_dropout", "use_rslora", "bias",
]  # fmt: skip


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    path=st.sampled_from(
        [
            "config.json",
            "generation_config.json",
            "tokenizer_config.json",
            "special_tokens_map.json",
            "model.safetensors.index.json",
            "adapter_config.json",
        ]
    ),
    document=st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=3), JSON, max_size=4)
    | JSON,
    kind=st.sampled_from(["full", "lora"]),
)
def test_no_document_makes_an_admission_raise(
    admit_files: Admit, model: Files, foundation: str, path: str, document: Any, kind: str
) -> None:
    files = twin("adapter" if kind == "lora" else "single", model, foundation)
    raw = json.dumps(document).encode()
    found = admit_files(files | {path: raw}, kind=kind)
    assert all(reason.where.isprintable() for reason in found.reasons)


def test_nothing_is_written_beside_the_store(
    admit_files: Admit, model: Files, tmp_path: Path
) -> None:
    admit_files(model | {"config.json": b"["})
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
