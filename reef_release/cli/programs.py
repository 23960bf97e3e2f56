"""The programs of one machine's stack: what each is started with, and nothing that it needs not.

Each gets its own token and its own key; the judge here is the scripted one, which knows the
homework rules and needs no model, and the trainer is the one that the tiny policy learns with.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from reef_release.signing.keyring import PRIVATE_NAME, ROOT_NAME

__all__ = ["DEVELOPMENT", "PROGRAMS", "Addresses", "Learning", "Program", "local_programs"]

PROGRAMS = ("service", "signer", "gate", "engine", "node", "judge-model", "judge", "trainer")
"""In the order in which they are started."""
DEVELOPMENT = "development.jsonl"
"""The trainer's development tasks, in the data directory."""
_VERIFIERS = "answer@1,work_steps@1,style@1"


@dataclass(frozen=True, kw_only=True)
class Addresses:
    """Where the programs that others call listen."""

    service: str
    engine: str
    judge: str


@dataclass(frozen=True, kw_only=True)
class Learning:
    """How the policy learns: a batch's turns, the trainer's settings, and how bad the judge is.

    `flip_votes` is the share of votes with the other sign, `drop_hints` that of turns without any.
    """

    settings: Path
    batch_size: int
    flip_votes: float = 0.0
    drop_hints: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Program:
    """A command with its environment; `answers_at` is polled until it listens, if it does."""

    name: str
    command: list[str]
    environment: Mapping[str, str]
    answers_at: str | None = None


def local_programs(
    at: Addresses,
    *,
    home: Path,
    keys: Path,
    tokens: Mapping[str, Path],
    database_url: str,
    scenario: str,
    learning: Learning,
) -> dict[str, Program]:
    """Every program of `PROGRAMS` by its name."""
    root = keys / ROOT_NAME
    common = {"REEF_HOME": str(home), "REEF_URL": at.service}

    def program(
        name: str, command: list[str], answers_at: str | None = None, **environment: str
    ) -> Program:
        return Program(
            name=name,
            command=command,
            environment={**common, **environment},
            answers_at=answers_at,
        )

    def verb(name: str, **options: object) -> list[str]:
        return [sys.executable, "-m", "reef_release.cli", name, *_words(options)]

    def module(name: str, **options: object) -> list[str]:
        return [sys.executable, "-m", name, *_words(options)]

    def key(role: str) -> Path:
        return keys / role / PRIVATE_NAME

    programs = (
        program(
            "service",
            verb("serve"),
            answers_at=f"{at.service}/readyz",
            REEF_DATABASE_URL=database_url,
            REEF_PORT=_port(at.service),
            REEF_UPSTREAM_URL=f"{at.engine}/v1",
            REEF_BATCH_SIZE=str(learning.batch_size),
        ),
        program("signer", verb("signer", key=key("release"), root=root, token_file=tokens["sign"])),
        program("gate", verb("gate", key=key("gate"), token_file=tokens["gate"])),
        program(
            "engine",
            module("trainer.engines.server", port=_port(at.engine)),
            answers_at=at.engine,
            OMP_NUM_THREADS="1",
        ),
        program(
            "node",
            verb(
                "node",
                scenario=scenario,
                engine=at.engine,
                root=root,
                state=home / "node",
                token_file=tokens["serve"],
            ),
        ),
        program(
            "judge-model",
            module(
                "judge.scripted",
                port=_port(at.judge),
                flip_votes=learning.flip_votes,
                drop_hints=learning.drop_hints,
            ),
            answers_at=at.judge,
        ),
        program(
            "judge",
            verb(
                "judge",
                scenario=scenario,
                endpoint=f"{at.judge}/v1",
                token_file=tokens["judge"],
            ),
        ),
        program(
            "trainer",
            verb(
                "train",
                scenario=scenario,
                root=root,
                state=home / "trainer",
                settings=learning.settings,
                development=home / DEVELOPMENT,
                verifiers=_VERIFIERS,
                token_file=tokens["train"],
            ),
            OMP_NUM_THREADS="1",
        ),
    )
    return {each.name: each for each in programs}


def _words(options: Mapping[str, object]) -> list[str]:
    named = [(f"--{name.replace('_', '-')}", str(value)) for name, value in options.items()]
    return [part for pair in named for part in pair]


def _port(url: str) -> str:
    return url.rpartition(":")[2]
