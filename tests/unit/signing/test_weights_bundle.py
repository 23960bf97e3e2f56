"""Weights bundles, with the stock model-signing tool as the oracle."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from reef_release.domain.weights import candidate_id, weights_statement
from reef_release.errors import BadRequest, SettingsError, SignatureRejected
from reef_release.signing import dsse
from reef_release.signing.keys import Role, SigningKey, create_key, save_key, write_public
from reef_release.signing.weights import IN_TOTO_TYPE, sign_bundle, verify_bundle

STOCK = Path(sys.executable).with_name("model_signing")
SINGLE = {
    "config.json": b"{}",
    "model.safetensors": b"\x02\x00\x00\x00\x00\x00\x00\x00{}",
    "tokenizer.json": b'{"version": "1.0"}',
}
SHARDED = {
    "config.json": b"{}",
    "generation_config.json": b"{}",
    "model-00001-of-00002.safetensors": b"first shard",
    "model-00002-of-00002.safetensors": b"second shard",
    "model.safetensors.index.json": b'{"weight_map": {}}',
    "tokenizer/vocab+merges_v1.0@x=y.txt": b"a",
    "tokenizer.json": b"{}",
}
LAYOUTS = pytest.mark.parametrize("content", [SINGLE, SHARDED], ids=["single", "sharded"])
Bundle = dict[str, Any]


def digests(content: Mapping[str, bytes]) -> dict[str, str]:
    return {path: hashlib.sha256(body).hexdigest() for path, body in content.items()}


FILES = digests(SINGLE)
RELEASE = candidate_id(FILES)


def write_model(directory: Path, content: Mapping[str, bytes]) -> Path:
    for path, body in content.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_bytes(body)
    return directory


class Oracle:
    """The stock command line, with the release key of the session."""

    def __init__(self, place: Path, key: SigningKey) -> None:
        if not STOCK.exists():
            pytest.skip("the stock model_signing tool is not installed beside this Python")
        self.place = place
        self.public = place / "public.pem"
        write_public(key.public, self.public)

    def accepts(self, model: Path, bundle: bytes) -> bool:
        signature = self.place / "model.sig"
        signature.write_bytes(bundle)
        command: list[Path | str] = [STOCK, "verify", "key", model, "--signature", signature]
        command += ["--public_key", self.public]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "Verification" in result.stdout + result.stderr
        return result.returncode == 0


@pytest.fixture
def key(keys: Mapping[Role, SigningKey]) -> SigningKey:
    return keys[Role.RELEASE]


@pytest.fixture
def oracle(tmp_path: Path, key: SigningKey) -> Oracle:
    return Oracle(tmp_path, key)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model", SINGLE)


def code_of(bundle: bytes, key: SigningKey, release: str = RELEASE) -> str:
    with pytest.raises(SignatureRejected) as caught:
        verify_bundle(bundle, release, [key.public])
    return caught.value.reasons[0].code


def signed(payload: bytes, key: SigningKey) -> bytes:
    """A bundle with a good signature over *payload*, whatever that says."""
    bundle = json.loads(sign_bundle(FILES, key))
    bundle["dsseEnvelope"] = dsse.sign(payload, IN_TOTO_TYPE, key)
    return json.dumps(bundle).encode()


@LAYOUTS
def test_the_stock_tool_accepts_our_bundle(
    content: dict[str, bytes], tmp_path: Path, key: SigningKey, oracle: Oracle
) -> None:
    model = write_model(tmp_path / "a directory by any name", content)
    assert oracle.accepts(model, sign_bundle(digests(content), key))


@LAYOUTS
@pytest.mark.parametrize("attack", ["modified", "extra", "renamed", "missing", "swapped"])
def test_the_stock_tool_refuses_other_files(
    attack: str, content: dict[str, bytes], tmp_path: Path, key: SigningKey, oracle: Oracle
) -> None:
    model = write_model(tmp_path / "model", content)
    bundle = sign_bundle(digests(content), key)
    weights, config = sorted(model.glob("*.safetensors"))[0], model / "config.json"
    match attack:
        case "modified":
            weights.write_bytes(weights.read_bytes() + b"\x00")
        case "extra":
            (model / "modeling.py").write_bytes(b"")
        case "renamed":
            weights.rename(model / "pytorch_model.safetensors")
        case "missing":
            config.unlink()
        case "swapped":
            body = weights.read_bytes()
            weights.write_bytes(config.read_bytes())
            config.write_bytes(body)
    assert not oracle.accepts(model, bundle)
    # Our own check of the same: the files on disk have another id than the bundle's.
    found = {
        str(path.relative_to(model)): path.read_bytes()
        for path in model.rglob("*")
        if path.is_file()
    }
    assert code_of(bundle, key, candidate_id(digests(found))) == "other-release"


def test_the_files_come_back_with_the_key_that_signed_them(key: SigningKey) -> None:
    verified = verify_bundle(sign_bundle(FILES, key), RELEASE, [key.public])
    assert verified.files == FILES
    assert verified.key_id == key.key_id


def test_signing_again_gives_the_same_bundle(key: SigningKey) -> None:
    assert sign_bundle(FILES, key) == sign_bundle(dict(reversed(FILES.items())), key)


def test_a_good_bundle_of_another_release_is_rejected(key: SigningKey) -> None:
    other = {**FILES, "config.json": "00" * 32}
    assert code_of(sign_bundle(other, key), key) == "other-release"


def test_only_a_release_key_signs_weights_and_only_a_release_key_counts(
    keys: Mapping[Role, SigningKey], key: SigningKey
) -> None:
    gate = keys[Role.GATE]
    with pytest.raises(SettingsError):
        sign_bundle(FILES, gate)
    forged = json.loads(sign_bundle(FILES, key))
    forged["dsseEnvelope"] = dsse.sign(weights_statement(FILES), IN_TOTO_TYPE, gate)
    forged["verificationMaterial"]["publicKey"]["hint"] = hashlib.sha256(
        gate.public.pem.encode()
    ).hexdigest()
    with pytest.raises(SignatureRejected) as caught:
        verify_bundle(json.dumps(forged).encode(), RELEASE, [gate.public, key.public])
    assert caught.value.reasons[0].code == "no-trusted-key"


def test_files_that_cannot_be_named_are_not_signed(key: SigningKey) -> None:
    with pytest.raises(BadRequest):
        sign_bundle({"../weights": "00" * 32}, key)


def edited(change: Callable[[Bundle], None]) -> Callable[[SigningKey], bytes]:
    """A bundle after *change*, with its signature as it was."""

    def make(key: SigningKey) -> bytes:
        bundle = json.loads(sign_bundle(FILES, key))
        change(bundle)
        return json.dumps(bundle).encode()

    return make


def insert_garbage_first(bundle: Bundle) -> None:
    bundle["dsseEnvelope"]["signatures"].insert(0, {"keyid": "other", "sig": "AAAA"})


def flip_payload(bundle: Bundle) -> None:
    payload = base64.b64decode(bundle["dsseEnvelope"]["payload"])
    payload = payload.replace(b"config.json", b"config.jsom")
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(payload).decode()


def statement(**changes: Any) -> Callable[[SigningKey], bytes]:
    """A bundle with a good signature over a statement with *changes*."""

    def make(key: SigningKey) -> bytes:
        value = json.loads(weights_statement(FILES))
        value.update(changes)
        return signed(json.dumps(value, separators=(",", ":"), sort_keys=True).encode(), key)

    return make


STATEMENT = json.loads(weights_statement(FILES))
PREDICATE = STATEMENT["predicate"]
SUBJECT = STATEMENT["subject"][0]
INCONSISTENT = [{**PREDICATE["resources"][0], "digest": "00" * 32}, *PREDICATE["resources"][1:]]


def reordered(key: SigningKey) -> bytes:
    resources = PREDICATE["resources"][::-1]
    combined = b"".join(bytes.fromhex(each["digest"]) for each in resources)
    subject = {**SUBJECT, "digest": {"sha256": hashlib.sha256(combined).hexdigest()}}
    make = statement(subject=[subject], predicate={**PREDICATE, "resources": resources})
    return make(key)


# What the stock tool refuses, we refuse.
REFUSED_BY_BOTH: dict[str, Callable[[SigningKey], bytes]] = {
    "another media type": edited(lambda b: b.update(mediaType="application/json")),
    "an unknown field of the bundle": edited(lambda b: b.update(extra=1)),
    "the hint of another key": edited(
        lambda b: b["verificationMaterial"]["publicKey"].update(hint="00" * 32)
    ),
    "garbage before the signature": edited(insert_garbage_first),
    "a changed payload": edited(flip_payload),
    "another payload type": edited(lambda b: b["dsseEnvelope"].update(payloadType="text/plain")),
    "no signature": edited(lambda b: b["dsseEnvelope"].update(signatures=[])),
    "no envelope": edited(lambda b: b.pop("dsseEnvelope") and None),
    "another statement type": statement(_type="https://in-toto.io/Statement/v0.1"),
    "another predicate type": statement(predicateType="https://example.com/other"),
    "two subjects": statement(subject=[SUBJECT, SUBJECT]),
    "no subject": statement(subject=[]),
    "another subject digest": statement(subject=[{**SUBJECT, "digest": {"sha256": "00" * 32}}]),
    "an inconsistent resource": statement(predicate={**PREDICATE, "resources": INCONSISTENT}),
    "a key that nobody trusts": lambda _key: sign_bundle(FILES, create_key(Role.RELEASE)),
    "no JSON": lambda _key: b"not JSON",
    "nothing": lambda _key: b"",
}

# What the stock tool lets pass, we refuse as well.
REFUSED_BY_US: dict[str, Callable[[SigningKey], bytes]] = {
    "a statement about the same model by another name": statement(
        subject=[{**SUBJECT, "name": "m"}]
    ),
    "paths that the verifier shall ignore": statement(
        predicate={
            **PREDICATE,
            "serialization": {**PREDICATE["serialization"], "ignore_paths": ["model.sig"]},
        }
    ),
    "a field of the predicate that nobody checks": statement(
        predicate={**PREDICATE, "gate": "passed"}
    ),
    "a field of the statement that nobody checks": statement(extra=1),
    "resources in another order": reordered,
    "the statement with spaces": lambda key: signed(json.dumps(STATEMENT).encode(), key),
    "garbage after the signature": edited(
        lambda b: b["dsseEnvelope"]["signatures"].append({"keyid": "other", "sig": "AAAA"})
    ),
    "no hint": edited(lambda b: b["verificationMaterial"]["publicKey"].update(hint="")),
    "no key id": edited(lambda b: b["dsseEnvelope"]["signatures"][0].update(keyid="")),
}


@pytest.mark.parametrize("attack", REFUSED_BY_BOTH)
def test_what_the_stock_tool_refuses_we_refuse(
    attack: str, model: Path, key: SigningKey, oracle: Oracle
) -> None:
    bundle = REFUSED_BY_BOTH[attack](key)
    assert not oracle.accepts(model, bundle)
    refuse_for_any_id(bundle, key)


@pytest.mark.parametrize("attack", REFUSED_BY_US)
def test_we_refuse_more_than_the_stock_tool_does(
    attack: str, model: Path, key: SigningKey, oracle: Oracle
) -> None:
    bundle = REFUSED_BY_US[attack](key)
    assert oracle.accepts(model, bundle)
    refuse_for_any_id(bundle, key)


def refuse_for_any_id(bundle: bytes, key: SigningKey) -> None:
    """Refused for the real release's id and for the id that the bundle's own payload has."""
    assert verify_bundle(sign_bundle(FILES, key), RELEASE, [key.public]).files == FILES
    code_of(bundle, key)
    try:
        payload = base64.b64decode(json.loads(bundle)["dsseEnvelope"]["payload"])
    except (ValueError, KeyError):
        return
    code_of(bundle, key, hashlib.sha256(payload).hexdigest())


def test_log_entries_that_nobody_checks_are_rejected(key: SigningKey) -> None:
    make = edited(lambda b: b["verificationMaterial"].update(tlogEntries=[{}]))
    assert code_of(make(key), key) == "extra-material"


def test_the_stock_tool_signs_with_our_key_file_and_reads_its_own_signature(
    tmp_path: Path, model: Path, key: SigningKey, oracle: Oracle
) -> None:
    private, signature = tmp_path / "private.pem", tmp_path / "stock.sig"
    save_key(key, private)
    command: list[Path | str] = [
        STOCK,
        "sign",
        "key",
        model,
        "--signature",
        signature,
        "--private_key",
        private,
    ]
    subprocess.run(command, capture_output=True, check=True)
    assert oracle.accepts(model, signature.read_bytes())
    # Its statement is not the canonical one, so it has no release id that we know.
    refuse_for_any_id(signature.read_bytes(), key)


def test_a_copy_of_the_model_under_another_name_has_the_same_bundle(
    tmp_path: Path, model: Path, key: SigningKey, oracle: Oracle
) -> None:
    copy = shutil.copytree(model, tmp_path / "copy")
    assert oracle.accepts(copy, sign_bundle(FILES, key))
