"""A study of the homework stream as a page: settings, a table of every seed, a picture.

What always holds: the page is a function of the rows, the day and the machine; every row that is
there is shown, whatever came of it; rows of several names are never mixed.

    ROWS/NAME/study.json         the settings of all rows of that name
    ROWS/NAME/ARM-SEED.jsonl     what `python -m trainer.stream` wrote
    ROWS/NAME/facts-SEED.json    what the service said afterwards, and how long it took
"""

from __future__ import annotations

import math
import os
import platform
import statistics
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from reef_release.errors import SettingsError
from trainer.stream.records import read_records
from trainer.stream.summary import ArmSummary, SeedSummary, summarise

__all__ = ["MAIN", "Rows", "read_rows", "write_page"]

MAIN = "homework"
"""The name of the rows that are the study; the others stand beside it."""
_WINDOW = 5

_NOT_ESTABLISHED = (
    "That anything larger learns this way. The policy has under a million parameters, and was "
    "warm-started on problems of the same kind and on hints of the same grammar.",
    "That people react like this. The student follows rules, complains whenever its taste is "
    "broken and never for another reason; the judge's rules were written by the same authors.",
    "That it learns more than one taste, several users' tastes at once, or a change of mind.",
    "That the order of arms, the memory's wording or the turns of a batch are the best ones: they "
    "were chosen on other seeds, by far fewer runs than would tell small differences apart.",
    "What a gate of five passes in a row is worth by itself; `reef-release gate odds` says that.",
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


def read_rows(directory: Path) -> list[Rows]:
    """The rows below *directory*, the study first. Raises `SettingsError`."""
    found = []
    for study in sorted(directory.glob("*/study.json")):
        try:
            rows = Rows(
                name=study.parent.name,
                study=msgspec.json.decode(study.read_bytes(), type=dict[str, Any]),
                arms=summarise(read_records(sorted(study.parent.glob("*.jsonl")))),
                facts={
                    int(path.stem.rpartition("-")[2]): msgspec.json.decode(
                        path.read_bytes(), type=Facts
                    )
                    for path in study.parent.glob("facts-*.json")
                },
            )
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SettingsError(
                f"{study.parent} has no rows of a study: {error}.",
                next_step="Give the directory that bench/homework.py wrote.",
            ) from error
        if rows.arms:
            found.append(rows)
    return sorted(found, key=lambda rows: (rows.name != MAIN, rows.name))


def write_page(directory: Path, page: Path, today: datetime | None = None) -> None:
    """Write *page* and a picture of the same name beside it. Raises `SettingsError`."""
    rows = read_rows(directory)
    if not rows or rows[0].name != MAIN:
        raise SettingsError(
            f"{directory} has no rows named {MAIN!r}.", next_step="Run the study first."
        )
    # Only here: the rest works without matplotlib, which only the train extra has.
    from trainer.stream.picture import draw_png

    page.parent.mkdir(parents=True, exist_ok=True)
    picture = page.with_suffix(".png")
    draw_png(rows[0].arms, _WINDOW, picture)
    day = (today or datetime.now(UTC)).date().isoformat()
    page.write_text("\n".join(_page(rows, picture.name, day)) + "\n", "utf-8")


def _page(rows: Sequence[Rows], picture: str, day: str) -> Iterator[str]:
    study, *others = rows
    yield "# Homework: what reactions alone came to"
    yield ""
    yield (
        f"Measured on {day}, on {os.cpu_count()} cores ({platform.machine()}, Python "
        f"{platform.python_version()}), by `python bench/homework.py`, which wrote this page. "
        "Every seed is a whole stack of its own: service, judge, trainer, gate, signer, node."
    )
    yield ""
    yield f"![accepted first replies by session]({picture})"
    yield ""
    yield (
        "One panel per arm: thin lines are seeds, the thick one is their mean, green ticks are "
        "promotions, the dashed line is the median of the third accepted first reply in a row. "
        "*control* learns nothing, *memory* is shown what was said before, *update* learns "
        "weights, each set through the gate."
    )
    yield ""
    yield from _summary(study)
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
        yield from _others(rows)
    yield ""
    yield "## What this does not establish"
    yield ""
    for each in _NOT_ESTABLISHED:
        yield f"- {each}"


def _summary(rows: Rows) -> Iterator[str]:
    yield "| arm | seeds | three in a row | median session | right answers kept, least | mean |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for arm in rows.arms:
        kept = [seed.kept_share for seed in arm.seeds if seed.kept_share is not None]
        mean = f"{statistics.fmean(kept):.3f}" if kept else ""
        least = f"{min(kept):.3f}" if kept else ""
        yield (
            f"| {arm.arm} | {len(arm.seeds)} | {arm.reached_count} | "
            f"{_session(arm.reached_median)} | {least} | {mean} |"
        )


def _seeds_table(rows: Rows) -> Iterator[str]:
    yield "## Every seed"
    yield ""
    yield (
        "First replies of the update: `#` accepted, `.` not, `/` the release changed before. "
        "*right* is the share of right answers on fresh tasks before and after."
    )
    yield ""
    yield "| seed | control | memory | update | first replies | right | candidates | s |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    control, memory, update = (rows.seeds(arm) for arm in ("control", "memory", "update"))
    for seed in sorted({*control, *memory, *update}):
        shown = [_reached(arm.get(seed)) for arm in (control, memory, update)]
        learned, facts = update.get(seed), rows.facts.get(seed)
        yield " | ".join(
            [
                f"| {seed}",
                *shown,
                "" if learned is None else f"`{_strip(learned)}`",
                "" if learned is None else _right(learned),
                "" if facts is None else _candidates(facts),
                "" if facts is None else f"{facts.seconds.get('update', math.nan):.0f} |",
            ]
        )


def _others(rows: Sequence[Rows]) -> Iterator[str]:
    yield "## Other settings"
    yield ""
    yield "With what differs from the settings above."
    yield ""
    yield "| rows | differs | arm | seeds | three in a row | median | kept, least | promotions |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    plain = _flat(rows[0].study)
    for each in rows:
        own = _flat(each.study)
        differs = "; ".join(
            f"{name} {own.get(name, 'default')}"
            for name in sorted({*plain, *own})
            if own.get(name) != plain.get(name)
        )
        for arm in each.arms:
            least = "" if arm.kept_share_least is None else f"{arm.kept_share_least:.3f}"
            yield (
                f"| {each.name} | {differs or 'nothing'} | {arm.arm} | {len(arm.seeds)} | "
                f"{arm.reached_count} | {_session(arm.reached_median)} | {least} | "
                f"{statistics.fmean(len(seed.promotions) for seed in arm.seeds):.1f} |"
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
