"""What goes into the correlator and what comes out: a call, and its binding.

A binding never names a later call, nor one of another scenario. `follows` names the call whose
reply this call's newest messages react to; when it is None, `reason` says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

__all__ = ["REASONS", "Binding", "Call", "Kind", "Message", "Method", "TurnType"]

Message = Mapping[str, Any]
"""A chat message as the client sent it: `role`, `content`, `tool_calls`, `tool_call_id`."""

TurnType = Literal["main", "side"]
Kind = Literal["main", "side", "retry", "regeneration"]
Method = Literal["tag", "transcript", "recovery"]

REASONS: Mapping[str, str] = {
    "aside": "It adds words to a request that was answered, without the answer.",
    "ambiguous": "Two or more replies fit equally well.",
    "expired": "It continues a reply that was forgotten: too old, or too much came after it.",
    "first-call": "It carries no earlier reply: a conversation begins.",
    "other-client": "What it continues came under another token. Send a conversation under one.",
    "malformed": "The captured line cannot be read as a call.",
    "no-user-turn": "It carries no message of a user and no result of a tool.",
    "other-agent": "The reply it continues was served to an agent with another system prompt.",
    "prefill": "It ends with an assistant message: nobody has reacted yet.",
    "regeneration": "It asks again for a turn that was answered otherwise before.",
    "retry": "It repeats a request; nobody has reacted in between.",
    "side-call": "The client marked it as a side call.",
    "tag-idle": "Only its session tag speaks for it, and nothing came under that for too long.",
    "tag-unproven": "Only its session tag speaks for it, and that may carry more than one"
    " conversation, or calls came under it at once, within two seconds.",
    "tools-awaited": "The tag's last reply called tools, and these are not their results.",
    "unanswered": "The call before it under its tag was never answered.",
    "unknown-reply": "Its newest assistant message is no reply that was served here.",
    "weak-echo": "The reply it echoes is too short or too little of its surroundings is left.",
}
"""Every reason of an unbound call, in words for people."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One inference call, in the order of arrival.

    `at_s` is event time in seconds, `reply` the assistant message that was served (None when the
    call failed or was aborted), `turn_type` what the client said (None: it said nothing), `tag`
    its session tag (an empty one is none). `client` is who sent it, by its token: clients share
    nothing, so that nobody reacts to the replies of another.
    """

    call_id: str
    at_s: float
    scenario: str
    messages: Sequence[Message]
    reply: Message | None
    client: str | None = None
    tag: str | None = None
    turn_type: TurnType | None = None


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """Where a call stands in its conversation.

    `session_id` is the id of the conversation's first call. `replaces` names the call in whose
    place this one comes: the one it asks again (kind retry or regeneration), or the one that
    followed the same reply until its user went back and wrote something else (kind main).
    """

    call_id: str
    session_id: str
    follows: str | None
    kind: Kind
    method: Method | None
    reason: str | None
    replaces: str | None
