"""Short words for telling a story of calls to a correlator."""

from __future__ import annotations

import json
from typing import Any

from reef_release.domain.correlation import Binding, Call, Correlator, Limits

__all__ = ["Story", "assistant", "calling", "system", "tool", "user"]

Message = dict[str, Any]


def system(text: str) -> Message:
    return {"role": "system", "content": text}


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str, **more: Any) -> Message:
    return {"role": "assistant", "content": text, **more}


def calling(*names: str, ids: tuple[str, ...] = (), **arguments: Any) -> Message:
    calls = [
        {
            "type": "function",
            "id": ids[index] if index < len(ids) else f"call_{name}_{'0' * 16}",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for index, name in enumerate(names)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def tool(text: str, identifier: str | None = None) -> Message:
    message = {"role": "tool", "content": text}
    return message if identifier is None else {**message, "tool_call_id": identifier}


class Story:
    """Tells calls one after the other, ten seconds apart unless `at` or `after` says otherwise."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.correlator = Correlator(limits)
        self.now_s = 0.0
        self.count = 0

    def tell(
        self,
        *messages: Message,
        reply: Message | str | None = "Well.",
        after: float = 10.0,
        at: float | None = None,
        tag: str | None = None,
        client: str | None = None,
        scenario: str = "homework",
        turn_type: Any = None,
    ) -> Binding:
        """The binding of the next call; its id is c1, c2 and so on."""
        self.now_s = self.now_s + after if at is None else at
        self.count += 1
        return self.correlator.feed(
            Call(
                call_id=f"c{self.count}",
                at_s=self.now_s,
                scenario=scenario,
                client=client,
                tag=tag,
                turn_type=turn_type,
                messages=messages,
                reply=assistant(reply) if isinstance(reply, str) else reply,
            )
        )
