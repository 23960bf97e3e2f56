"""Conversations made up to be confused with each other: few words, said by many, again and again.

`survey` asks everybody the same; `drill` asks short questions that come again; `support` mixes
long messages, in several scripts, with "ok" and "yes"; `coding` calls tools, often the same ones
with the same results. Each gives *count* chats from a seed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

__all__ = ["INVENTIONS"]

Chat = list[dict[str, Any]]

_WORDS = (
    *("flight", "gate", "hotel", "pilot", "cabin", "ticket", "refund", "delay", "storm"),
    "café",
    "naïve",
    "Zürich",
    "déjà",
    "Ελλάδα",
    "東京",
    "größer",
)
_QUESTIONS = (
    "Do you own a car?",
    "Do you own a bike?",
    "Do you like tea?",
    "Do you like rain?",
    "Are you tired?",
    "Do you sing?",
    "Do you read?",
    "Do you cook?",
)


def _said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text}


def _prose(rng: random.Random, count: int) -> str:
    return " ".join(rng.choice(_WORDS) for _ in range(count))


def survey(count: int, rng: random.Random) -> list[Chat]:
    chats = []
    for _ in range(count):
        chat = [_said("system", "You run a survey. Ask one question at a time.")]
        chat.append(_said("user", "hi"))
        for question in _QUESTIONS:
            chat.append(_said("assistant", question))
            chat.append(_said("user", rng.choice(("yes", "no", "ok", "yes", "no"))))
        chats.append([*chat, _said("assistant", "Thank you.")])
    return chats


def drill(count: int, rng: random.Random) -> list[Chat]:
    chats = []
    for _ in range(count):
        chat = [_said("system", "You are a tutor.")]
        for _ in range(rng.randint(3, 8)):
            a, b = rng.randint(1, 9), rng.randint(1, 9)
            again = rng.choice(("ok", "No, show the steps please.", "thanks", "next", "yes"))
            reply = rng.choice(("ok", "Sure.", "You are welcome.", f"First {a}, then {b} more."))
            chat += [_said("user", f"What is {a}+{b}?"), _said("assistant", f"#### {a + b}")]
            chat += [_said("user", again), _said("assistant", reply)]
        chats.append(chat)
    return chats


def support(count: int, rng: random.Random) -> list[Chat]:
    chats = []
    for _ in range(count):
        chat = [_said("system", "You are a support agent of an airline. Be polite and precise.")]
        chat.append(_said("user", rng.choice(("Hello", "I need help with my booking."))))
        chat.append(_said("assistant", "Hello! How can I help you today?"))
        for _ in range(rng.randint(4, 12)):
            short = rng.choice(("ok", "yes", "no", "thanks!"))
            long = _prose(rng, rng.randint(2, 40))
            listed = f"{_prose(rng, 30)}\n\n- {_prose(rng, 5)}\n- {_prose(rng, 4)}"
            chat.append(_said("user", rng.choice((short, long))))
            replies = ("Is there anything else?", "Of course.", _prose(rng, 30), listed)
            chat.append(_said("assistant", rng.choice(replies)))
        chats.append(chat)
    return chats


def coding(count: int, rng: random.Random) -> list[Chat]:
    chats = []
    for _ in range(count):
        chat = [_said("system", "You are a coding agent. Use the tools.")]
        rename = f"Rename {rng.choice(_WORDS)} to {rng.choice(_WORDS)}."
        chat.append(_said("user", rng.choice(("Fix the failing test.", "Run the tests.", rename))))
        for _ in range(rng.randint(3, 10)):
            if rng.random() < 0.7:
                chat += _tools(rng)
            else:
                reply = rng.choice(("Done.", "The tests pass now.", _prose(rng, 25)))
                chat.append(_said("assistant", reply))
                words = rng.choice(("ok", "continue", f"now {_prose(rng, 4)}", "go on", "yes"))
                chat.append(_said("user", words))
        chats.append([*chat, _said("assistant", "Done.")])
    return chats


def _tools(rng: random.Random) -> Chat:
    calls, results = [], []
    for _ in range(rng.randint(1, 3)):
        name, arguments, result = rng.choice(
            (
                ("shell", {"cmd": "git status", "timeout": 10.0}, "nothing to commit"),
                ("shell", {"cmd": "pytest -q", "cwd": "/app"}, rng.choice(("1 failed", "passed"))),
                ("read", {"path": f"/app/{rng.choice(_WORDS)}.py", "to": 20}, _prose(rng, 60)),
                ("write", {"path": "/app/ü.py", "text": 'a"b\n/é'}, "ok"),
            )
        )
        identifier = f"call_{rng.getrandbits(64):016x}"
        function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
        calls.append({"id": identifier, "type": "function", "function": function})
        results.append({"role": "tool", "tool_call_id": identifier, "content": result})
    said = rng.choice((None, "", "Let me look.", "I run it."))
    return [{"role": "assistant", "content": said, "tool_calls": calls}, *results]


INVENTIONS: dict[str, Callable[[int, random.Random], list[Chat]]] = {
    "survey": survey,
    "drill": drill,
    "support": support,
    "coding": coding,
}
