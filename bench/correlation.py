"""How well calls are matched to the calls that they continue: `python -m bench.correlation`.

Recall and precision of `follows` for the nine clients of the shared traffic generator on three
seeds, beside plain matching (the call before under the tag, else the same transcript), and for
clients of other kinds. Then what a call costs with 100 and with 100,000 sessions open, all of
which began alike or all of which differ, and what is kept in memory of sessions that never end.
The truth is read when scoring, and never before.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import resource
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from reef_release.domain.correlation import Call, Correlator
from reef_release.domain.correlation.request import read_request
from tests.unit.domain.correlation.variants import CLIENTS, feed, play, score

SHARED = Path(__file__).resolve().parents[1].parent / "shared"
TARGETS = {
    "tagged": (1.0, 1.0),
    "full": (1.0, 1.0),
    "no-think": (1.0, 1.0),
    "retries": (1.0, 1.0),
    "fresh": (0.992, 0.998),
    "window": (0.99, 0.999),
    "compaction": (0.98, 0.999),
    "regenerate": (0.99, 0.999),
    "reused-tag": (0.98, 0.999),
}

Row = dict[str, Any]
Matcher = Callable[[Sequence[Row]], list[int | None]]


def generator(shared: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "session_traffic", shared / "bench" / "session_traffic.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def call_of(number: int, row: Row, prefix: str = "") -> Call:
    return Call(
        call_id=f"{prefix}{number}",
        at_s=row["at"],
        scenario=row["scenario"],
        tag=row["tag"],
        messages=row["request"]["messages"],
        reply=row["response"],
    )


def correlated(rows: Sequence[Row]) -> list[int | None]:
    correlator = Correlator()
    bindings = [correlator.feed(call_of(number, row)) for number, row in enumerate(rows)]
    return [None if each.follows is None else int(each.follows) for each in bindings]


def plainly(rows: Sequence[Row]) -> list[int | None]:
    """The call before under the tag, else the one whose request and reply this one begins with."""
    by_tag: dict[str, int] = {}
    by_transcript: dict[str, int] = {}
    found: list[int | None] = []
    for number, row in enumerate(rows):
        messages = row["request"]["messages"]
        if row["tag"] is not None:
            found.append(by_tag.get(row["tag"]))
            by_tag[row["tag"]] = number
        else:
            last = max((i for i, m in enumerate(messages) if m["role"] == "assistant"), default=-1)
            found.append(by_transcript.get(json.dumps(messages[: last + 1])))
        by_transcript[json.dumps([*messages, row["response"]])] = number
    return found


def rates(rows: Sequence[Row], found: Sequence[int | None]) -> tuple[float, float]:
    names = [row["truth"]["call"] for row in rows]
    owed = [row["truth"]["follows"] for row in rows]
    given = [None if each is None else names[each] for each in found]
    right = sum(a is not None and a == b for a, b in zip(given, owed, strict=True))
    return (
        right / max(1, sum(each is not None for each in owed)),
        right / max(1, sum(each is not None for each in given)),
    )


def nine_clients(make: ModuleType, conversations: list[Row], seeds: Sequence[int]) -> bool:
    good = True
    print(f"{'client':<12}{'recall':>8}{'precision':>11}   {'plain':>6}{'':>7}   target")
    for client, target in TARGETS.items():
        for seed in seeds:
            rows = make.traffic(conversations, client, seed)
            recall, precision = rates(rows, correlated(rows))
            plain = rates(rows, plainly(rows))
            reached = recall >= target[0] and precision >= target[1]
            good &= reached
            print(
                f"{client:<12}{recall:>8.4f}{precision:>11.4f}   {plain[0]:>6.3f}{plain[1]:>7.3f}"
                f"   {target[0]:.3f} {target[1]:.3f}  seed {seed}{'' if reached else '  MISSED'}"
            )
    return good


def other_clients(conversations: list[Row], seed: int) -> None:
    print(f"\n{'other clients':<42}{'recall':>8}{'precision':>11}   left out because")
    chats = [each["messages"] for each in conversations]
    for client in CLIENTS:
        rows = play(client, chats, seed)
        result = score(rows, feed(rows))
        why = ", ".join(f"{reason} {count}" for reason, count in result.reasons.items())
        print(f"{client.name:<42}{result.recall:>8.4f}{result.precision:>11.4f}   {why}")


def filling(count: int, alike: bool) -> Iterator[Call]:
    for number in range(count):
        words = "Hello, I need help." if alike else f"Hello, I am user {number} and need help."
        said = "Of course. What is it?" if alike else f"Of course, user {number}. What is it?"
        yield Call(
            call_id=f"open-{number}",
            at_s=number * 0.001,
            scenario="airline",
            messages=[
                {"role": "system", "content": "You help people with their flights."},
                {"role": "user", "content": words},
            ],
            reply={"role": "assistant", "content": said},
        )


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * resource.getpagesize()


def costs(rows: Sequence[Row]) -> None:
    """Processor time per call, so that what else runs on the machine is not measured."""
    print(f"\n{'open sessions':<26}{'median us':>10}{'p99 us':>9}{'hashing us':>11}")
    calls = [call_of(number, row) for number, row in enumerate(rows)]
    for count, alike in ((100, False), (100_000, False), (100_000, True)):
        before = resident_bytes()
        correlator = Correlator()
        for call in filling(count, alike):
            correlator.feed(call)
        each = (resident_bytes() - before) / count
        took, hashing = [], []
        gc.collect()
        gc.disable()  # a collection in the middle of a call would be charged to it
        for call in calls:
            start = time.thread_time()
            correlator.feed(call)
            middle = time.thread_time()
            read_request(call.messages)
            hashing.append(time.thread_time() - middle)
            took.append(middle - start)
        gc.enable()
        name = f"{count:,}{', began alike' if alike else ''}"
        p99 = sorted(took)[int(len(took) * 0.99)]
        print(
            f"{name:<26}{statistics.median(took) * 1e6:>10.0f}{p99 * 1e6:>9.0f}"
            f"{statistics.median(hashing) * 1e6:>11.0f}"
        )
        if count > 1000 and not alike:
            print(f"{'':<26}{each:,.0f} bytes per open session of one call")
        del correlator


def never_ending(count: int, rounds: int) -> None:
    """All sessions speak in turn, each under its tag, for ever."""
    gc.collect()
    before = resident_bytes()
    correlator = Correlator()
    for number in range(count * rounds):
        session, turn = number % count, number // count
        chat = []
        for k in range(max(0, turn - 2), turn + 1):
            chat.append({"role": "user", "content": f"Question {k} of {session}?"})
            chat.append({"role": "assistant", "content": f"Answer {k} to {session}."})
        correlator.feed(
            Call(
                call_id=f"{number:036d}",
                at_s=number * 0.001,
                scenario="airline",
                tag=f"session-{session}",
                messages=chat[:-1],
                reply=chat[-1],
            )
        )
        if number % count == count - 1:
            taken = (resident_bytes() - before) / 1e6
            bound = sum(correlator.tally("airline").bound.values())
            left = number + 1 - count - bound
            print(f"{count:>8,} sessions, {turn + 1:>2} calls each: {taken:>5.0f} MB, {left} lost")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared", type=Path, default=SHARED, help="where data and bench lie")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--short", action="store_true", help="the nine clients on one seed only")
    options = parser.parse_args()
    data = options.shared / "data" / "airline_conversations_60.jsonl"
    if not data.is_file():
        print(f"Skipped: {data} is missing; name the folder above it with --shared.")
        return
    conversations = [json.loads(line) for line in data.read_text("utf-8").splitlines()]
    make = generator(options.shared)
    good = nine_clients(make, conversations, options.seeds[:1] if options.short else options.seeds)
    if not options.short:
        other_clients(conversations, options.seeds[0])
        costs(make.traffic(conversations, "window", options.seeds[0]))
        print("\nsessions that never end")
        never_ending(10_000, 12)
        never_ending(100_000, 4)
    raise SystemExit(0 if good else 1)


if __name__ == "__main__":
    main()
