"""The homework study: whether reactions alone change the weights that are served, seed by seed.

    python bench/homework.py --out rows --seeds 0-9
    python bench/homework.py --out rows --seeds 0-9 --name worse-judge --arms update \
        --flip-votes 0.2 --drop-hints 0.3
    python bench/homework.py --out rows --seeds 0-3 --name policy-only --arms update \
        --set training.terms.distillation_weight=0
    python bench/homework.py --out rows --page docs/results/homework.md      only the page
    python bench/homework.py --out docs/results/homework.json --page docs/results/homework.md
                                                                        from its own figures
    python bench/homework.py --short                                         a first look

Every seed has a whole stack in an empty directory: service, judge, trainer, gate, signer, node.
Its arms are held one after another; what --out has already is not held again, so whatever
interrupts it, the same command goes on with the next arm. The page is of all that is in --out:
the rows named `homework` are the study, other names stand beside it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from reef_release.cli.external import tiny_models
from reef_release.cli.homework import (
    BATCH_SIZE,
    SCENARIO,
    await_node,
    await_status,
    homework_learning,
    start_homework,
    submit,
)
from reef_release.cli.lessons import ARMS, MAX_REPLIES, Lessons, draw_curves
from reef_release.cli.programs import Learning
from reef_release.cli.stack import LocalStack
from reef_release.errors import ReefError, SettingsError
from reef_release.tokens import TokenRole
from trainer.stream.report import MAIN, write_page
from trainer.worker.settings import WorkerSettings

_SHORT = ["--seeds", "109", "--sessions", "4", "--fresh", "5"]


def main() -> int:
    """Exit status 0, or 2 with an error that says what to do."""
    given = _parser().parse_args()
    signal.signal(signal.SIGTERM, _end)
    try:
        if not given.short:
            _study(given)
            return 0
        if vars(given) != vars(_parser().parse_args(["--short"])):
            raise SettingsError(
                "--short has settings of its own, so it goes with no other option.",
                next_step="Leave them out, or give --seeds and --out instead of --short.",
            )
        with tempfile.TemporaryDirectory(prefix="reef-") as out:
            _study(_parser().parse_args([*_SHORT, "--out", out]))
    except (ReefError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


def _end(number: int, _frame: object) -> NoReturn:
    """As an exception, so that the stack's programs and its PostgreSQL are stopped."""
    raise SystemExit(128 + number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--short", action="store_true", help="four sessions of one seed; nothing is kept")
    add(
        "--out",
        type=Path,
        default=Path("homework-rows"),
        help="directory of rows, added to; or a page's figures",
    )
    add("--seeds", type=_seeds, default=[], help="such as 0-9 or 100,104")
    add("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    add("--sessions", type=int, default=36)
    add("--fresh", type=int, default=100, help="tasks asked before and after the sessions")
    add("--memory", choices=("hint", "system"), default="hint")
    add("--name", default=MAIN, help="what these rows are of")
    add("--settings", type=Path, help="the trainer's, TOML or JSON")
    add("--set", action="append", default=[], metavar="NAME=JSON", help="a setting that differs")
    add("--batch-size", type=int, default=BATCH_SIZE)
    add("--flip-votes", type=float, default=0.0, help="share of the judge's votes")
    add("--drop-hints", type=float, default=0.0, help="share of the turns")
    add("--page", type=Path, help="Markdown to write, with a picture beside it")
    return parser


def _seeds(text: str) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def _study(given: argparse.Namespace) -> None:
    rows = given.out / given.name
    if given.seeds:
        learning = _learning(given, rows)
        for seed in given.seeds:
            missing = [arm for arm in given.arms if not (rows / f"{arm}-{seed}.jsonl").exists()]
            if missing:
                _seed(given, learning, rows, seed, [arm for arm in ARMS if arm in missing])
    records = sorted(rows.glob("*.jsonl"))
    if given.page is not None:
        write_page(given.out, given.page)
    elif records:
        draw_curves(records, rows / "curve.png")
        for path in sorted(rows.glob("facts-*.json")):
            print(path.name, path.read_text("utf-8").strip())
    else:
        raise SettingsError(
            f"There is nothing to do: {rows} has no rows.",
            next_step="Give --short for a first look, --seeds 0-9 to hold seeds, or --page FILE.",
        )


def _learning(given: argparse.Namespace, rows: Path) -> Learning:
    """How the policy learns in these rows, written beside them. Raises `SettingsError`."""
    source = given.settings or homework_learning().settings
    text = source.read_text("utf-8")
    settings = json.loads(text) if source.suffix == ".json" else tomllib.loads(text)
    for each in given.set:
        set_one(settings, each)
    try:
        # Before anything is written or started.
        msgspec.convert(settings, WorkerSettings)
    except msgspec.ValidationError as error:
        raise SettingsError(
            f"These are no settings of a trainer: {error}.",
            next_step="Correct --set or --settings; `reef-release train settings` prints all.",
        ) from error
    study = {
        "sessions": given.sessions,
        "max_replies": MAX_REPLIES,
        "fresh": given.fresh,
        "memory": given.memory,
        "batch_size": given.batch_size,
        "flip_votes": given.flip_votes,
        "drop_hints": given.drop_hints,
        "trainer": settings,
    }
    rows.mkdir(parents=True, exist_ok=True)
    path = rows / "study.json"
    if path.exists() and json.loads(path.read_bytes()) != study:
        raise SettingsError(
            f"{rows} has rows of other settings; see {path}.", next_step="Give another --name."
        )
    path.write_text(json.dumps(study, indent=2) + "\n")
    (rows / "trainer.json").write_text(json.dumps(settings))
    return Learning(
        settings=(rows / "trainer.json").absolute(),
        batch_size=given.batch_size,
        flip_votes=given.flip_votes,
        drop_hints=given.drop_hints,
    )


def set_one(settings: dict[str, Any], text: str) -> None:
    """Change one of *settings*, by NAME=JSON. Raises `SettingsError`."""
    name, _, value = text.partition("=")
    *places, last = name.split(".")
    inner: Any = settings
    try:
        found = json.loads(value)
        for place in places:
            inner = inner.setdefault(place, {})
        inner[last] = found
    except (ValueError, AttributeError, TypeError) as error:
        raise SettingsError(
            f"--set {text} is not NAME=JSON of a setting: {error}.",
            next_step="Write it like training.seed=1; a text needs quotes: --set 'a.b=\"text\"'.",
        ) from error


def _seed(
    given: argparse.Namespace, learning: Learning, rows: Path, seed: int, arms: list[str]
) -> None:
    def say(text: str) -> None:
        print(f"{given.name}, seed {seed}: {text}", flush=True)

    began = time.monotonic()
    # Short and open to PostgreSQL's own user: its socket lives below.
    home = Path(tempfile.mkdtemp(prefix="reef-"))
    home.chmod(0o755)
    try:
        with LocalStack(home, scenario=SCENARIO, learning=learning) as stack:
            stack.prepare(lambda _text: None)
            with stack.client(TokenRole.OPERATE) as client:
                start_homework(stack, client, lambda _text: None)
            origin = submit(stack, tiny_models() / "origin")
            await_status(stack, origin.candidate_id, "promoted")
            await_node(stack)
            lessons = Lessons(
                seed=seed,
                sessions=given.sessions,
                fresh=given.fresh,
                memory=given.memory,
                directory=home / "stream",
            )
            lessons.seconds["start"] = round(time.monotonic() - began, 1)
            for arm in arms:
                say(arm)
                lessons.hold(stack, arm)
                shutil.copy(lessons.records(arm), rows / f".{arm}")
                if arm == "update":
                    _write_facts(stack, rows / f"facts-{seed}.json", lessons)
                # Last, and at once: what has this name is whole.
                (rows / f".{arm}").rename(rows / f"{arm}-{seed}.jsonl")
    except (ReefError, KeyboardInterrupt, SystemExit):
        say(f"interrupted; what it left is in {home}")
        raise
    shutil.rmtree(home)


def _write_facts(stack: LocalStack, path: Path, lessons: Lessons) -> None:
    """What the service says of the seed's learning, and how long everything took."""
    with stack.client(TokenRole.OPERATE) as client:
        gated = [view for view in client.candidates(SCENARIO) if view.base is not None]
        signal = client.signal(SCENARIO, hours=0).total
    outcomes = Counter(view.status for view in gated)
    facts: dict[str, Any] = {
        "seconds": lessons.seconds,
        "candidates": dict(sorted(outcomes.items())),
        "judged": signal.judged,
        "batched": signal.batched,
        "trained": signal.trained,
        "refused": signal.refused,
    }
    path.write_text(json.dumps(facts) + "\n")


if __name__ == "__main__":
    sys.exit(main())
