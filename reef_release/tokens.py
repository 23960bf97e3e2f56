"""Bearer tokens: signed claims, so that no process keeps a table of them.

A token is `reef_` + base64url(claims JSON) + `.` + base64url(HMAC-SHA-256 of that text). The
secret lies in one file that only the service and the operator's command line read; changing
it ends every token. Tokens never reach the log.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
import secrets
import tempfile
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

import msgspec

from reef_release.errors import BadRequest, SettingsError, Unauthorized

__all__ = ["TOKEN_SECRET", "Principal", "TokenRole", "Tokens", "load_secret"]

TOKEN_SECRET = "token.secret"  # noqa: S105 - the name of the file, not the secret
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_PREFIX = "reef_"
_SECRET_BYTES = 32


class TokenRole(StrEnum):
    """What a token may do; `sign` is the signer's."""

    INGEST = "ingest"
    JUDGE = "judge"
    TRAIN = "train"
    GATE = "gate"
    SIGN = "sign"
    SERVE = "serve"
    AUDIT = "audit"
    APPROVE = "approve"
    OPERATE = "operate"


class Principal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who sends a request. `name` is the actor of its events; scenario None means any."""

    name: str
    role: TokenRole
    scenario: str | None = None


class Tokens:
    """Issues and verifies tokens with one secret."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def issue(self, principal: Principal) -> str:
        """A token for *principal*. Raises `BadRequest` for a name that no actor can have."""
        if not _NAME.fullmatch(principal.name):
            raise BadRequest(
                f"{principal.name!r} is no name for a token.",
                next_step="Use lowercase letters, digits, dots, dashes and underscores.",
            )
        claims = _encode(msgspec.json.encode(principal))
        return f"{_PREFIX}{claims}.{_encode(self._mac(claims))}"

    def verify(self, token: str) -> Principal:
        """Whose token this is. Raises `Unauthorized`."""
        claims, dot, mac = token.removeprefix(_PREFIX).partition(".")
        try:
            given = _decode(mac)
            genuine = bool(dot) and hmac.compare_digest(given, self._mac(claims))
            if token.startswith(_PREFIX) and genuine:
                return msgspec.json.decode(_decode(claims), type=Principal)
        except (binascii.Error, msgspec.DecodeError, ValueError):
            pass
        raise Unauthorized(
            "The token was not issued by this service.",
            next_step="Create one with `reef-release token create --role ROLE`.",
        )

    def derived_key(self, purpose: str) -> bytes:
        """32 bytes for another use of the secret; what they sign is never taken for a token.

        The purpose is not base64url, as claims are, so no token has this MAC.
        """
        return hmac.digest(self._secret, f"key for {purpose}".encode(), hashlib.sha256)

    def _mac(self, claims: str) -> bytes:
        return hmac.digest(self._secret, claims.encode(), hashlib.sha256)


def load_secret(path: Path, *, create: bool = False) -> bytes:
    """The token secret in *path*; with *create*, made at first use. Raises `SettingsError`."""
    try:
        if create and not path.exists():
            _create_secret(path)
        if path.stat().st_mode & 0o077:
            raise SettingsError(f"{path} can be read by others.", next_step=f"chmod 600 {path}")
        secret = bytes.fromhex(path.read_text("ascii").strip())
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"The token secret {path} cannot be read: {error}.",
            next_step="Create it with `reef-release keys init`.",
        ) from error
    if len(secret) != _SECRET_BYTES:
        # With a short secret, an empty one above all, anybody could issue tokens.
        raise SettingsError(
            f"The token secret {path} has {len(secret)} bytes, not {_SECRET_BYTES}.",
            next_step="Remove it and create it with `reef-release keys init`.",
        )
    return secret


def _create_secret(path: Path) -> None:
    """Write a new secret whole or not at all, and never over another one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(_SECRET_BYTES))
        with suppress(FileExistsError):
            os.link(name, path)
    finally:
        os.unlink(name)


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
