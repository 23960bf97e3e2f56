"""The bodies of interactions, as their salted blobs hold them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from reef_release.artifacts.blobs import BlobStore
from reef_release.artifacts.errors import BlobCorrupt, BlobMissing, BlobTooLarge
from reef_release.domain.roles import role_of

__all__ = [
    "BODY_LIMIT_BYTES",
    "UNREADABLE",
    "InteractionBody",
    "decode_body",
    "next_state_of",
    "read_body",
    "reply_text",
]

BODY_LIMIT_BYTES = 16 * 1024 * 1024
UNREADABLE = (
    BlobMissing,
    BlobCorrupt,
    BlobTooLarge,
    msgspec.DecodeError,
    UnicodeDecodeError,
    RecursionError,
)
"""What `read_body` and `decode_body` raise of a body that is erased, damaged, or no body."""


class InteractionBody(msgspec.Struct, frozen=True, kw_only=True):
    """What the blob of an interaction holds, as JSON."""

    messages: list[dict[str, Any]]
    reply: dict[str, Any] | None
    tools: list[dict[str, Any]] | None = None
    temperature: float | None = None
    prompt_token_ids: list[int] | None = None
    token_ids: list[int] | None = None
    logprobs: list[float | None] | None = None
    mask: list[int] | None = None


_BODY = msgspec.json.Decoder(InteractionBody)


def decode_body(stored: bytes) -> InteractionBody:
    """The body in a blob's bytes. Raises `msgspec.DecodeError`."""
    return _BODY.decode(stored)


async def read_body(blobs: BlobStore, digest: str) -> InteractionBody:
    """The body in a blob. Raises `BlobMissing` when it was erased, else what is in `UNREADABLE`."""
    return decode_body(await blobs.read_body(digest, BODY_LIMIT_BYTES))


def reply_text(reply: Mapping[str, Any] | None) -> str:
    """A reply as one text: its words, then the tools that it calls, as JSON."""
    if reply is None:
        return ""
    content = reply.get("content")
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "\n".join(part for part in parts if isinstance(part, str))
    words = [content] if isinstance(content, str) and content else []
    if reply.get("tool_calls"):
        words.append(msgspec.json.encode(reply["tool_calls"]).decode())
    return "\n".join(words)


def next_state_of(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a request brings that nobody has answered: all that stands behind the last reply."""
    last = max(
        (index for index, each in enumerate(messages) if role_of(each) == "assistant"),
        default=-1,
    )
    return [each for each in messages[last + 1 :] if role_of(each) != "system"]
