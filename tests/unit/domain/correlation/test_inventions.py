"""Clients over made-up conversations that are easily confused: hardly a wrong link, ever."""

from __future__ import annotations

import copy
import random
import unicodedata
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.domain.correlation.inventions import INVENTIONS
from tests.unit.domain.correlation.variants import Client, Row, feed, play, score

Chat = list[dict[str, Any]]


def own_tag(number: int, k: int) -> str | None:
    return f"s-{number}"


def pair_tag(number: int, k: int) -> str | None:
    return f"p-{number // 2}"


def one_tag(number: int, k: int) -> str | None:
    return "default"


def window(count: int) -> Callable[[Chat, random.Random, float], Chat]:
    """The last messages, also when they begin in the middle of a tool exchange."""
    return lambda before, rng, at_s: [before[0], *before[1:][-count:]]


def summary_in_system(before: Chat, rng: random.Random, at_s: float) -> Chat:
    if len(before) < 7:
        return before
    note = f"Conversation summary ({len(before) - 5} messages): the user wants help."
    return [before[0], {"role": "system", "content": note}, *before[-4:]]


def summary_in_first_user(before: Chat, rng: random.Random, at_s: float) -> Chat:
    if len(before) < 8:
        return before
    text = f"{before[1]['content']}\n\n<summary>{len(before)} messages, all well</summary>"
    return [before[0], {"role": "user", "content": text}, *before[-4:]]


def cut_in_the_middle(before: Chat, rng: random.Random, at_s: float) -> Chat:
    for each in before[1:-2]:
        text = each.get("content") or ""
        if len(text) > 120:
            each["content"] = f"{text[:60]}\n...[truncated]...\n{text[-60:]}"
    return before


def results_as_user(before: Chat, rng: random.Random, at_s: float) -> Chat:
    chat: Chat = []
    for each in before:
        if each["role"] != "tool":
            chat.append(each)
            continue
        text = f"Tool result: {each['content']}"
        if chat[-1]["role"] == "user":
            text = f"{chat.pop()['content']}\n\n{text}"
        chat.append({"role": "user", "content": text})
    return chat


def decomposed(before: Chat, rng: random.Random, at_s: float) -> Chat:
    for each in before[1:]:
        form = rng.choice(("NFC", "NFD"))
        each["content"] = unicodedata.normalize(form, each.get("content") or "")
        each["content"] = each["content"].replace("\n", "\r\n")
    return before


def request_id(before: Chat, rng: random.Random, at_s: float) -> Chat:
    text = f"You help. Request {uuid.UUID(int=rng.getrandbits(128))}."
    return [{"role": "system", "content": text}, *before[1:]]


def counter(before: Chat, rng: random.Random, at_s: float) -> Chat:
    text = f"You help. You have {int(at_s) % 997} tokens left."
    return [{"role": "system", "content": text}, *before[1:]]


def id_in_first_user(before: Chat, rng: random.Random, at_s: float) -> Chat:
    before[1]["content"] = f"[trace {rng.getrandbits(64):016x}]\n{before[1]['content']}"
    return before


def reminder(before: Chat, rng: random.Random, at_s: float) -> Chat:
    if before[-1]["role"] == "user":
        before[-1]["content"] += f"\n<reminder>{rng.getrandbits(64):016x}</reminder>"
    return before


def environment(before: Chat, rng: random.Random, at_s: float) -> Chat:
    return [*before, {"role": "user", "content": f"<env>{at_s:.3f}</env>"}]


def at_home(before: Chat, rng: random.Random, at_s: float) -> Chat:
    last = max((i for i, each in enumerate(before) if each["role"] == "assistant"), default=0)
    return [before[0], *before[last + 1 :]]


def at_home_counting(before: Chat, rng: random.Random, at_s: float) -> Chat:
    return counter(at_home(before, rng, at_s), rng, at_s)


def channels(answer: dict[str, Any], name: str) -> dict[str, Any]:
    if not answer.get("content"):
        return answer
    head = f"<|channel|>analysis<|message|>weighing {name}<|end|>"
    return {**answer, "content": f"{head}<|channel|>final<|message|>{answer['content']}"}


def titles(rows: list[Row], rng: random.Random) -> list[Row]:
    """The client asks for a title, unmarked, as one more message after the newest."""
    asked = {"role": "user", "content": "Give this conversation a title of five words."}
    reply = {"role": "assistant", "content": "Help with a booking"}
    return [
        *rows,
        *(
            replace(
                row,
                name=f"{row.name}t",
                at_s=row.at_s + 0.3,
                follows=None,
                messages=[*row.messages, asked],
                reply=reply,
            )
            for row in rows[1:3]
        ),
    ]


def failures(rows: list[Row], rng: random.Random) -> list[Row]:
    """One call in five fails; the user adds a word and is answered."""
    result = []
    for row in rows:
        if row.messages[-1]["role"] == "user" and rng.random() < 0.2:
            failed = copy.deepcopy(row)
            failed.name, failed.at_s, failed.reply = f"{row.name}x", row.at_s - 1, None
            result.append(failed)
            row.messages = [*row.messages, {"role": "user", "content": "hello?"}]
        result.append(row)
    return result


def first_version(rows: list[Row], rng: random.Random) -> list[Row]:
    """One reply in five is regenerated, and the user goes on from the first one."""
    result, shift = [], 0.0
    for row in rows:
        row.at_s += shift
        result.append(row)
        if rng.random() < 0.2 and (row.reply or {}).get("content"):
            shift += 5.0
            assert row.reply is not None
            other = {**row.reply, "content": f"Otherwise: {row.reply['content']}"}
            result.append(
                replace(row, name=f"{row.name}r", follows=None, at_s=row.at_s + 5.0, reply=other)
            )
    return result


def branches(rows: list[Row], rng: random.Random) -> list[Row]:
    """The user goes back, writes otherwise, and goes on in both."""
    result = list(rows)
    for row in rows[1:]:
        if row.messages[-1]["role"] == "user" and rng.random() < 0.2:
            other = copy.deepcopy(row)
            other.name, other.at_s = f"{row.name}b", row.at_s + rng.uniform(1, 40)
            other.messages[-1]["content"] = f"Actually, {other.messages[-1]['content']}"
            other.reply = {"role": "assistant", "content": f"Fine, branch {row.name}."}
            on = [*other.messages, other.reply, {"role": "user", "content": "ok"}]
            result += [other]
            result.append(
                replace(
                    other,
                    name=f"{row.name}bb",
                    at_s=other.at_s + rng.uniform(2, 9),
                    messages=on,
                    follows=other.name,
                    reply={"role": "assistant", "content": "Good."},
                )
            )
    return result


def sub_agents(rows: list[Row], rng: random.Random) -> list[Row]:
    """Now and then two sub-agents work side by side, under the tag of their parent."""
    result = list(rows)
    for index, row in enumerate(rows[:-1]):
        if rng.random() >= 0.3:
            continue
        step = (rows[index + 1].at_s - row.at_s) / 6
        for agent in ("search", "review"):
            chat: Chat = [{"role": "system", "content": f"You are the {agent} agent. Do it."}]
            chat.append({"role": "user", "content": rng.choice(("Look.", f"Task {row.name}."))})
            before = None
            for k in range(rng.randint(1, 4)):
                text = rng.choice(("Working on it.", "Found it.", f"Result {rng.random():.5f}"))
                reply = {"role": "assistant", "content": text}
                name = f"{row.name}.{agent}.{k}"
                at_s = row.at_s + step * (k + 1) + 0.01 * (agent == "review")
                result.append(
                    Row(
                        name=name,
                        at_s=at_s,
                        messages=list(chat),
                        reply=reply,
                        tag=row.tag,
                        follows=before,
                    )
                )
                chat += [reply, {"role": "user", "content": rng.choice(("go on", "more", "ok"))}]
                before = name
    return result


CLIENTS = (
    Client(name="full"),
    Client(name="full, tag", tag=own_tag),
    Client(name="full, tag of two", tag=pair_tag),
    Client(name="full, one tag", tag=one_tag),
    Client(name="window of 3, orphans", shape=window(3)),
    Client(name="window of 4, orphans", shape=window(4)),
    Client(name="window of 5, orphans", shape=window(5)),
    Client(name="window of 4, tag of two", shape=window(4), tag=pair_tag),
    Client(name="summary as a system message", shape=summary_in_system),
    Client(name="summary in the first words", shape=summary_in_first_user),
    Client(name="long messages cut in the middle", shape=cut_in_the_middle),
    Client(name="results of tools as words of the user", shape=results_as_user),
    Client(name="accents decomposed, CRLF", shape=decomposed),
    Client(name="a request's id in the prompt", shape=request_id),
    Client(name="a counter in the prompt", shape=counter),
    Client(name="a request's id in the first words", shape=id_in_first_user),
    Client(name="a reminder in the newest words", shape=reminder),
    Client(name="a message of the environment at the end", shape=environment),
    Client(name="reasoning in channels", reply=channels),
    Client(name="history at home, tag", shape=at_home, tag=own_tag),
    Client(name="history at home, counter, tag", shape=at_home_counting, tag=own_tag),
    Client(name="titles", extra=titles),
    Client(name="failures", extra=failures),
    Client(name="first version kept", extra=first_version),
    Client(name="branches", extra=branches),
    Client(name="sub-agents, tag of the parent", extra=sub_agents, tag=own_tag),
    Client(name="sub-agents, no tag", extra=sub_agents),
)

DECIDABLE = {
    "full, tag": 0.99,
    "history at home, tag": 0.95,
    "history at home, counter, tag": 0.85,
}
"""What a tag tells apart is owed; without one, much of this cannot be decided by anybody."""
LEAST = {"survey": 0.1, "drill": 0.5, "support": 0.5, "coding": 0.85}


@pytest.mark.parametrize("invention", INVENTIONS)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_what_is_easily_confused_is_not_confused(client: Client, invention: str) -> None:
    rows = play(client, INVENTIONS[invention](30, random.Random(5)), seed=11)
    result = score(rows, feed(rows))
    assert result.precision >= 0.995, result.wrong
    assert result.recall >= DECIDABLE.get(client.name, LEAST[invention]), result.reasons
