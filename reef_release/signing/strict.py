"""How signed bytes are read: one encoding of each value is accepted, all others are rejected.

A value that can be written in two ways has two digests, and two readers that may disagree.
So base64 is standard and padded, JSON is RFC 8785 without unknown fields, and whatever does
not fit raises `SignatureRejected`, never anything else.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from reef_release.domain.canonical import canonical_json, parse_json
from reef_release.domain.reasons import Reason
from reef_release.errors import BadRequest, SignatureRejected

__all__ = [
    "base64_text",
    "canonical_value",
    "convert",
    "decode_base64",
    "is_digest",
    "is_time",
    "json_value",
    "rejected",
]

_T = TypeVar("_T")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z")
_MAX_SHOWN = 500
_GET_ANOTHER = "Get it from its signer again; if it stays so, keep it as evidence."


def rejected(
    what: str,
    code: str,
    message: str,
    *,
    where: str = "",
    next_step: str = _GET_ANOTHER,
    also: Iterable[Reason] = (),
) -> SignatureRejected:
    """The error to raise: *what* is rejected because of *message* (and of the reasons *also*)."""
    reasons = (Reason(code=code, message=message, where=where), *also)
    return SignatureRejected(
        f"The {what} is rejected.",
        next_step=next_step,
        reasons=[
            Reason(code=each.code, message=_shown(each.message), where=_shown(each.where))
            for each in reasons
        ],
    )


def _shown(text: str) -> str:
    """*text* fit for a log, a page and an event: attacker's text may hold anything."""
    return (text if text.isprintable() else repr(text)[1:-1])[:_MAX_SHOWN]


def base64_text(data: bytes) -> str:
    """Standard base64 with padding (RFC 4648 §4)."""
    return base64.b64encode(data).decode("ascii")


def decode_base64(text: str, what: str, where: str) -> bytes:
    """The bytes of *text*, which must be the one standard base64 form of them."""
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, ValueError) as error:
        raise rejected(what, "base64", "this is not standard base64", where=where) from error
    if base64_text(data) != text:
        # Trailing bits that are not zero decode to the same bytes.
        raise rejected(what, "base64", "this base64 is not in canonical form", where=where)
    return data


def json_value(data: bytes | str, what: str) -> Any:
    """The JSON value of *data*; keys that stand twice, NaN and bad UTF-8 are rejected."""
    try:
        return parse_json(data)
    except BadRequest as error:
        raise rejected(what, "json", error.detail) from error


def canonical_value(payload: bytes, what: str) -> Any:
    """The JSON value of *payload*, which must be its RFC 8785 form."""
    value = json_value(payload, what)
    try:
        canonical = canonical_json(value)
    except BadRequest as error:
        raise rejected(what, "json", error.detail) from error
    if canonical != payload:
        raise rejected(what, "not-canonical", "the payload is not in RFC 8785 form")
    return value


def convert(value: Any, kind: type[_T], what: str) -> _T:
    """*value* as *kind* without any coercion of types."""
    try:
        return msgspec.convert(value, kind, strict=True)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        # msgspec fails with the latter on a key that holds half of a surrogate pair.
        raise rejected(what, "malformed", str(error)) from error


def is_digest(text: str) -> bool:
    """Whether *text* is a SHA-256 as 64 lowercase hex digits."""
    return _DIGEST.fullmatch(text) is not None


def is_time(text: str) -> bool:
    """Whether *text* is a time of the log: RFC 3339, UTC, microseconds.

    Times in this form compare as strings.
    """
    if not _TIME.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
