"""The curves of several arms and seeds, side by side, in the terminal and as a PNG.

python -m trainer.stream.curve control.jsonl memory.jsonl update.jsonl --png curve.png
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from reef_release.errors import ReefError, SettingsError
from trainer.stream.records import Evaluation, read_records
from trainer.stream.summary import ArmSummary, SeedSummary, summarise

__all__ = ["main", "print_curves"]

_BLOCKS = " ▁▂▃▄▅▆▇█"
_PLAIN_WIDTH = 160
_KEY = (
    "First replies: # accepted, . not, / the release changed before. all: the mean over seeds, and "
    "the median session of the third accepted in a row. least kept: right answers on fresh tasks "
    "at the end, as a share of those before, where that is least."
)


def print_curves(console: Console, arms: Sequence[ArmSummary], window: int) -> None:
    """One table per arm: a line per seed (``#`` accepted, ``.`` not, ``/`` promotion before)."""
    for arm in arms:
        table = Table(title=f"arm {arm.arm}", title_justify="left")
        for column in ("seed", "first replies", "3 in a row", "right", "replies", "fresh tasks"):
            table.add_column(column, no_wrap=column == "first replies")
        for seed in arm.seeds:
            table.add_row(
                str(seed.seed),
                _strip(seed),
                _session(seed.reached),
                f"{seed.right_share:.2f}",
                f"{seed.replies_mean:.2f}",
                _fresh(seed),
            )
        curve = "".join(_BLOCKS[round(share * (len(_BLOCKS) - 1))] for share in arm.curve(window))
        table.add_section()
        table.add_row(
            "all",
            curve,
            f"{arm.reached_count} of {len(arm.seeds)}, median {_session(arm.reached_median)}",
            "",
            "",
            "" if arm.kept_share_least is None else f"least kept {arm.kept_share_least:.2f}",
        )
        console.print(table)
    console.print(_KEY)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0, or 2 with an error that says what to do."""
    parser = argparse.ArgumentParser(
        prog="python -m trainer.stream.curve",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", type=Path, nargs="+", help="what python -m trainer.stream wrote")
    parser.add_argument("--png", type=Path, help="picture to write")
    parser.add_argument("--window", type=int, default=5, help="sessions that a point averages")
    parser.add_argument("--json", action="store_true", help="the summary as JSON instead")
    given = parser.parse_args(arguments)
    try:
        if given.window < 1:
            raise SettingsError("A window of no session.", next_step="Give --window 1 or more.")
        arms = summarise(read_records(given.files))
        if not arms:
            raise SettingsError("No session is in these files.", next_step="Run the stream first.")
        if given.png:
            # The terminal's part works without matplotlib, which only the train extra has.
            from trainer.stream.picture import draw_png

            draw_png(arms, given.window, given.png)
    except (ReefError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    if given.json:
        sys.stdout.write(msgspec.json.encode(arms).decode() + "\n")
    else:
        width = None if sys.stdout.isatty() else _PLAIN_WIDTH
        print_curves(Console(highlight=False, width=width), arms, given.window)
    return 0


def _strip(seed: SeedSummary) -> str:
    return "".join(
        ("/" if place in seed.promotions else "") + ("#" if good else ".")
        for place, good in enumerate(seed.accepted, 1)
    )


def _session(place: float | None) -> str:
    return "never" if place is None else f"{place:g}"


def _fresh(seed: SeedSummary) -> str:
    if seed.final is None:
        return ""
    before = "" if seed.origin is None else f"{_right(seed.origin)} → "
    return f"{before}{_right(seed.final)} right"


def _right(found: Evaluation) -> str:
    return f"{found.right / found.count:.3f}"


if __name__ == "__main__":
    sys.exit(main())
