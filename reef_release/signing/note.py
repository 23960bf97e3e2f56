"""Checkpoints of the log as C2SP signed notes.

The note's text is three lines: origin, size, root hash. The log's key is called by the origin.
Parsing is stricter than the specifications: no extension lines, at most 32 signatures, no
duplicate of a known key's, one form of each number and of each base64 string. Signatures of
unknown keys are ignored (witnesses add theirs); a wrong one by a known key rejects the note.
Sources: c2sp.org/signed-note, c2sp.org/tlog-checkpoint.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from reef_release.domain.canonical import MAX_INTEGER
from reef_release.domain.merkle import HASH_BYTES
from reef_release.errors import BadRequest, SettingsError, SignatureRejected
from reef_release.signing.keys import PublicKey, Role, SigningKey, of_role, require_role
from reef_release.signing.strict import base64_text, decode_base64, rejected

__all__ = [
    "Checkpoint",
    "note_key_id",
    "open_checkpoint",
    "origin_of",
    "parse_vkey",
    "sign_checkpoint",
    "verified_signatures",
    "vkey",
]

ED25519 = 0x01
"""The signature type byte of plain Ed25519 in c2sp.org/signed-note."""

_WHAT = "checkpoint"
_MAX_SIGNATURES = 32
_MAX_NOTE_CHARACTERS = 65_536
_KEY_ID_BYTES = 4
_SIZE = re.compile(r"0|[1-9][0-9]{0,15}")
_T = TypeVar("_T")


class Checkpoint(NamedTuple):
    """A signed tree head: how many events, and the 32-byte RFC 6962 root over them."""

    size: int
    root: bytes


def note_key_id(name: str, kind: int, public: bytes) -> bytes:
    """SHA-256(name ‖ 0x0A ‖ type ‖ public key)[:4], c2sp.org/signed-note."""
    data = name.encode("utf-8") + b"\n" + bytes([kind]) + public
    return hashlib.sha256(data).digest()[:_KEY_ID_BYTES]


def vkey(name: str, key: PublicKey) -> str:
    """The verifier key text `name+hash+key` by which other tools know *key*.

    Raises `BadRequest` for a name that no note can carry.
    """
    _require_name(name)
    public = key.ed25519_bytes()
    hash_hex = note_key_id(name, ED25519, public).hex()
    return f"{name}+{hash_hex}+{base64_text(bytes([ED25519]) + public)}"


def parse_vkey(text: str) -> tuple[str, PublicKey]:
    """The name and the log key in the verifier key *text*; raises `SettingsError`."""
    name, _, rest = text.partition("+")
    key_hash, _, key_text = rest.partition("+")
    try:
        raw = decode_base64(key_text, "log key", "key")
        key = PublicKey.from_ed25519(Role.LOG, raw[1:])
        valid = raw[0] == ED25519 and _is_name(name)
        valid = valid and note_key_id(name, ED25519, raw[1:]).hex() == key_hash
    except (SignatureRejected, IndexError):
        valid = False
    if not valid:
        raise SettingsError(
            f"{text[:200]!r} is not the verifier key of a log.",
            next_step="Copy the line name+hash+key that `reef-release witness log-key` prints "
            "where the log is.",
        )
    return name, key


def origin_of(note: str) -> str:
    """The origin that a checkpoint states, before anything is verified; may be anything."""
    return note.partition("\n")[0]


def sign_checkpoint(origin: str, size: int, root: bytes, key: SigningKey) -> str:
    """The signed note for the tree of *size* and *root*.

    Raises `BadRequest` for values that no note can carry, `SettingsError` for no log key.
    """
    require_role(key, Role.LOG)
    _require_name(origin)
    if not 0 <= size <= MAX_INTEGER or len(root) != HASH_BYTES:
        raise BadRequest(
            f"A checkpoint has a size from 0 to 2^53-1 and a root of {HASH_BYTES} bytes.",
            next_step="Take both from the Merkle tree.",
        )
    text = f"{origin}\n{size}\n{base64_text(root)}\n"
    signature = key.sign(text.encode("utf-8"))
    key_id = note_key_id(origin, ED25519, key.public.ed25519_bytes())
    return f"{text}\n\u2014 {origin} {base64_text(key_id + signature)}\n"


def open_checkpoint(note: str, origin: str, keys: Iterable[PublicKey]) -> Checkpoint:
    """Size and root in *note*, signed by one of the log keys among *keys* as *origin*.

    Raises `SignatureRejected`.
    """
    text, lines = _split(note)
    stated, checkpoint = _parse_text(text)
    if stated != origin:
        message = f"it is of the log {stated[:80]!r}, not of {origin!r}"
        raise rejected(_WHAT, "origin", message)
    known: dict[tuple[str, bytes], PublicKey] = {}
    for key in of_role(keys, Role.LOG):
        known[origin, note_key_id(origin, ED25519, key.ed25519_bytes())] = key
    message_bytes = text.encode("utf-8")
    signers = _matching(lines, known, lambda key, signature: key.verify(signature, message_bytes))
    if not signers:
        raise rejected(
            _WHAT,
            "no-trusted-key",
            "no trusted log key signed it",
            next_step="Check that the log's key stands under its role in the trust root.",
        )
    return checkpoint


def verified_signatures(
    note: str, known: Mapping[tuple[str, bytes], _T], verify: Callable[[_T, bytes, bytes], bool]
) -> list[tuple[_T, bytes]]:
    """(key, signature) for each known key that signed the checkpoint *note*.

    *known* maps (key name, key id) to a key; `verify(key, signature, text)` says whether a
    signature is good. One that is not, or a malformed note, raises `SignatureRejected`.
    """
    text, lines = _split(note)
    _parse_text(text)
    data = text.encode("utf-8")
    return _matching(lines, known, lambda key, signature: verify(key, signature, data))


def _matching(
    lines: list[str], known: Mapping[tuple[str, bytes], _T], verify: Callable[[_T, bytes], bool]
) -> list[tuple[_T, bytes]]:
    found: dict[tuple[str, bytes], tuple[_T, bytes]] = {}
    for number, line in enumerate(lines, start=1):
        where = f"signature line {number}"
        parts = line.split(" ")
        if len(parts) != 3 or parts[0] != "\u2014" or not _is_name(parts[1]):
            raise rejected(_WHAT, "malformed", "this is not a signature line", where=where)
        name, raw = parts[1], decode_base64(parts[2], _WHAT, where)
        if len(raw) <= _KEY_ID_BYTES:
            raise rejected(_WHAT, "malformed", "the signature is too short", where=where)
        identity = (name, raw[:_KEY_ID_BYTES])
        key = known.get(identity)
        if key is None:
            continue
        if identity in found:
            raise rejected(_WHAT, "duplicate-key", "a key signed twice", where=where)
        if not verify(key, raw[_KEY_ID_BYTES:]):
            message = f"the signature of {name!r} does not verify"
            raise rejected(_WHAT, "bad-signature", message, where=where)
        found[identity] = (key, raw[_KEY_ID_BYTES:])
    return list(found.values())


def _split(note: str) -> tuple[str, list[str]]:
    """The text of *note*, with its final newline, and its signature lines."""
    if len(note) > _MAX_NOTE_CHARACTERS:
        raise rejected(_WHAT, "too-large", f"it is longer than {_MAX_NOTE_CHARACTERS} characters")
    if any(character < " " and character != "\n" for character in note):
        raise rejected(_WHAT, "malformed", "it contains a control character")
    try:
        note.encode("utf-8")
    except UnicodeEncodeError as error:
        raise rejected(_WHAT, "malformed", "it is not valid Unicode") from error
    text, separator, signatures = note.rpartition("\n\n")
    if not separator or not signatures.endswith("\n"):
        message = "a note is text, an empty line and signature lines, each with a newline"
        raise rejected(_WHAT, "malformed", message)
    lines = signatures[:-1].split("\n")
    if len(lines) > _MAX_SIGNATURES:
        raise rejected(_WHAT, "signature-count", f"it has more than {_MAX_SIGNATURES} signatures")
    return text + "\n", lines


def _parse_text(text: str) -> tuple[str, Checkpoint]:
    lines = text[:-1].split("\n")
    if len(lines) != 3:
        message = f"a checkpoint has three lines and no extension; this has {len(lines)}"
        raise rejected(_WHAT, "malformed", message)
    origin, size, root_text = lines
    if not _is_name(origin):
        raise rejected(_WHAT, "malformed", "the origin is empty or contains a space or a plus")
    if not _SIZE.fullmatch(size) or int(size) > MAX_INTEGER:
        raise rejected(_WHAT, "malformed", "the size is not a decimal number in its one form")
    root = decode_base64(root_text, _WHAT, "root hash")
    if len(root) != HASH_BYTES:
        raise rejected(_WHAT, "malformed", f"a root hash has {HASH_BYTES} bytes")
    return origin, Checkpoint(int(size), root)


def _is_name(name: str) -> bool:
    return bool(name) and not any(
        character < " " or character == "+" or character.isspace() for character in name
    )


def _require_name(name: str) -> None:
    if not _is_name(name):
        raise BadRequest(
            f"{name!r} cannot name a log: it is empty, or has a space, a control character or +.",
            next_step="Use a name such as reef.example/log.",
        )
