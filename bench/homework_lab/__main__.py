"""Tries settings of the homework loop on seeds, and prints what each came to.

    python bench/homework_lab --cells cells.json --seeds 100 101 102 --out rows.jsonl
    python bench/homework_lab --out rows.jsonl            the table of what is there

A file of cells is a JSON object from a name to what differs from the defaults of
`loop.LabSettings`, nested or with dots ("training.terms.top_k"). Rows that --out has
already are not run again, so a run that was interrupted is resumed by the same command.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import msgspec


def main() -> None:
    """Run what is missing, then print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", type=Path)
    parser.add_argument("--only", nargs="*", help="names of cells")
    parser.add_argument("--seeds", type=int, nargs="*", default=[])
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    if given.cells is not None:
        _run(given)
    _print(_rows(given.out))


def _run(given: argparse.Namespace) -> None:
    # Seven seconds, which a table does without.
    warnings.simplefilter("ignore")
    from loop import LabSettings, Loop

    cells: dict[str, dict[str, Any]] = json.loads(given.cells.read_bytes())
    done = {(row["cell"], row["seed"]) for row in _rows(given.out)}
    for name, differs in cells.items():
        settings = msgspec.convert(_nested(differs), LabSettings)
        for seed in given.seeds:
            if (name, seed) in done or (given.only and name not in given.only):
                continue
            with tempfile.TemporaryDirectory(prefix="reef-lab-") as home:
                row = Loop(name, settings, seed, Path(home)).run()
            line = msgspec.to_builtins(row) | {"settings": differs}
            with given.out.open("a") as out:
                out.write(json.dumps(line) + "\n")
            sys.stderr.write(
                f"{name} {seed}: reached {row.reached} {row.accepted} promotions {row.promotions} "
                f"gates {row.gates} kept {row.kept:.2f} {row.seconds} {row.stopped[:1]}\n"
            )


def _nested(flat: dict[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        *places, last = name.split(".")
        inner = nested
        for place in places:
            inner = inner.setdefault(place, {})
        inner[last] = value
    return nested


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.open()] if path.exists() else []


def _print(rows: list[dict[str, Any]]) -> None:
    print(
        "| cell | seeds | reached (by seed) | reached | median | promotions | gates failed, "
        "inconclusive | batches | final right / origin (least) | accepted at the end | s |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for cell in dict.fromkeys(row["cell"] for row in rows):
        found = sorted((row for row in rows if row["cell"] == cell), key=lambda row: row["seed"])
        places = [row["reached"] or math.inf for row in found]
        median = statistics.median(places)
        kept = [row["final_right"] / row["origin_right"] for row in found]

        def mean(name: str, found: list[dict[str, Any]] = found) -> float:
            return statistics.fmean(_number(row[name]) for row in found)

        gates = [sum(row["gates"].get(how, 0) for row in found) for how in _POOR]
        print(
            f"| {cell} | {found[0]['seed']}-{found[-1]['seed']} | "
            f"{' '.join('-' if math.isinf(each) else str(each) for each in places)} | "
            f"{sum(not math.isinf(each) for each in places)}/{len(found)} | "
            f"{'-' if math.isinf(median) else f'{median:g}'} | {mean('promotions'):.1f} | "
            f"{gates[0]}, {gates[1]} | {mean('batches'):.1f} | "
            f"{statistics.fmean(kept):.3f} ({min(kept):.2f}) | {mean('final_accepted'):.2f} | "
            f"{statistics.fmean(row['seconds']['whole'] for row in found):.0f} |"
        )


_POOR = ("failed", "inconclusive")


def _number(value: Any) -> float:
    return float(len(value)) if isinstance(value, list) else float(value)


if __name__ == "__main__":
    main()
