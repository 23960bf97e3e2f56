"""`judge`: the worker; `judge replay TURNS.jsonl`: the same judging on a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from reef_release.cli.external import module_command
from reef_release.cli.options import DEFAULT_URL, AsJson, Once, TokenFile, Url, read_token
from reef_release.errors import SettingsError

__all__ = ["app"]

app = typer.Typer(help="Judge turns by the reactions to them.")

Endpoint = Annotated[
    str | None,
    typer.Option("--endpoint", help="Address of an OpenAI-style server with the judge's model."),
]
Model = Annotated[
    str | None, typer.Option("--model", help="The model's name there; default: the only one.")
]
Votes = Annotated[int, typer.Option("--votes", min=1, max=99, help="How often each is asked.")]
Temperature = Annotated[
    float, typer.Option("--temperature", min=0.0, max=2.0, help="How much votes may differ.")
]
MaxTokens = Annotated[int, typer.Option("--max-tokens", min=1, help="Longest answer.")]
Timeout = Annotated[
    float, typer.Option("--timeout", min=0.001, help="Seconds that one answer may take.")
]
KeyFile = Annotated[
    Path | None,
    typer.Option("--endpoint-key-file", help="The endpoint's key; else REEF_JUDGE_KEY is read."),
]


@app.callback(invoke_without_command=True)
def worker(
    context: typer.Context,
    endpoint: Endpoint = None,
    model: Model = None,
    scenario: Annotated[
        list[str] | None, typer.Option("--scenario", "-s", help="A scenario; may be repeated.")
    ] = None,
    name: Annotated[str, typer.Option("--name", help="This worker's name.")] = "judge-1",
    votes: Votes = 3,
    temperature: Temperature = 0.7,
    max_tokens: MaxTokens = 768,
    timeout: Timeout = 120.0,
    probe_every: Annotated[
        int,
        typer.Option("--probe-every", min=0, help="Turns between known answers; 0 asks none."),
    ] = 25,
    probe_accuracy: Annotated[
        float,
        typer.Option("--probe-accuracy", min=0.0, max=1.0, help="Warn when fewer are right."),
    ] = 0.8,
    endpoint_key_file: KeyFile = None,
    once: Once = False,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
) -> None:
    """Claim completed turns, ask the judge's model for votes, post every raw vote."""
    if context.invoked_subcommand is not None:
        return
    if endpoint is None or not scenario:
        raise SettingsError(
            "The judge needs an endpoint and a scenario.",
            next_step="Give --endpoint URL and --scenario NAME; `python -m judge.scripted` serves"
            " a judge that needs no model.",
        )
    read_token(token_file)  # Of a missing one, this tells the next step.
    _become(
        "work",
        {
            "--url": url,
            "--token-file": token_file,
            "--name": name,
            "--endpoint": endpoint,
            "--endpoint-key-file": endpoint_key_file,
            "--model": model,
            "--votes": votes,
            "--temperature": temperature,
            "--max-tokens": max_tokens,
            "--timeout": timeout,
            "--probe-every": probe_every,
            "--probe-accuracy": probe_accuracy,
        },
        *(part for each in scenario for part in ("--scenario", each)),
        *(["--once"] if once else []),
    )


@app.command("replay")
def replay(
    turns: Annotated[Path, typer.Argument(help="JSON lines, one turn each; - is standard input.")],
    endpoint: Endpoint = None,
    scripted: Annotated[
        bool, typer.Option("--scripted", help="Use the built-in rules, as without --endpoint.")
    ] = False,
    model: Model = None,
    votes: Votes = 3,
    quorum: Annotated[
        int, typer.Option("--quorum", min=1, help="Fewer valid votes decide nothing.")
    ] = 1,
    temperature: Temperature = 0.7,
    max_tokens: MaxTokens = 768,
    timeout: Timeout = 120.0,
    endpoint_key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Judge the turns of a file, without a service; nothing is recorded."""
    if scripted and endpoint is not None:
        raise SettingsError("Only one of --scripted and --endpoint can judge.")
    _become(
        "replay",
        {
            "--endpoint": endpoint,
            "--endpoint-key-file": endpoint_key_file,
            "--model": model,
            "--votes": votes,
            "--quorum": quorum,
            "--temperature": temperature,
            "--max-tokens": max_tokens,
            "--timeout": timeout,
        },
        *(["--json"] if as_json else []),
        "--",
        _source(turns),
    )


def _source(turns: Path) -> str:
    """The file to read, seen to hold something. Raises `SettingsError`."""
    if str(turns) == "-":
        return "/dev/stdin"
    hint = (
        "Name a file of JSON lines with turn_id, reply and next_state each, or - for standard"
        " input; docs/reference/judge.md has an example."
    )
    try:
        # A pipe gives what it holds only once.
        if turns.exists() and not turns.is_file() and not turns.is_dir():
            return str(turns)
        with turns.open("rb") as file:
            if any(line.strip() for line in file):
                return str(turns)
    except OSError as error:
        raise SettingsError(
            f"The turns {turns} cannot be read: {error.strerror}.", next_step=hint
        ) from error
    raise SettingsError(f"{turns} holds no turn.", next_step=hint)


def _become(verb: str, options: dict[str, object], *rest: str) -> NoReturn:
    """Become the judge's own program, so that this one never imports it; does not return."""
    python, module_flag, module, *given = module_command("judge", options, rest)
    command = [python, module_flag, module, verb, *given]
    os.execv(python, command)  # noqa: S606 - a fixed argument vector, no shell
