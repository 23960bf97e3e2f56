"""Who speaks in a chat message: one reading for all who match, record or judge.

A message without a role is taken for the model's: so what nobody is known to have said becomes
nobody's reaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["role_of"]

_ALIASES = {"developer": "system", "function": "tool"}


def role_of(message: Mapping[str, Any]) -> str:
    """The role of *message* in lower case: system, user, assistant, tool, or another word."""
    role = message.get("role")
    role = role.strip().lower() if isinstance(role, str) else ""
    return _ALIASES.get(role, role) or "assistant"
