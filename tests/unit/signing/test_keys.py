"""Keys: their roles, their ids, and the files that hold them."""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Mapping
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_public_key,
)
from hypothesis import given
from hypothesis import strategies as st

from reef_release.errors import SettingsError, SignatureRejected
from reef_release.signing.keys import (
    PublicKey,
    Role,
    SigningKey,
    create_key,
    load_key,
    load_public,
    of_role,
    require_role,
    save_key,
    write_public,
)

EVERY_ROLE = pytest.mark.parametrize("role", list(Role))


def code(error: SignatureRejected) -> str:
    return error.reasons[0].code


def pem_of(private: object) -> str:
    public = private.public_key()  # type: ignore[attr-defined]
    return str(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo), "ascii")


@EVERY_ROLE
def test_what_a_key_signs_verifies_with_its_public_half_and_with_no_other(role: Role) -> None:
    key, other = create_key(role), create_key(role)
    signature = key.sign(b"data")
    assert key.public.verify(signature, b"data")
    assert not key.public.verify(signature, b"other data")
    assert not key.public.verify(signature[:-1], b"data")
    assert not key.public.verify(b"", b"data")
    assert not other.public.verify(signature, b"data")


@EVERY_ROLE
def test_signing_the_same_again_gives_the_same_bytes(role: Role) -> None:
    key = create_key(role)
    assert key.sign(b"data") == key.sign(b"data")


@EVERY_ROLE
def test_a_key_comes_back_from_its_files(role: Role, tmp_path: Path) -> None:
    key = create_key(role)
    save_key(key, tmp_path / "private.pem")
    write_public(key.public, tmp_path / "public.pem")
    loaded = load_key(tmp_path / "private.pem", role)
    assert (loaded.role, loaded.key_id, loaded.public) == (role, key.key_id, key.public)
    assert loaded.sign(b"data") == key.sign(b"data")
    assert load_public(tmp_path / "public.pem", role) == key.public
    assert (tmp_path / "private.pem").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "public.pem").stat().st_mode & 0o777 == 0o644
    assert b"BEGIN PRIVATE KEY" in (tmp_path / "private.pem").read_bytes()  # PKCS#8, RFC 5958


def test_the_key_id_is_the_digest_of_the_public_keys_der_form() -> None:
    key = create_key(Role.GATE)
    der = load_pem_public_key(key.public.pem.encode()).public_bytes(
        Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    )
    assert key.key_id == hashlib.sha256(der).hexdigest()


def test_a_key_that_is_written_in_another_way_has_the_same_id() -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    pem = pem_of(private)
    loose = "text before\n" + pem.replace("\n", "\r\n") + "text after"
    assert PublicKey(Role.RELEASE, loose).key_id == PublicKey(Role.RELEASE, pem).key_id
    assert PublicKey(Role.RELEASE, loose).pem == pem


@pytest.mark.parametrize(
    ("role", "private"),
    [
        (Role.RELEASE, Ed25519PrivateKey.generate()),
        (Role.RELEASE, ec.generate_private_key(ec.SECP384R1())),
        (Role.GATE, ec.generate_private_key(ec.SECP256R1())),
        (Role.ROOT, ec.generate_private_key(ec.SECP256R1())),
        (Role.POINTER, rsa.generate_private_key(65537, 2048)),
        (Role.LOG, X25519PrivateKey.generate()),
    ],
)
def test_a_key_of_the_wrong_type_for_its_role_is_refused(
    role: Role, private: ec.EllipticCurvePrivateKey, tmp_path: Path
) -> None:
    with pytest.raises(SignatureRejected) as caught:
        PublicKey(role, pem_of(private))
    assert code(caught.value) == "key-type"
    path = tmp_path / "private.pem"
    path.touch(mode=0o600)
    path.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(SettingsError, match="another type"):
        load_key(path, role)
    (tmp_path / "public.pem").write_text(pem_of(private))
    with pytest.raises(SettingsError, match="does not hold a public"):
        load_public(tmp_path / "public.pem", role)


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(SignatureRejected) as caught:
        PublicKey("admin", create_key(Role.GATE).public.pem)  # type: ignore[arg-type]
    assert code(caught.value) == "unknown-role"


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_arbitrary_text_is_no_key_and_raises_nothing_else(text: str) -> None:
    for pem in (text, f"-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n"):
        with pytest.raises(SignatureRejected):
            PublicKey(Role.GATE, pem)


@given(st.binary(max_size=40).filter(lambda raw: len(raw) != 32))
def test_an_ed25519_key_has_32_bytes(raw: bytes) -> None:
    with pytest.raises(SignatureRejected):
        PublicKey.from_ed25519(Role.GATE, raw)


def test_a_release_key_has_no_ed25519_bytes(keys: Mapping[Role, SigningKey]) -> None:
    gate = keys[Role.GATE].public
    assert PublicKey.from_ed25519(Role.GATE, gate.ed25519_bytes()) == gate
    with pytest.raises(SignatureRejected):
        keys[Role.RELEASE].public.ed25519_bytes()


def test_a_key_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "private.pem"
    key = create_key(Role.GATE)
    save_key(key, path)
    before = path.read_bytes()
    with pytest.raises(SettingsError, match="never overwritten"):
        save_key(create_key(Role.GATE), path)
    with pytest.raises(SettingsError, match="never overwritten"):
        write_public(key.public, path)
    assert path.read_bytes() == before


def test_a_dangling_link_is_not_followed_when_a_key_is_written(tmp_path: Path) -> None:
    (tmp_path / "link.pem").symlink_to(tmp_path / "elsewhere.pem")
    with pytest.raises(SettingsError, match="never overwritten"):
        save_key(create_key(Role.GATE), tmp_path / "link.pem")
    assert not (tmp_path / "elsewhere.pem").exists()


def test_the_mode_does_not_depend_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        save_key(create_key(Role.GATE), tmp_path / "open.pem")
        os.umask(0o777)
        save_key(create_key(Role.GATE), tmp_path / "closed.pem")
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o700, 0o601, 0o620])
def test_a_private_key_that_others_could_use_is_refused(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "private.pem"
    save_key(create_key(Role.GATE), path)
    load_key(path, Role.GATE)
    path.chmod(mode)
    with pytest.raises(SettingsError, match=f"mode {mode:04o}.*\n.*chmod 600"):
        load_key(path, Role.GATE)


def test_a_private_key_that_even_its_owner_cannot_write_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "private.pem"
    save_key(create_key(Role.GATE), path)
    path.chmod(0o400)
    assert load_key(path, Role.GATE).role is Role.GATE


def test_a_missing_file_a_directory_and_a_fifo_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo", 0o600)
    with pytest.raises(SettingsError, match="cannot be read"):
        load_key(tmp_path / "missing.pem", Role.GATE)
    for path in (tmp_path, tmp_path / "fifo"):
        with pytest.raises(SettingsError, match="not a regular file"):
            load_key(path, Role.GATE)
    with pytest.raises(SettingsError, match="cannot be created"):
        save_key(create_key(Role.GATE), tmp_path / "no" / "such" / "directory.pem")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        create_key(Role.GATE).public.pem.encode(),
        Ed25519PrivateKey.generate().private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
        ),
    ],
)
def test_a_file_that_holds_no_usable_key_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "private.pem"
    path.touch(mode=0o600)
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=r"does not hold an unencrypted|holds a public key"):
        load_key(path, Role.GATE)


def test_a_signing_key_does_not_show_its_secret() -> None:
    key = create_key(Role.GATE)
    assert repr(key) == f"SigningKey(role='gate', key_id='{key.key_id}')"
    with pytest.raises(TypeError):
        pickle.dumps(key)


def test_keys_of_other_roles_do_not_count(
    keys: Mapping[Role, SigningKey], trusted: tuple[PublicKey, ...]
) -> None:
    assert of_role(trusted, Role.GATE) == (keys[Role.GATE].public,)
    require_role(keys[Role.GATE], Role.GATE)
    with pytest.raises(SettingsError, match="needs a gate key"):
        require_role(keys[Role.LOG], Role.GATE)
