"""The one form of root metadata that is accepted: TUF's fields and the keys of our roles.

python-tuf reads leniently (any type of key, any key id, unknown fields everywhere). Here every
key is Ed25519 or, for releases, P-256; a key id is a function of the key; no key stands twice;
and there are no fields that nobody would check.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from reef_release.domain.canonical import MAX_INTEGER
from reef_release.errors import SignatureRejected
from reef_release.signing.keys import PublicKey, Role
from reef_release.signing.strict import convert, json_value, rejected

__all__ = ["LISTED_ROLES", "ROLES_FIELD", "TUF_ROLES", "WHAT", "SignedRoot", "read_root"]

ROLES_FIELD = "x-reef-roles"
LISTED_ROLES = tuple(role for role in Role if role is not Role.ROOT)
TUF_ROLES = ("root", "snapshot", "targets", "timestamp")
WHAT = "trust root"
_MAX_CHARACTERS = 1024 * 1024
_MAX_ROOT_KEYS = 64
_TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


class _KeyValue(msgspec.Struct, forbid_unknown_fields=True):
    public: str


class _Key(msgspec.Struct, forbid_unknown_fields=True):
    keytype: str
    keyval: _KeyValue
    scheme: str


class _TufRole(msgspec.Struct, forbid_unknown_fields=True):
    keyids: list[str]
    threshold: int


class SignedRoot(msgspec.Struct, forbid_unknown_fields=True):
    """The signed part of root metadata; `listed` holds PEM texts by role."""

    type: str = msgspec.field(name="_type")
    spec_version: str
    version: int
    expires: str
    consistent_snapshot: bool
    keys: dict[str, _Key]
    roles: dict[str, _TufRole]
    listed: dict[str, list[str]] = msgspec.field(name=ROLES_FIELD)

    @property
    def threshold(self) -> int:
        """How many root keys must sign."""
        return self.roles["root"].threshold


class _Signature(msgspec.Struct, forbid_unknown_fields=True):
    keyid: str
    sig: str


class _RootDocument(msgspec.Struct, forbid_unknown_fields=True):
    signed: SignedRoot
    signatures: list[_Signature]


def read_root(text: str) -> tuple[SignedRoot, dict[Role, tuple[PublicKey, ...]]]:
    """What the root metadata *text* says, and its keys by role, root keys included.

    Signatures are not checked. Raises `SignatureRejected`.
    """
    if len(text) > _MAX_CHARACTERS:
        raise rejected(WHAT, "too-large", f"it is longer than {_MAX_CHARACTERS} characters")
    document = convert(json_value(text, WHAT), _RootDocument, WHAT)
    signed = document.signed
    if signed.type != "root" or not 1 <= signed.version <= MAX_INTEGER:
        raise _malformed("it is not root metadata with a version from 1")
    if not _is_tuf_time(signed.expires):
        raise _malformed("expires is not written like 2026-01-02T03:04:05Z")
    if set(signed.roles) != set(TUF_ROLES) or set(signed.listed) != set(LISTED_ROLES):
        raise _malformed(f"it must list all of TUF's roles, and all of ours in {ROLES_FIELD}")
    if not 1 <= signed.threshold <= len(signed.keys) <= _MAX_ROOT_KEYS:
        raise _malformed("the threshold must be from 1 to the number of root keys")
    for role in signed.roles.values():
        if sorted(role.keyids) != sorted(signed.keys) or role.threshold != signed.threshold:
            raise _malformed("every TUF role must name each root key once, and one threshold")
    keys_by_role = _listed_keys(signed) | {Role.ROOT: _root_keys(signed)}
    key_ids = [key.key_id for keys in keys_by_role.values() for key in keys]
    if len(set(key_ids)) != len(key_ids):
        raise rejected(WHAT, "duplicate-key", "a key stands twice; no key has two roles")
    return signed, keys_by_role


def _malformed(message: str) -> SignatureRejected:
    return rejected(WHAT, "malformed", message)


def _is_tuf_time(text: str) -> bool:
    try:
        return datetime.strptime(text, _TIME_FORMAT).strftime(_TIME_FORMAT) == text
    except ValueError:
        return False


def _listed_keys(signed: SignedRoot) -> dict[Role, tuple[PublicKey, ...]]:
    keys_by_role: dict[Role, tuple[PublicKey, ...]] = {}
    for role in LISTED_ROLES:
        pems = signed.listed[role.value]
        keys = tuple(PublicKey(role, pem) for pem in pems)
        if [key.pem for key in keys] != pems:
            raise _malformed(f"a {role} key is not in normal PEM form")
        keys_by_role[role] = keys
    return keys_by_role


def _root_keys(signed: SignedRoot) -> tuple[PublicKey, ...]:
    keys = []
    for key_id, entry in signed.keys.items():
        try:
            key = PublicKey.from_ed25519(Role.ROOT, bytes.fromhex(entry.keyval.public))
        except ValueError as error:
            raise _malformed("a root key is not hexadecimal") from error
        written = (entry.keyval.public, entry.keytype, entry.scheme)
        if written != (key.ed25519_bytes().hex(), "ed25519", "ed25519"):
            raise rejected(WHAT, "key-type", "a root key is not Ed25519 in hex", where=key_id)
        if key.key_id != key_id:
            message = "a root key stands under another id than its own"
            raise rejected(WHAT, "key-id", message, where=key_id)
        keys.append(key)
    return tuple(keys)
