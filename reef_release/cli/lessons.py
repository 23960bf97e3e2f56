"""The homework stream's arms against a running stack: each a program, each with a file of records.

What always holds: the arms of a seed bring the same problems; control and memory ask the engine
itself, so that nothing is learned from them, and are held before anything else is; the update's
sessions go through the recording proxy, and each waits until its consequences are drawn.
"""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from reef_release.cli.external import module_command
from reef_release.cli.homework import SCENARIO
from reef_release.cli.stack import LocalStack
from reef_release.errors import Unavailable
from reef_release.tokens import TokenRole

__all__ = ["ARMS", "MAX_REPLIES", "Lessons", "draw_curves"]

ARMS = ("control", "memory", "update")
"""In the order in which they are held."""
MAX_REPLIES = 4
"""Of a session."""
_MEMORY: dict[str, dict[str, object]] = {
    "hint": {"--memory-placement": "hint", "--memory-notes": 1},
    "system": {"--memory-placement": "system"},
}
"""What of the memory file is shown: the newest note as the hint that the policy knows, or all."""


@dataclass(frozen=True, kw_only=True)
class Lessons:
    """How one seed's sessions are held; `fresh` tasks are asked before and after them."""

    seed: int
    sessions: int
    fresh: int
    memory: str = "hint"
    directory: Path
    seconds: dict[str, float] = field(default_factory=dict)

    def records(self, arm: str) -> Path:
        """The file of an arm's records."""
        return self.directory / f"{arm}-{self.seed}.jsonl"

    def kept(self) -> float | None:
        """Right answers after the update's sessions as a share of those before; None if unknown.

        The records are the stream's (`trainer.stream.records`); its program is not imported here.
        """
        told = [json.loads(line) for line in self.records("update").read_text().splitlines()]
        right = {each["after"]: each["right"] for each in told if each["record"] == "evaluation"}
        before, after = right.get(0), right.get(self.sessions)
        return after / before if before and after is not None else None

    def hold(self, stack: LocalStack, arm: str) -> None:
        """Hold what is missing of an arm's sessions. Raises `Unavailable`."""
        self.directory.mkdir(exist_ok=True)
        options: dict[str, object] = {
            "--arm": arm,
            "--seed": self.seed,
            "--sessions": self.sessions,
            "--max-replies": MAX_REPLIES,
            "--evaluate": self.fresh,
            "--out": self.records(arm),
        }
        flags = []
        if arm == "update":
            flags.append("--settle")
            options |= {
                "--base-url": stack.url,
                "--key-file": stack.token_file(TokenRole.INGEST),
                "--scenario": SCENARIO,
                "--service": stack.url,
                "--service-token-file": stack.token_file(TokenRole.AUDIT),
            }
        else:
            options["--base-url"] = stack.engine_url
        if arm == "memory":
            options |= {"--memory": self.directory / f"memory-{self.seed}.md"}
            options |= _MEMORY[self.memory]
        began = time.monotonic()
        _run(module_command("trainer.stream", options, flags), f"the sessions of arm {arm}")
        self.seconds[arm] = round(time.monotonic() - began, 1)


def draw_curves(records: list[Path], picture: Path) -> None:
    """Print the curves of files of records, and draw them. Raises `Unavailable`."""
    command = module_command("trainer.stream.curve", {"--png": picture}, list(map(str, records)))
    _run(command, "the curves")


def _run(command: list[str], what: str) -> None:
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"There is no end of {what}:\n{done.stderr.strip()[-2000:]}")
