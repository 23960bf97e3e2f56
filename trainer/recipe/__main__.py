"""``python -m trainer.recipe``: ``check`` the files of the recipe, or print its ``policy``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from reef_release.errors import ReefError
from trainer.recipe.check import Given, check
from trainer.recipe.problems import policy_with

__all__ = ["main", "parser"]

_RECIPE = Path("docker", "recipe")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    whole = argparse.ArgumentParser(prog="python -m trainer.recipe")
    verbs = whole.add_subparsers(dest="verb", required=True)
    checked = verbs.add_parser("check", help="look over all that needs no GPU; status 1 on FAIL")
    checked.add_argument("--problems", type=Path, help="the problems of the stream, JSON lines")
    checked.add_argument("--development", type=Path, help="the development tasks, JSON lines")
    checked.add_argument("--suite", type=Path, help="the tasks of the gate, JSON lines")
    checked.add_argument("--models", type=Path, help="directory with the models")
    checked.add_argument("--gpu-memory", type=float, default=80.0, help="GB of one GPU")
    printed = verbs.add_parser("policy", help="print the gate's policy for a suite")
    printed.add_argument("suite", type=Path)
    for each in (checked, printed):
        each.add_argument("--recipe", type=Path, default=_RECIPE, help="directory of the recipe")
    return whole


def main() -> int:
    """Exit status 0; 1 when a check failed; 2 with an error that says what to do."""
    given = parser().parse_args()
    try:
        if given.verb == "policy":
            template = json.loads((given.recipe / "policy.json").read_text("utf-8"))
            sys.stdout.write(policy_with(template, given.suite.read_bytes()) + "\n")
            return 0
    except (ReefError, OSError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    report = check(
        Given(
            recipe=given.recipe,
            gpu_gb=given.gpu_memory,
            problems=given.problems,
            development=given.development,
            suite=given.suite,
            models=given.models,
        )
    )
    for line in report.lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{len(report.failed)} of {len(report.lines)} lines failed\n")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
