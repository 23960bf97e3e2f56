"""Keys and their files: each key has one role, and its id is a function of the key alone.

The id is the SHA-256 of the DER SubjectPublicKeyInfo, computed after parsing, so one key
cannot stand under two ids. Release keys are ECDSA P-256 (the only family that the stock
model-signing verifier accepts), all others Ed25519; a key of another type is refused for the
role. Private keys are PKCS#8 PEM files that only their owner can read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from reef_release.errors import SettingsError, SignatureRejected
from reef_release.signing.keyfile import create_file, read_file
from reef_release.signing.strict import rejected

__all__ = [
    "PublicKey",
    "Role",
    "SigningKey",
    "create_key",
    "load_key",
    "load_public",
    "of_role",
    "require_role",
    "save_key",
    "write_public",
]


class Role(StrEnum):
    """What a key may sign; no key has two roles."""

    RELEASE = "release"
    GATE = "gate"
    POLICY = "policy"
    LOG = "log"
    POINTER = "pointer"
    ROOT = "root"


@dataclass(frozen=True)
class PublicKey:
    """A public key for one role; raises `SignatureRejected` unless *pem* is such a key.

    `pem` is normalised: the SubjectPublicKeyInfo PEM that the parsed key is written as.
    """

    role: Role
    pem: str
    key_id: str = field(init=False)
    _key: EllipticCurvePublicKey | Ed25519PublicKey = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        role = _role(self.role)
        try:
            key = load_pem_public_key(self.pem.encode("ascii"))
        except (ValueError, UnsupportedAlgorithm) as error:
            message = "this is not a public key in PEM form"
            raise rejected("public key", "key-malformed", message) from error
        if role is Role.RELEASE:
            fits = isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1)
        else:
            fits = isinstance(key, Ed25519PublicKey)
        if not fits or not isinstance(key, EllipticCurvePublicKey | Ed25519PublicKey):
            raise rejected(
                "public key",
                "key-type",
                f"a {role} key is {_type_name(role)}, and this key is of another type",
                next_step=f"Make one with the role {role}.",
            )
        pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode("ascii")
        der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        object.__setattr__(self, "role", role)
        object.__setattr__(self, "pem", pem)
        object.__setattr__(self, "key_id", hashlib.sha256(der).hexdigest())
        object.__setattr__(self, "_key", key)

    @classmethod
    def from_ed25519(cls, role: Role, raw: bytes) -> PublicKey:
        """The key with these 32 bytes (RFC 8032); raises `SignatureRejected`."""
        try:
            key = Ed25519PublicKey.from_public_bytes(raw)
        except ValueError as error:
            message = "an Ed25519 public key has 32 bytes"
            raise rejected("public key", "key-malformed", message) from error
        pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return cls(role, pem.decode("ascii"))

    def ed25519_bytes(self) -> bytes:
        """The 32 bytes of RFC 8032; raises `SignatureRejected` for a release key."""
        if not isinstance(self._key, Ed25519PublicKey):
            raise rejected("public key", "key-type", f"a {self.role} key is not an Ed25519 key")
        return self._key.public_bytes_raw()

    def verify(self, signature: bytes, data: bytes) -> bool:
        """Whether *signature* (DER for ECDSA with SHA-256, 64 bytes for Ed25519) is over *data*."""
        try:
            if isinstance(self._key, Ed25519PublicKey):
                self._key.verify(signature, data)
            else:
                self._key.verify(signature, data, ECDSA(hashes.SHA256()))
        except InvalidSignature:
            return False
        return True


class SigningKey:
    """A private key with its role. It never shows itself, in `repr` or elsewhere."""

    __slots__ = ("_private", "public")

    def __init__(self, role: Role, private: EllipticCurvePrivateKey | Ed25519PrivateKey) -> None:
        self._private = private
        pem = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        self.public = PublicKey(role, pem.decode("ascii"))

    @property
    def role(self) -> Role:
        """What the key may sign."""
        return self.public.role

    @property
    def key_id(self) -> str:
        """Hex SHA-256 of the public key's DER form."""
        return self.public.key_id

    def sign(self, data: bytes) -> bytes:
        """A signature that `PublicKey.verify` accepts; the same data gives the same bytes."""
        if isinstance(self._private, Ed25519PrivateKey):
            return self._private.sign(data)
        # RFC 6979: no randomness that could fail, and a signer that retries after a crash
        # makes the same bundle again.
        return self._private.sign(data, ECDSA(hashes.SHA256(), deterministic_signing=True))

    def private_pem(self) -> bytes:
        """Unencrypted PKCS#8 PEM, for the key's own file."""
        return self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def __repr__(self) -> str:
        return f"SigningKey(role={self.role.value!r}, key_id={self.key_id!r})"


def create_key(role: Role) -> SigningKey:
    """A new key of the type that *role* needs."""
    if role is Role.RELEASE:
        return SigningKey(role, generate_private_key(SECP256R1()))
    return SigningKey(role, Ed25519PrivateKey.generate())


def of_role(keys: Iterable[PublicKey], role: Role) -> tuple[PublicKey, ...]:
    """Those of *keys* that have *role*: what another role's key signed does not count."""
    return tuple(key for key in keys if key.role is role)


def require_role(key: SigningKey, role: Role) -> None:
    """Raise `SettingsError` unless *key* has *role*."""
    if key.role is not role:
        raise SettingsError(
            f"This needs a {role} key; the key {key.key_id[:12]} is a {key.role} key.",
            next_step=f"Give the path of a {role} key.",
        )


def save_key(key: SigningKey, path: Path) -> None:
    """Write the private key to *path*, mode 0600; an existing file is never overwritten.

    Raises `SettingsError`.
    """
    create_file(path, key.private_pem(), private=True)


def write_public(key: PublicKey, path: Path) -> None:
    """Write the public key's PEM to *path*, mode 0644; never overwrites. `SettingsError`."""
    create_file(path, key.pem.encode("ascii"), private=False)


def load_key(path: Path, role: Role) -> SigningKey:
    """The private key in *path* for *role*.

    Raises `SettingsError` if the file is missing, is no regular file, can be read, written or
    executed by anybody but its owner (mode looser than 0600), is encrypted, or holds a key of
    another type than *role* needs.
    """
    # Before the mode, which a public half rightly does not have.
    if b"-----BEGIN PUBLIC KEY-----" in read_file(path, private=False):
        raise SettingsError(
            f"{path} holds a public key; signing takes the private half.",
            next_step=f"Give the private.pem of a {role} key, which lies beside it.",
        )
    data = read_file(path, private=True)
    try:
        private = load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise SettingsError(
            f"{path} does not hold an unencrypted PKCS#8 private key in PEM form.",
            next_step=f"Point the setting at the private.pem of a {role} key.",
        ) from error
    if not isinstance(private, EllipticCurvePrivateKey | Ed25519PrivateKey):
        raise _wrong_type(path, role)
    try:
        return SigningKey(role, private)
    except SignatureRejected as error:
        raise _wrong_type(path, role) from error


def load_public(path: Path, role: Role) -> PublicKey:
    """The public key in *path* for *role*; raises `SettingsError`."""
    try:
        return PublicKey(role, read_file(path, private=False).decode("ascii"))
    except (SignatureRejected, UnicodeDecodeError) as error:
        raise SettingsError(
            f"{path} does not hold a public {_type_name(role)} key in PEM form.",
            next_step=f"Point the setting at the public.pem of a {role} key.",
        ) from error


def _role(value: str) -> Role:
    try:
        return Role(value)
    except ValueError as error:
        message = f"{value!r} is not a role; roles are {', '.join(Role)}"
        raise rejected("public key", "unknown-role", message) from error


def _type_name(role: Role) -> str:
    return "ECDSA P-256" if role is Role.RELEASE else "Ed25519"


def _wrong_type(path: Path, role: Role) -> SettingsError:
    return SettingsError(
        f"{path} holds a key of another type; a {role} key is {_type_name(role)}.",
        next_step=f"Point the setting at the private.pem of a {role} key.",
    )
