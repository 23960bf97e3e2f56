"""The trust root: which keys may do what, as TUF root metadata signed by n of m root keys.

Every root lists its own root keys and, in the signed field `x-reef-roles`, the keys of each
other role. TUF's own three other roles are not used here; they name the root keys, so that
the metadata is valid for any TUF tool. A root is believed because it is the anchor that the
reader was given, or because a threshold of the keys of the root *directly before it*, and of
its own, signed it. One key cannot stand under two ids (see `root_document`), so it counts
once. Expiry is returned, not judged. Source: theupdateframework.github.io/specification §5.3,
with the checks of python-tuf.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

# Both libraries re-export these names without saying so in the way that mypy's strict mode wants.
from securesystemslib.signer import (  # type: ignore[attr-defined]
    Key,
    Signature,
    Signer,
    SSlibKey,
)
from tuf.api.exceptions import RepositoryError
from tuf.api.metadata import Metadata, Root  # type: ignore[attr-defined]
from tuf.api.metadata import Role as TufRole  # type: ignore[attr-defined]
from tuf.api.serialization.json import JSONSerializer

from reef_release.errors import BadRequest, SettingsError, SignatureRejected
from reef_release.signing.keys import PublicKey, Role, SigningKey, require_role
from reef_release.signing.root_document import (
    LISTED_ROLES,
    ROLES_FIELD,
    TUF_ROLES,
    WHAT,
    SignedRoot,
    read_root,
)
from reef_release.signing.strict import rejected

__all__ = [
    "Signatures",
    "TrustRoot",
    "add_signature",
    "check_signer",
    "create_root",
    "next_root",
    "open_root",
    "signatures_of",
]


@dataclass(frozen=True, kw_only=True)
class TrustRoot:
    """A root that was verified.

    `keys_by_role` has every role, `Role.ROOT` included. `expires_at` is in the log's form of
    time, so it compares with `recorded_at` as a string.
    """

    version: int
    threshold: int
    keys_by_role: Mapping[Role, tuple[PublicKey, ...]]
    expires_at: str


@dataclass(frozen=True, kw_only=True)
class Signatures:
    """How many root keys of one version signed, of how many that must; one key counts once."""

    version: int
    signed: int
    threshold: int

    @property
    def missing(self) -> int:
        """How many more must sign."""
        return max(0, self.threshold - self.signed)


class _Signer(Signer):
    """A root key as python-tuf wants its signers."""

    def __init__(self, key: SigningKey) -> None:
        self._key = key

    @property
    def public_key(self) -> Key:
        return _tuf_key(self._key.public)

    @classmethod
    def from_priv_key_uri(
        cls, priv_key_uri: str, public_key: Key, secrets_handler: Any = None
    ) -> Signer:
        raise NotImplementedError("root keys are loaded from their files, not by URI")

    def sign(self, payload: bytes) -> Signature:
        return Signature(self._key.key_id, self._key.sign(payload).hex())


def create_root(
    *,
    version: int,
    threshold: int,
    root_keys: Sequence[PublicKey],
    role_keys: Mapping[Role, Sequence[PublicKey]],
    expires: datetime,
    signers: Iterable[SigningKey],
) -> str:
    """Root metadata as signed JSON text; *expires* is in UTC.

    *signers* are the root keys at hand: for version 1 a threshold of *root_keys*; for a later
    version also a threshold of the version before. More can sign later with `add_signature`.
    Raises `BadRequest` for a root that no reader would accept, `SettingsError` for a signer
    that is no root key.
    """
    given = {**role_keys, Role.ROOT: root_keys}
    if Role.ROOT in role_keys or any(
        key.role is not role for role, keys in given.items() for key in keys
    ):
        raise _impossible("a key is given for another role than its own")
    listed = {role.value: [key.pem for key in role_keys.get(role, ())] for role in LISTED_ROLES}
    key_ids = [key.key_id for key in root_keys]
    try:
        root = Root(
            version=version,
            expires=expires,
            keys={key.key_id: _tuf_key(key) for key in root_keys},
            roles={name: TufRole(list(key_ids), threshold) for name in TUF_ROLES},
            consistent_snapshot=False,
            unrecognized_fields={ROLES_FIELD: listed},
        )
        metadata = Metadata(root)
        read_root(_text(metadata))
    except ValueError as error:
        raise _impossible(str(error)) from error
    except SignatureRejected as error:
        raise _impossible(error.reasons[0].message) from error
    for signer in signers:
        _sign(metadata, signer)
    return _text(metadata)


def next_root(
    text: str,
    *,
    add: Sequence[PublicKey] = (),
    drop: Sequence[str] = (),
    threshold: int | None = None,
    expires: datetime,
) -> str:
    """The successor of the root *text*, which nobody has signed yet.

    It lists the keys of *text* without those whose ids *drop* names, and with *add*; a key is
    never changed. Raises `SignatureRejected` if *text* is no root, `BadRequest` for a root that
    no reader would accept and for one that leaves a role without a key.
    """
    signed, keys_by_role, _ = _parse(text)
    listed = {key.key_id for keys in keys_by_role.values() for key in keys}
    unknown = sorted(set(drop) - listed)
    if unknown:
        raise _impossible(f"it lists no key {unknown[0]} that could be dropped")
    after = {
        role: [key for key in keys_by_role[role] if key.key_id not in drop]
        + [key for key in add if key.role is role]
        for role in Role
    }
    bare = [role for role, keys in after.items() if not keys]
    if bare:
        raise _impossible(f"nobody would hold the role {bare[0]}; add another key of it")
    root_keys = after.pop(Role.ROOT)
    return create_root(
        version=signed.version + 1,
        threshold=threshold or signed.threshold,
        root_keys=root_keys,
        role_keys=after,
        expires=expires,
        signers=(),
    )


def signatures_of(text: str, trusted: str | None = None) -> tuple[Signatures, ...]:
    """Who has signed *text* so far: by the root before it, *trusted*, and by itself.

    Raises `SignatureRejected` if one of the two is no root.
    """
    signed, _, metadata = _parse(text)
    before = None if trusted is None else _parse(trusted)[2].signed
    result = metadata.signed.get_root_verification_result(
        before, metadata.signed_bytes, metadata.signatures
    )
    own = Signatures(
        version=signed.version,
        signed=len(result.second.signed),
        threshold=result.second.threshold,
    )
    if before is None:
        return (own,)
    first = Signatures(
        version=before.version, signed=len(result.first.signed), threshold=result.first.threshold
    )
    return first, own


def check_signer(text: str, trusted: str, key: SigningKey) -> bool:
    """Whether *key* has signed the root *text* already, which must follow directly on *trusted*.

    Raises `SignatureRejected` if one of the two is no root, `BadRequest` if *text* is not the
    next version, `SettingsError` if neither lists *key* as a root key.
    """
    require_role(key, Role.ROOT)
    signed, keys_by_role, metadata = _parse(text)
    before, keys_before, _ = _parse(trusted)
    if signed.version != before.version + 1:
        raise BadRequest(
            f"Root version {signed.version} does not follow directly on version {before.version}.",
            next_step=f"Give the root of version {signed.version - 1} with --root.",
        )
    listed = {each.key_id for each in (*keys_before[Role.ROOT], *keys_by_role[Role.ROOT])}
    if key.key_id not in listed:
        raise SettingsError(
            f"The key {key.key_id[:12]} is a root key neither of version {before.version} nor of "
            f"version {signed.version}, so its signature would not count.",
            next_step="Give the private half of a root key that one of the two lists.",
        )
    return key.key_id in metadata.signatures


def add_signature(text: str, key: SigningKey) -> str:
    """The root metadata *text* with the signature of *key*, in the place of an older one.

    Raises `SignatureRejected` if *text* is no root, `SettingsError` for no root key.
    """
    _, _, metadata = _parse(text)
    _sign(metadata, key)
    return _text(metadata)


def open_root(text: str, trusted: str | None = None) -> TrustRoot:
    """The root in *text*; raises `SignatureRejected`.

    With *trusted* (the text of the root in force) *text* must be its direct successor, signed
    by a threshold of the keys of both. Without, *text* must be signed by a threshold of its
    own keys, and the caller must have it from outside as the anchor.
    """
    signed, keys_by_role, metadata = _parse(text)
    before = None if trusted is None else _parse(trusted)[2].signed
    if before is not None and signed.version != before.version + 1:
        raise rejected(
            WHAT,
            "root-version",
            f"version {signed.version} does not follow directly on version {before.version}",
            next_step="Get every root in between and open them one after another.",
        )
    result = metadata.signed.get_root_verification_result(
        before, metadata.signed_bytes, metadata.signatures
    )
    for part, version in ((result.first, signed.version - 1), (result.second, signed.version)):
        if not part.verified:
            source = signed.version if before is None else version
            raise rejected(
                WHAT,
                "root-threshold",
                f"version {signed.version} needs {part.threshold} signatures by root keys of "
                f"version {source} and has {len(part.signed)}",
                next_step="Have more root keys sign it, or get the complete one.",
            )
    return TrustRoot(
        version=signed.version,
        threshold=signed.threshold,
        keys_by_role=keys_by_role,
        expires_at=signed.expires.removesuffix("Z") + ".000000Z",
    )


def _tuf_key(key: PublicKey) -> SSlibKey:
    public = key.ed25519_bytes().hex()
    return SSlibKey(key.key_id, "ed25519", "ed25519", {"public": public})


def _sign(metadata: Metadata[Root], key: SigningKey) -> None:
    require_role(key, Role.ROOT)
    metadata.sign(_Signer(key), append=True)


def _text(metadata: Metadata[Root]) -> str:
    return str(metadata.to_bytes(JSONSerializer(compact=True)), "utf-8")


def _parse(text: str) -> tuple[SignedRoot, dict[Role, tuple[PublicKey, ...]], Metadata[Root]]:
    """*text* by the strict schema, and then as python-tuf reads it."""
    signed, keys_by_role = read_root(text)
    try:
        metadata: Metadata[Root] = Metadata.from_bytes(text.encode("utf-8"))
        _ = metadata.signed_bytes  # what has no canonical form fails here, not later
    except (RepositoryError, ValueError) as error:
        raise rejected(WHAT, "malformed", f"python-tuf refuses it: {error}") from error
    return signed, keys_by_role, metadata


def _impossible(message: str) -> BadRequest:
    return BadRequest(
        f"This root cannot be made: {message}.",
        next_step="Give each key once, under its own role, and a version and threshold from 1.",
    )
