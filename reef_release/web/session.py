"""Who is signed in: a cookie that any service with the same token secret can check.

The cookie holds the principal, an expiry and a random id under an HMAC; a token is never in it.
Its key is derived from the token secret, so changing that ends sessions as it ends tokens. A form
carries a second HMAC over the session's id: another site cannot know it. Nothing has to be
limited in rate: a guess at a token is a guess at 256 bits, and it is compared in constant time.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from datetime import UTC, datetime, timedelta

import msgspec

from reef_release.errors import Unauthorized
from reef_release.tokens import Principal, TokenRole, Tokens

__all__ = ["COOKIE", "LIFETIME", "ROLES", "Session", "Sessions"]

COOKIE = "reef_session"
LIFETIME = timedelta(hours=12)
ROLES = (TokenRole.APPROVE, TokenRole.AUDIT, TokenRole.OPERATE)
"""Whose tokens the pages admit."""

_SIGN_IN = "Sign in again."


class Session(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person who is signed in until `expires` (seconds since 1970)."""

    principal: Principal
    session_id: str
    expires: int


class Sessions:
    """Opens and checks sessions with keys derived from the secret of *tokens*."""

    def __init__(self, tokens: Tokens) -> None:
        self._key = tokens.derived_key("the sessions of the pages")
        self._form_key = tokens.derived_key("the forms of the pages")

    def open(self, principal: Principal) -> str:
        """The cookie's value for a new session."""
        session = Session(
            principal=principal,
            session_id=secrets.token_hex(16),
            expires=int((datetime.now(UTC) + LIFETIME).timestamp()),
        )
        claims = base64.urlsafe_b64encode(msgspec.json.encode(session)).decode().rstrip("=")
        return f"{claims}.{_mac(self._key, claims)}"

    def check(self, cookie: str | None) -> Session:
        """The session of a cookie. Raises `Unauthorized`."""
        if not cookie:
            raise Unauthorized("You are not signed in.", next_step="Sign in with a token.")
        claims, _, mac = cookie.partition(".")
        if not hmac.compare_digest(mac.encode(), _mac(self._key, claims).encode()):
            raise Unauthorized("This is no session of this service.", next_step=_SIGN_IN)
        try:
            data = base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4))
            session = msgspec.json.decode(data, type=Session)
        except (binascii.Error, msgspec.DecodeError) as error:
            raise Unauthorized("The session is of another version.", next_step=_SIGN_IN) from error
        if session.expires <= datetime.now(UTC).timestamp():
            raise Unauthorized("The session has ended after 12 hours.", next_step=_SIGN_IN)
        return session

    def form_token(self, session: Session) -> str:
        """What every form of this session carries."""
        return _mac(self._form_key, session.session_id)

    def is_form_token(self, session: Session, given: str) -> bool:
        """Whether a form carried it."""
        return hmac.compare_digest(given.encode(), self.form_token(session).encode())


def _mac(key: bytes, text: str) -> str:
    return hmac.digest(key, text.encode("utf-8", "replace"), hashlib.sha256).hex()
