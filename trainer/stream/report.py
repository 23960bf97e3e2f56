"""A study of the homework stream as a page: settings, a table of every seed, a picture.

What always holds: the page is a function of the file of figures beside it, which is one of the
rows and the machine; every row that is there is shown, whatever came of it; rows of several names
are never mixed.

    ROWS/NAME/study.json         the settings of all rows of that name
    ROWS/NAME/ARM-SEED.jsonl     what `python -m trainer.stream` wrote
    ROWS/NAME/facts-SEED.json    what the service said afterwards, and how long it took
"""

from __future__ import annotations

import math
import os
import platform
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from reef_release.errors import SettingsError
from trainer.stream.intervals import mean_interval, median_interval, share_interval
from trainer.stream.records import read_records
from trainer.stream.summary import ArmSummary, SeedSummary, summarise

__all__ = ["MAIN", "Rows", "Study", "read_study", "write_page"]

MAIN = "homework"
"""The name of the rows that are the study; the others stand beside it."""
_WINDOW = 5
_LAST = 12
_KEPT_WANTED = 0.95

_NOT_ESTABLISHED = (
    "That anything larger learns this way. The policy has under a million parameters, and was "
    "warm-started on problems of the same kind and on hints of the same grammar.",
    "That people react like this. The student follows rules, complains whenever its taste is "
    "broken and never for another reason; the judge's rules were written by the same authors.",
    "That it learns more than one taste, several users' tastes at once, or a change of mind.",
    "That the order of arms, the memory's wording or the turns of a batch are the best ones: they "
    "were chosen on other seeds, by far fewer runs than would tell small differences apart.",
    "That the right answers of a seed are kept or lost by exactly so much: a share of 100 tasks is "
    "off by some three hundredths by chance alone.",
    "How much rows of other settings differ: of so few seeds, they show what learns and what never "
    "does, and no more. Under the objective `trl` the KL divergences are not measured, so the "
    "watches that stop the policy term alone could not stop it.",
    "That candidates were better than what was served before: the gate of the study and of most "
    "rows asks for five passes in a row and compares with nothing. Rows named `default-gate` are "
    "the same seeds and settings under the default policy, run once: three in a row and better "
    "than the incumbent, within one error budget ([its odds](gate.md)).",
    "Anything about problems outside the generator's families.",
)


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What the service says of one seed's learning."""

    seconds: dict[str, float]
    candidates: dict[str, int]
    judged: int
    batched: int
    trained: int
    refused: dict[str, int]


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of one name."""

    name: str
    study: dict[str, Any]
    arms: list[ArmSummary]
    facts: dict[int, Facts]

    def seeds(self, arm: str) -> dict[int, SeedSummary]:
        """An arm's seeds by number."""
        return {each.seed: each for found in self.arms if found.arm == arm for each in found.seeds}


class Study(msgspec.Struct, frozen=True, kw_only=True):
    """All rows, the study's first; what the page is made of."""

    day: str
    """Of the newest row."""
    machine: str
    rows: list[Rows]


def read_study(source: Path) -> Study:
    """The rows below a directory, or the file of figures that came of them.

    Raises `SettingsError`.
    """
    try:
        if source.is_file():
            return msgspec.json.decode(source.read_bytes(), type=Study)
        rows = [_read_rows(each.parent) for each in sorted(source.glob("*/study.json"))]
        newest = max((each.stat().st_mtime for each in source.glob("*/*.jsonl")), default=0.0)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"{source} has no rows of a study: {error}.",
            next_step="Give the directory that bench/homework.py wrote.",
        ) from error
    return Study(
        day=datetime.fromtimestamp(newest, UTC).date().isoformat(),
        machine=(
            f"{os.cpu_count()} cores ({platform.machine()}, Python {platform.python_version()})"
        ),
        rows=sorted(
            (each for each in rows if each.arms), key=lambda each: (each.name != MAIN, each.name)
        ),
    )


def _read_rows(directory: Path) -> Rows:
    return Rows(
        name=directory.name,
        study=msgspec.json.decode((directory / "study.json").read_bytes(), type=dict[str, Any]),
        arms=summarise(read_records(sorted(directory.glob("*.jsonl")))),
        facts={
            int(path.stem.rpartition("-")[2]): msgspec.json.decode(path.read_bytes(), type=Facts)
            for path in sorted(directory.glob("facts-*.json"))
        },
    )


def write_page(source: Path, page: Path) -> None:
    """Write *page*, and beside it a picture and a file of figures of the same name.

    Raises `SettingsError`.
    """
    study = read_study(source)
    if not study.rows or study.rows[0].name != MAIN:
        raise SettingsError(
            f"{source} has no rows named {MAIN!r}.", next_step="Run the study first."
        )
    # Only here: the rest works without matplotlib, which only the train extra has.
    from trainer.stream.picture import draw_png

    page.parent.mkdir(parents=True, exist_ok=True)
    draw_png(study.rows[0].arms, _WINDOW, page.with_suffix(".png"))
    page.with_suffix(".json").write_bytes(msgspec.json.encode(study) + b"\n")
    page.write_text("\n".join(_page(study, page.stem)) + "\n", "utf-8")


def _page(found: Study, stem: str) -> Iterator[str]:
    study, *others = found.rows
    yield "# Homework: what reactions alone came to"
    yield ""
    yield (
        f"Measured until {found.day}, on {found.machine}, by `python bench/homework.py`, which "
        "wrote this page. Every seed is a whole stack of its own: service, judge, trainer, gate, "
        "signer, node. The settings were chosen on seeds 100 to 109 "
        "([tuning](homework-tuning.md)); the study's seeds were run once, after that, and all of "
        "them are here."
    )
    yield ""
    yield f"![accepted first replies by session]({stem}.png)"
    yield ""
    yield (
        "One panel per arm: thin lines are seeds, the thick one is their mean, green ticks are "
        "promotions, the dashed line is the median of the third accepted first reply in a row. "
        "*control* learns nothing, *memory* is shown what was said before, *update* learns "
        "weights, each set through the gate. How far the origin follows an instruction in its "
        "prompt at all was [measured first](compliance.md)."
    )
    yield ""
    yield from _summary(study)
    yield ""
    yield (
        "In brackets: 95 per cent intervals. Of a share of seeds, Wilson's; of the median, exact, "
        "from the order of the seeds; of means, the bootstrap's over seeds. *Kept*: right answers "
        "on fresh tasks after the last session, as a share of the origin's on the same tasks. "
        f"*Last {_LAST}*: the share of first replies accepted in the last {_LAST} sessions."
    )
    yield ""
    yield from _seeds_table(study)
    yield ""
    yield "## Settings"
    yield ""
    yield "```json"
    yield msgspec.json.format(msgspec.json.encode(study.study), indent=2).decode()
    yield "```"
    if others:
        yield ""
        yield from _others(found.rows)
    yield ""
    yield "## This page again"
    yield ""
    yield (
        f"Its figures, to each session, are in [{stem}.json]({stem}.json). The first line makes "
        "the page from them, the second runs what is missing of a study and makes it from the rows."
    )
    yield ""
    yield "```console"
    yield (
        f"$ python bench/homework.py --out docs/results/{stem}.json --page docs/results/{stem}.md"
    )
    yield f"$ python bench/homework.py --out rows --seeds 0-9 --page docs/results/{stem}.md"
    yield "```"
    yield ""
    yield "## What this does not establish"
    yield ""
    for each in _NOT_ESTABLISHED:
        yield f"- {each}"


def _summary(rows: Rows) -> Iterator[str]:
    yield (
        f"| arm | seeds | three in a row | median session | kept, mean | kept, least | "
        f"seeds that kept under {_KEPT_WANTED} | last {_LAST}, accepted |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for arm in rows.arms:
        yield f"| {arm.arm} | {' | '.join(_figures(arm))} |"


def _figures(arm: ArmSummary) -> list[str]:
    count = len(arm.seeds)
    kept = [seed.kept_share for seed in arm.seeds if seed.kept_share is not None]
    low, high = share_interval(arm.reached_count, count)
    reached = [math.inf if seed.reached is None else seed.reached for seed in arm.seeds]
    last = [statistics.fmean(seed.accepted[-_LAST:]) for seed in arm.seeds]
    return [
        str(count),
        f"{arm.reached_count} ({low:.2f} to {high:.2f})",
        _session(arm.reached_median) + _between(median_interval(reached), ".3g"),
        f"{statistics.fmean(kept):.3f}{_between(mean_interval(kept), '.3f')}" if kept else "",
        f"{min(kept):.3f}" if kept else "",
        str(sum(each < _KEPT_WANTED for each in kept)) if kept else "",
        f"{statistics.fmean(last):.2f}{_between(mean_interval(last), '.2f')}",
    ]


def _between(interval: tuple[float, float] | None, form: str) -> str:
    if interval is None:
        return ""
    low, high = ("never" if math.isinf(each) else format(each, form) for each in interval)
    return "" if low == high == "never" else f" ({low} to {high})"


def _seeds_table(rows: Rows) -> Iterator[str]:
    yield "## Every seed"
    yield ""
    yield (
        "First replies of the update: `#` accepted, `.` not, `/` the release changed before. "
        "*right* is the share of right answers on fresh tasks before and after; *s* the seconds of "
        "the update's sessions."
    )
    yield ""
    yield "| seed | control | memory | update | first replies | right | kept | candidates | s |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    control, memory, update = (rows.seeds(arm) for arm in ("control", "memory", "update"))
    for seed in sorted({*control, *memory, *update}):
        shown = [_reached(arm.get(seed)) for arm in (control, memory, update)]
        learned, facts = update.get(seed), rows.facts.get(seed)
        kept = None if learned is None else learned.kept_share
        yield " | ".join(
            [
                f"| {seed}",
                *shown,
                "" if learned is None else f"`{_strip(learned)}`",
                "" if learned is None else _right(learned),
                "" if kept is None else f"{kept:.3f}",
                "" if facts is None else _candidates(facts),
                "" if facts is None else f"{facts.seconds.get('update', math.nan):.0f} |",
            ]
        )


def _others(rows: Sequence[Rows]) -> Iterator[str]:
    yield "## Other settings: a worse judge, and one part at a time"
    yield ""
    yield (
        "With what differs from the settings above, on the first of the study's seeds, whose own "
        "figures for each seed stand in the table above."
    )
    yield ""
    yield (
        "| rows | differs | arm | seeds | three in a row, by seed | median | kept, mean | "
        f"kept, least | last {_LAST}, accepted | promotions | candidates |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    plain = _flat(rows[0].study)
    for each in rows[1:]:
        own = _flat(each.study)
        differs = "; ".join(
            f"{name} {own.get(name, 'default')}"
            for name in sorted({*plain, *own})
            if own.get(name) != plain.get(name)
        )
        for arm in each.arms:
            count, _, median, mean, least, _, last = _figures(arm)
            by_seed = ", ".join(f"{seed.seed}: {_session(seed.reached)}" for seed in arm.seeds)
            promotions = statistics.fmean(len(seed.promotions) for seed in arm.seeds)
            yield (
                f"| {each.name} | {differs} | {arm.arm} | {count} | {by_seed} | {median} | {mean} "
                f"| {least} | {last} | {promotions:.1f} | {_sum_of_candidates(each)} |"
            )


def _flat(value: Any, prefix: str = "") -> dict[str, str]:
    if not isinstance(value, dict):
        return {prefix: msgspec.json.encode(value).decode()}
    found: dict[str, str] = {}
    for name, inner in value.items():
        found |= _flat(inner, f"{prefix}.{name}" if prefix else name)
    return found


def _session(place: float | None) -> str:
    return "never" if place is None else f"{place:g}"


def _reached(seed: SeedSummary | None) -> str:
    return "" if seed is None else _session(seed.reached)


def _strip(seed: SeedSummary) -> str:
    # No vertical bar, which would end a cell.
    return "".join(
        ("/" if place in seed.promotions else "") + ("#" if good else ".")
        for place, good in enumerate(seed.accepted, 1)
    )


def _right(seed: SeedSummary) -> str:
    if seed.origin is None or seed.final is None:
        return ""
    before, after = (each.right / each.count for each in (seed.origin, seed.final))
    return f"{before:.2f} → {after:.2f}"


def _candidates(facts: Facts) -> str:
    return ", ".join(f"{count} {status}" for status, count in facts.candidates.items()) or "none"


def _sum_of_candidates(rows: Rows) -> str:
    found: Counter[str] = Counter()
    for facts in rows.facts.values():
        found.update(facts.candidates)
    return ", ".join(f"{count} {status}" for status, count in sorted(found.items())) or "none"
