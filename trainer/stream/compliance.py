"""How well an endpoint follows what its prompt says: the figures to have before any training.

    python -m trainer.stream.compliance --base-url http://127.0.0.1:8000/v1 --count 100

Measured with fresh tasks of the stream's kind, by the student's own reading: the bare question;
a hint in a wording that the tiny policy's warm start saw, and in one that it did not; complaints
as the memory arm notes them, at every place in the prompt, one, three and eight of them;
instructions in the memory's Markdown; and the further replies of a session, as they are and with
a hint added (what a teacher sees).
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from reef_release.errors import ReefError
from trainer.stream.endpoint import Endpoint
from trainer.stream.intervals import share_interval
from trainer.stream.memory import PLACEMENTS, Memory, Placement, with_memory
from trainer.stream.sessions import MAX_REPLIES, call_seed, continued
from trainer.stream.student import Reaction, Student
from trainer.stream.tasks import Task, fresh_tasks
from trainer.stream.taste import Taste, load_taste
from trainer.tiny.phrases import hints, with_hint

__all__ = ["Row", "main", "measure", "shares"]

Messages = list[dict[str, str]]
_NOTES = (1, 3, 8)
_KIND = "style"
_PLAIN_WIDTH = 120


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Counts over the replies under one condition."""

    condition: str
    count: int
    style: int
    """No mark that the student minds."""
    right: int
    accepted: int
    cut: int


def measure(endpoint: Endpoint, taste: Taste, count: int, seed: int) -> Iterator[Row]:
    """Every condition on the same *count* tasks. Raises as the endpoint does."""
    tasks = fresh_tasks(count, seed, 0)
    ask = _Asking(endpoint, taste, seed)
    yield ask.row("bare question", tasks, lambda messages, _: messages)
    for part in ("trained", "held_out"):
        texts = hints(_KIND, part)
        yield ask.row(f"hint, {part.replace('_', ' ')} wording", tasks, _hinting(texts))
    yield from ask.memories("complaints", tasks, taste.complaints[_KIND])
    yield from ask.memories("instructions", tasks, hints(_KIND, "held_out"), notes=(1,))
    yield from ask.sessions(tasks)


class _Asking:
    """One endpoint, asked on many conditions."""

    def __init__(self, endpoint: Endpoint, taste: Taste, seed: int) -> None:
        self._endpoint = endpoint
        self._taste = taste
        self._seed = seed

    def row(
        self,
        condition: str,
        tasks: Sequence[Task],
        shown: Callable[[Messages, random.Random], Messages],
    ) -> Row:
        """First replies to *tasks*, each *shown* in some way."""
        reactions = []
        for place, task in enumerate(tasks):
            rng = random.Random(f"{self._seed}/{place}")  # noqa: S311  # reproducible, no secret
            messages = shown([{"role": "user", "content": task.question}], rng)
            reactions.append(self._reply(place, 0, messages, self._student(place, task)))
        return _row(condition, reactions)

    def memories(
        self,
        what: str,
        tasks: Sequence[Task],
        texts: Sequence[str],
        notes: Sequence[int] = _NOTES,
    ) -> Iterator[Row]:
        """A memory with some of *texts* in it, by how many and where in the prompt."""
        for wanted in notes:
            for placement in PLACEMENTS:
                words = f"memory of {wanted} {what}, {placement}"
                yield self.row(words, tasks, _remembering(texts, wanted, placement))

    def sessions(self, tasks: Sequence[Task]) -> Iterator[Row]:
        """Later replies of sessions that go on until one is accepted, bare and hinted."""
        plain: list[list[_Asked]] = [[] for _ in range(MAX_REPLIES)]
        hinted: list[list[_Asked]] = [[] for _ in range(MAX_REPLIES)]
        hint = _hinting(hints(_KIND, "held_out"))
        for place, task in enumerate(tasks):
            rng = random.Random(f"{self._seed}/{place}")  # noqa: S311  # reproducible, no secret
            student = self._student(place, task)
            messages = [{"role": "user", "content": task.question}]
            for reply in range(MAX_REPLIES):
                if reply:
                    teacher = hint(messages, rng)
                    reader = self._student(place, task)
                    hinted[reply].append(self._reply(place, reply, teacher, reader))
                asked = self._reply(place, reply, messages, student)
                plain[reply].append(asked)
                if asked.reaction.accepted:
                    break
                messages = continued(messages, asked.text, asked.reaction)
        for reply in range(1, MAX_REPLIES):
            yield _row(f"reply {reply + 1} of a session", plain[reply])
            yield _row(f"reply {reply + 1} of a session, hinted", hinted[reply])

    def _student(self, place: int, task: Task) -> Student:
        return Student(self._taste, f"{self._seed}/{place}", task.key)

    def _reply(self, place: int, reply: int, messages: Messages, student: Student) -> _Asked:
        answer = self._endpoint.chat(
            messages,
            call_seed(self._seed, place, reply),
            headers={"x-reef-tag-turn-type": "side"},
        )
        return _Asked(
            text=answer.text, cut=answer.cut, reaction=student.react(answer.text, cut=answer.cut)
        )


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    cut: bool
    reaction: Reaction


def _hinting(texts: Sequence[str]) -> Callable[[Messages, random.Random], Messages]:
    return lambda messages, rng: with_hint(messages, rng.choice(texts))


def _remembering(
    texts: Sequence[str], notes: int, placement: Placement
) -> Callable[[Messages, random.Random], Messages]:
    def shown(messages: Messages, rng: random.Random) -> Messages:
        with tempfile.TemporaryDirectory(prefix="reef-memory-") as scratch:
            memory = Memory(Path(scratch) / "memory.md")
            for session, text in enumerate(rng.sample(texts, notes), 1):
                memory.add(session, text)
            return with_memory(messages, memory, placement)

    return shown


def _row(condition: str, asked: Sequence[_Asked]) -> Row:
    return Row(
        condition=condition,
        count=len(asked),
        style=sum(each.reaction.kind != _KIND for each in asked),
        right=sum(each.reaction.right for each in asked),
        accepted=sum(each.reaction.accepted for each in asked),
        cut=sum(each.cut for each in asked),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0, or 2 with an error that says what to do."""
    parser = argparse.ArgumentParser(
        prog="python -m trainer.stream.compliance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--base-url", required=True, help="the endpoint, with or without /v1")
    parser.add_argument("--model", help="by default the only one that is served")
    parser.add_argument("--count", type=int, default=100, help="tasks per condition")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--json", action="store_true", help="JSON lines instead of a table")
    given = parser.parse_args(arguments)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
    table = Table(title="Shares of replies that follow, by what the prompt says")
    for column in ("condition", "replies", "style", "right", "accepted", "cut"):
        table.add_column(column, justify="left" if column == "condition" else "right")
    try:
        with Endpoint(
            given.base_url,
            model=given.model,
            key=os.environ.get("OPENAI_API_KEY"),
            temperature=given.temperature,
            max_tokens=given.max_tokens,
        ) as endpoint:
            for row in measure(endpoint, load_taste("homework"), given.count, given.seed):
                if given.json:
                    print(msgspec.json.encode(row).decode(), flush=True)
                table.add_row(row.condition, str(row.count), *shares(row))
    except ReefError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    if not given.json:
        console.print(table)
    return 0


def shares(row: Row) -> list[str]:
    """Of style, right and accepted with their intervals, and of cut replies; "-" without any."""
    if not row.count:
        return ["-"] * 4
    *shown, cut = (row.style, row.right, row.accepted, row.cut)
    return [*(_share(count, row.count) for count in shown), f"{cut / row.count:.2f}"]


def _share(count: int, total: int) -> str:
    low, high = share_interval(count, total)
    return f"{count / total:.2f} ({low:.2f} to {high:.2f})"


if __name__ == "__main__":
    sys.exit(main())
