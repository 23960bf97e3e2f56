"""Clients of other kinds than the benchmark's, each played over recorded conversations.

A client turns conversations into calls; `Row.follows` is the truth, for scoring only. A
conversation is a list of chat messages that starts with the system prompt. Every assistant
message is one call. Clients that make undecidable traffic are marked so: no link is owed there,
but a wrong one still counts.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from reef_release.domain.correlation import Binding, Call, Correlator

__all__ = ["CLIENTS", "Client", "Row", "Score", "feed", "play", "score"]

Chat = list[dict[str, Any]]


@dataclass(kw_only=True)
class Row:
    """One call with the name by which the truth speaks of it."""

    name: str
    at_s: float
    messages: Chat
    reply: dict[str, Any] | None
    tag: str | None = None
    follows: str | None = None
    turn_type: Any = None


@dataclass(frozen=True, kw_only=True)
class Score:
    recall: float
    precision: float
    links: int
    wrong: tuple[tuple[str, str | None, str], ...]
    reasons: dict[str, int] = field(default_factory=dict)


def feed(rows: Sequence[Row], correlator: Correlator | None = None) -> list[Binding]:
    correlator = correlator or Correlator()
    return [
        correlator.feed(
            Call(
                call_id=row.name,
                at_s=row.at_s,
                scenario="airline",
                tag=row.tag,
                turn_type=row.turn_type,
                messages=row.messages,
                reply=row.reply,
            )
        )
        for row in rows
    ]


def score(rows: Sequence[Row], bindings: Sequence[Binding]) -> Score:
    right = owed = given = 0
    wrong = []
    reasons: dict[str, int] = {}
    for row, binding in zip(rows, bindings, strict=True):
        owed += row.follows is not None
        given += binding.follows is not None
        if binding.follows is not None and binding.follows == row.follows:
            right += 1
        elif binding.follows is not None:
            wrong.append((row.name, row.follows, binding.follows))
        elif row.follows is not None:
            reason = str(binding.reason)
            reasons[reason] = reasons.get(reason, 0) + 1
    return Score(
        recall=right / owed if owed else 1.0,
        precision=right / given if given else 1.0,
        links=owed,
        wrong=tuple(wrong),
        reasons=reasons,
    )


Shape = Callable[[Chat, random.Random, float], Chat]


def _full(before: Chat, rng: random.Random, at_s: float) -> Chat:
    return before


@dataclass(frozen=True, kw_only=True)
class Client:
    """How a client resends (`shape`), tags (`tag`) and answers (`reply`)."""

    name: str
    shape: Shape = _full
    tag: Callable[[int, int], str | None] = lambda number, k: None
    reply: Callable[[dict[str, Any], str], dict[str, Any]] = lambda answer, name: answer
    conversation: Callable[[Chat, int], Chat] = lambda chat, number: chat
    extra: Callable[[list[Row], random.Random], list[Row]] | None = None
    spread_s: float = 600.0
    start: Callable[[int, random.Random], float] | None = None
    copies: int = 1
    least_recall: float = 0.99
    least_precision: float = 1.0


def play(client: Client, conversations: Sequence[Chat], seed: int) -> list[Row]:
    """The client's calls over all conversations, by time."""
    rng = random.Random(f"{client.name}:{seed}")
    rows: list[Row] = []
    numbered = [chat for chat in conversations for _ in range(client.copies)]
    for number, chat in enumerate(numbered):
        chat = client.conversation(copy.deepcopy(chat), number)
        at_s = client.start(number, rng) if client.start else rng.uniform(0, client.spread_s)
        mine: list[Row] = []
        for index, message in enumerate(chat):
            if message["role"] != "assistant":
                continue
            at_s += rng.uniform(2, 20)
            name = f"{number}#{len(mine)}"
            mine.append(
                Row(
                    name=name,
                    at_s=at_s,
                    messages=client.shape(copy.deepcopy(chat[:index]), rng, at_s),
                    reply=client.reply(message, name),
                    tag=client.tag(number, len(mine)),
                    follows=mine[-1].name if mine else None,
                )
            )
        rows += client.extra(mine, rng) if client.extra else mine
    return sorted(rows, key=lambda row: row.at_s)


# How clients resend -----------------------------------------------------------------------------


def _tail(before: Chat, count: int) -> Chat:
    tail = before[1:][-count:]
    while tail and tail[0]["role"] == "tool":
        tail = tail[1:]
    return tail


def _window(count: int) -> Shape:
    def shape(before: Chat, rng: random.Random, at_s: float) -> Chat:
        return [before[0], *_tail(before, count)]

    return shape


def _summary(where: str, count: int) -> Shape:
    def shape(before: Chat, rng: random.Random, at_s: float) -> Chat:
        if len(before) <= count + 2:
            return before
        tail = _tail(before, count)
        text = f"Summary of {len(before) - 1 - len(tail)} earlier messages: work is under way."
        head = dict(before[0])
        if where == "system":
            head["content"] += f"\n\n# Earlier\n{text}"
            return [head, *tail]
        if where == "second system":
            return [head, {"role": "system", "content": text}, *tail]
        if where == "assistant":
            return [head, {"role": "assistant", "content": text}, *tail]
        if where == "pair":
            understood = {"role": "assistant", "content": "Understood, I will go on from there."}
            return [head, {"role": "user", "content": text}, understood, *tail]
        return [head, {"role": "user", "content": text}, *tail]

    return shape


def _drop_tools(before: Chat, rng: random.Random, at_s: float) -> Chat:
    old, new = before[:-3], before[-3:]
    if new and new[0]["role"] == "tool":
        old, new = before[:-4], before[-4:]
    kept = [each for each in old if each["role"] != "tool" and not each.get("tool_calls")]
    return [*kept, *new]


def _cut_results(before: Chat, rng: random.Random, at_s: float) -> Chat:
    for each in before[:-2]:
        if each["role"] == "tool" and len(each["content"]) > 40:
            each["content"] = "[result left out]"
    return before


def _clock(form: Callable[[float], str]) -> Shape:
    def shape(before: Chat, rng: random.Random, at_s: float) -> Chat:
        before[0]["content"] = f"{form(at_s)}\n{before[0]['content']}"
        return before

    return shape


def _iso(at_s: float) -> str:
    day, minute = 1 + int(at_s) // 600, int(at_s) // 60 % 60
    return f"Now: 2025-03-{day:02d}T15:{minute:02d}:{at_s % 60:06.3f}Z"


def _words(at_s: float) -> str:
    day = ("Monday", "Tuesday", "Wednesday")[int(at_s) // 300 % 3]
    return f"It is {day}, {1 + int(at_s) // 60 % 28} March, {int(at_s)} s past."


def _only_clock(form: Callable[[float], str]) -> Shape:
    def shape(before: Chat, rng: random.Random, at_s: float) -> Chat:
        return [{"role": "system", "content": f"You book flights. {form(at_s)}"}, *before[1:]]

    return shape


def _retrieved(before: Chat, rng: random.Random, at_s: float) -> Chat:
    facts = " ".join(f"Fact {rng.randrange(10**6)} holds." for _ in range(40))
    before[0]["content"] += f"\n\nWhat we know:\n{facts}"
    return before


def _reserialised(before: Chat, rng: random.Random, at_s: float) -> Chat:
    for message in before:
        for call in message.get("tool_calls") or []:
            arguments = json.loads(call["function"]["arguments"])
            turned = dict(reversed(list(arguments.items())))
            call["function"]["arguments"] = json.dumps(turned, indent=rng.choice([None, 1, 2]))
            call.pop("id", None)
            call["index"] = 0
        message.pop("tool_call_id", None)
        if message["role"] == "assistant":
            message.setdefault("refusal", None)
            message["content"] = message.get("content") or ""
    return before


def _respaced(before: Chat, rng: random.Random, at_s: float) -> Chat:
    for message in before:
        if isinstance(message.get("content"), str):
            spaced = message["content"].replace("\n\n", "\n").replace(". ", ".  ")
            message["content"] = f"{spaced}\n"
    return before


def _parts(before: Chat, rng: random.Random, at_s: float) -> Chat:
    for message in before[1:]:
        if isinstance(message.get("content"), str) and rng.random() < 0.7:
            message["content"] = [{"type": "text", "text": message["content"]}]
    return before


def _redacted(before: Chat, rng: random.Random, at_s: float) -> Chat:
    """Old words of the user are edited once they are four messages back."""
    for message in before[1:-4]:
        if message["role"] == "user":
            message["content"] = "[removed] " + message["content"][:10]
    return before


def _wrapped(before: Chat, rng: random.Random, at_s: float) -> Chat:
    """Only the newest message carries what the client puts round the user's words."""
    if before[-1]["role"] == "user":
        before[-1]["content"] = f"<environment>{at_s:.0f}</environment>\n{before[-1]['content']}"
    return before


def _newest(before: Chat, rng: random.Random, at_s: float) -> Chat:
    return [before[0], before[-1]]


def _chain(*shapes: Shape) -> Shape:
    def shape(before: Chat, rng: random.Random, at_s: float) -> Chat:
        for each in shapes:
            before = each(before, rng, at_s)
        return before

    return shape


EXAMPLES: Chat = [
    {"role": "user", "content": "Is my booking confirmed?"},
    {"role": "assistant", "content": "Yes."},
    {"role": "user", "content": "Can I cancel?"},
    {"role": "assistant", "content": "Could you please provide your user ID?"},
]


def _examples(before: Chat, rng: random.Random, at_s: float) -> Chat:
    return [before[0], *copy.deepcopy(EXAMPLES), *before[1:]]


# What happens besides -----------------------------------------------------------------------------


def _branches(rows: list[Row], rng: random.Random) -> list[Row]:
    """Now and then the user goes back, writes the last message otherwise, and goes on there."""
    result: list[Row] = []
    for index, row in enumerate(rows):
        if index and rng.random() < 0.2 and row.messages[-1]["role"] == "user":
            first = copy.deepcopy(row)
            first.messages[-1]["content"] = "Wait, " + first.messages[-1]["content"][:15]
            first.name = f"{row.name}x"
            first.reply = {"role": "assistant", "content": f"All right, I wait ({row.name})."}
            first.at_s -= rng.uniform(0.2, 1.5)
            result.append(first)
        result.append(row)
    return result


def _asked_again(gap: tuple[float, float], other: bool) -> Callable[..., list[Row]]:
    """One call in seven comes again; with *other*, it is answered otherwise the first time."""

    def extra(rows: list[Row], rng: random.Random) -> list[Row]:
        result: list[Row] = []
        shift = 0.0
        names: dict[str | None, str | None] = {}
        for row in rows:
            row.at_s += shift
            row.follows = names.get(row.follows, row.follows)
            result.append(row)
            if rng.random() < 0.15 and (row.reply or {}).get("content"):
                again = replace(row, name=f"{row.name}r", follows=None)
                pause = rng.uniform(*gap)
                shift += pause
                again.at_s += pause
                if other:
                    assert row.reply is not None
                    row.reply = {**row.reply, "content": f"Well, {row.reply['content']}"}
                    names[row.name] = again.name
                result.append(again)
        return result

    return extra


def _aborted(rows: list[Row], rng: random.Random) -> list[Row]:
    """A watchdog aborts one call in seven after half a minute and sends it again."""
    result: list[Row] = []
    shift = 0.0
    names: dict[str | None, str | None] = {}
    for row in rows:
        row.at_s += shift
        row.follows = names.get(row.follows, row.follows)
        result.append(row)
        if rng.random() < 0.15:
            again = replace(row, name=f"{row.name}r", follows=None)
            row.reply = None
            names[row.name] = again.name
            shift += 30.0
            again.at_s += 30.0
            result.append(again)
    return result


def _unrecorded(rows: list[Row], rng: random.Random) -> list[Row]:
    """One reply in twenty reached the client but not the record."""
    lost = {row.name for row in rows if rng.random() < 0.05}
    return [
        replace(
            row,
            reply=None if row.name in lost else row.reply,
            follows=None if row.follows in lost else row.follows,
        )
        for row in rows
    ]


def _titled(rows: list[Row], rng: random.Random) -> list[Row]:
    """The client asks for a title, unmarked, with the history and a prompt of its own."""
    if len(rows) < 2:
        return rows
    title = copy.deepcopy(rows[1])
    title.name, title.follows = f"{title.name}t", None
    title.at_s -= 1.0
    title.messages[0]["content"] = "You name conversations. Answer with four words."
    title.messages[-1] = {"role": "user", "content": "Name this conversation."}
    title.reply = {"role": "assistant", "content": "Help with a flight"}
    return [*rows, title]


def _prompted(prompt: str) -> Callable[[Chat, int], Chat]:
    def conversation(chat: Chat, number: int) -> Chat:
        chat[0]["content"] = f"You are {prompt} {'AB'[number % 2]}.\n{chat[0]['content']}"
        return chat

    return conversation


def _short_prompt(chat: Chat, number: int) -> Chat:
    chat[0]["content"] = f"You are agent {'AB'[number % 2]}."
    return chat


def _talk_only(chat: Chat, number: int) -> Chat:
    """The conversation without tools: users and assistants in turn."""
    kept = [each for each in chat if each["role"] != "tool" and not each.get("tool_calls")]
    talk = kept[:1]
    for each in kept[1:]:
        if each["role"] != talk[-1]["role"]:
            talk.append(each)
    return talk


def _same_start(chat: Chat, number: int) -> Chat:
    """Everybody opens with the same words and gets the same first reply."""
    chat[1] = {"role": "user", "content": "Hi, I need help with my booking."}
    chat[2] = {"role": "assistant", "content": "Of course. What is your user ID?"}
    if chat[3]["role"] == "tool":
        chat[3] = {"role": "user", "content": f"It is user_{number}."}
    return chat


def _no_opening_tag(answer: dict[str, Any], name: str) -> dict[str, Any]:
    if not answer.get("content"):
        return answer
    return {**answer, "content": f"weighing {name}\n</think>\n\n{answer['content']}"}


def _by_user(number: int, k: int) -> str:
    return f"user-{number % 10}"


def _in_turn(number: int, rng: random.Random) -> float:
    """The conversations of one user come one after the other."""
    return number // 10 * 2000.0 + rng.uniform(0, 100)


def _pairs(number: int, rng: random.Random) -> float:
    return number // 2 * 10.0


CLIENTS: tuple[Client, ...] = (
    Client(name="window of 2", shape=_window(2), least_recall=0.9),
    Client(name="window of 3", shape=_window(3)),
    Client(name="window of 4", shape=_window(4)),
    Client(name="window of 10", shape=_window(10)),
    Client(name="summary in the system prompt", shape=_summary("system", 6)),
    Client(name="summary as second system message", shape=_summary("second system", 6)),
    Client(name="summary as an assistant message", shape=_summary("assistant", 6)),
    Client(name="summary as a pair of messages", shape=_summary("pair", 6)),
    Client(name="summary and four messages", shape=_summary("user", 4)),
    Client(name="summary and one exchange", shape=_summary("user", 2), least_recall=0.7),
    Client(name="old tool messages dropped", shape=_drop_tools),
    Client(name="old tool results cut", shape=_cut_results),
    Client(name="clock, ISO", shape=_clock(_iso)),
    Client(name="clock, in words", shape=_clock(_words)),
    Client(name="clock in a short prompt", shape=_only_clock(_iso)),
    Client(name="seconds in a short prompt", shape=_only_clock(lambda at_s: f"Second {at_s:.0f}.")),
    Client(name="clock and window", shape=_chain(_window(6), _clock(_iso))),
    Client(name="facts in the system prompt", shape=_retrieved),
    Client(name="tool arguments serialised anew", shape=_reserialised),
    Client(
        name="serialised anew, window of 6",
        shape=_chain(_window(6), _reserialised),
        least_recall=0.9,
    ),
    Client(name="white space", shape=_respaced),
    Client(name="content parts", shape=_parts),
    Client(name="earlier words edited", shape=_redacted),
    Client(name="newest words wrapped", shape=_wrapped, least_recall=0.95),
    Client(name="reasoning without its opening tag", reply=_no_opening_tag),
    Client(name="examples before each request", shape=_examples),
    Client(
        name="examples, history at home, tag",
        shape=_chain(_newest, _examples),
        tag=lambda number, k: f"s-{number}",
        least_recall=0.98,
    ),
    Client(name="branches", extra=_branches),
    Client(
        name="regenerated later, tag",
        extra=_asked_again((5, 40), True),
        tag=lambda number, k: f"s-{number}",
    ),
    Client(
        name="retried, tag",
        extra=_asked_again((0.5, 2), False),
        tag=lambda number, k: f"s-{number}",
    ),
    Client(name="aborted and sent again", extra=_aborted),
    Client(name="aborted and sent again, window of 6", shape=_window(6), extra=_aborted),
    Client(name="titles, unmarked", extra=_titled),
    Client(name="tag per user", tag=_by_user, start=_in_turn, least_recall=0.99),
    Client(
        name="stale tag on the first call",
        tag=lambda number, k: f"s-{number if k else number - 1}",
        start=lambda number, rng: number * 400.0,
    ),
    Client(
        name="stale tag, side by side", tag=lambda number, k: f"s-{number if k else number - 1}"
    ),
    Client(name="a tag per call", tag=lambda number, k: f"{number}-{k}"),
    Client(
        name="sub-agents under one tag",
        tag=lambda number, k: f"pair-{number // 2}",
        conversation=_prompted("sub-agent"),
        start=_pairs,
    ),
    Client(
        name="sub-agents, one prompt",
        tag=lambda number, k: f"pair-{number // 2}",
        start=_pairs,
        # Before the first echo, such tags look like sessions of clients with history at home.
        least_precision=0.99,
    ),
    Client(
        name="sub-agents, history at home",
        tag=lambda number, k: f"pair-{number // 2}",
        shape=_newest,
        conversation=_short_prompt,
        start=_pairs,
        # An agent that has not used a tool yet is not bound by a tag that others share.
        least_recall=0.8,
    ),
    Client(
        name="history at home, clock",
        shape=_chain(_newest, _clock(_iso)),
        tag=lambda number, k: f"s-{number}",
        least_recall=0.98,
    ),
    Client(
        name="history at home, talk only",
        shape=_newest,
        conversation=_talk_only,
        tag=lambda number, k: f"s-{number}",
        least_recall=0.97,
    ),
    Client(
        name="history at home, sent again late",
        shape=_newest,
        tag=lambda number, k: f"s-{number}",
        extra=_asked_again((5, 40), False),
        least_recall=0.98,
    ),
    Client(
        name="history at home, regenerated late",
        shape=_newest,
        tag=lambda number, k: f"s-{number}",
        extra=_asked_again((5, 40), True),
        least_recall=0.95,
        least_precision=0.99,
    ),
    Client(
        name="history at home, no ids",
        shape=_chain(_newest, _reserialised),
        tag=lambda number, k: f"s-{number}",
        least_recall=0.98,
    ),
    # Nothing tells a user's next conversation from this one; six hours of silence would.
    Client(
        name="history at home, tag per user",
        shape=_newest,
        tag=_by_user,
        start=_in_turn,
        least_recall=0.9,
        least_precision=0.9,
    ),
    # Where it cannot be told which sub-agent a user answers, tags stop being believed.
    Client(
        name="history at home, sub-agents, one prompt",
        shape=_newest,
        tag=lambda number, k: f"pair-{number // 2}",
        start=_pairs,
        least_recall=0.3,
        least_precision=0.9,
    ),
    Client(name="replies that were not recorded", extra=_unrecorded, least_precision=0.99),
    Client(
        name="history at home, one tag for all",
        shape=_newest,
        conversation=_talk_only,
        tag=lambda number, k: "default",
        least_recall=0.0,
    ),
    # Equal openings within two seconds that are answered alike are taken for a retry.
    Client(
        name="same opening and reply",
        conversation=_same_start,
        least_recall=0.8,
        least_precision=0.99,
    ),
    Client(
        name="same opening and reply, tag",
        conversation=_same_start,
        tag=lambda number, k: f"s-{number}",
    ),
    Client(
        name="same opening, window of 6",
        conversation=_same_start,
        shape=_window(6),
        least_recall=0.8,
        least_precision=0.99,
    ),
    Client(
        name="every conversation twice",
        copies=2,
        spread_s=6000.0,
        least_recall=0.9,
        least_precision=0.99,
    ),
)
