"""`train`: the worker; `train replay`: one recorded batch into weights, without a service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reef_release.cli.external import run_module
from reef_release.cli.options import (
    DEFAULT_URL,
    AsJson,
    Channel,
    Home,
    Once,
    TokenFile,
    Url,
    read_token,
)
from reef_release.errors import SettingsError

__all__ = ["app"]

app = typer.Typer(help="Train on judged turns.")


@app.callback(invoke_without_command=True)
def worker(
    context: typer.Context,
    scenario: Annotated[str, typer.Option("--scenario", "-s", help="The scenario.")] = "",
    channel: Channel = "stable",
    name: Annotated[str, typer.Option("--name", help="This worker's name.")] = "trainer-1",
    root: Annotated[
        Path | None,
        typer.Option("--root", help="The trust root, from outside; default HOME/keys."),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option("--state", help="The worker's own directory; default HOME/trainer."),
    ] = None,
    origin: Annotated[str | None, typer.Option("--origin", help="The log's name.")] = None,
    settings: Annotated[
        Path | None,
        typer.Option("--settings", help="TOML or JSON with the parts training and screening."),
    ] = None,
    development: Annotated[
        Path | None,
        typer.Option(
            "--development",
            help="Tasks that decide when to submit: JSON lines {id, question, answer}.",
        ),
    ] = None,
    verifiers: Annotated[
        str,
        typer.Option("--verifiers", help="What grades them; all must pass; names with commas."),
    ] = "answer@1",
    canary_tolerance: Annotated[
        float,
        typer.Option("--canary-tolerance", min=0.0, help="Nats that the gate's canaries may miss."),
    ] = 0.01,
    once: Once = False,
    home: Home = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
) -> None:
    """Claim batches, train them, submit what the development tasks favour.

    The worker verifies what it trains from as a node does. It may be killed at any time.
    """
    if context.invoked_subcommand is not None:
        return
    if not scenario:
        raise SettingsError("The trainer needs a scenario.", next_step="Give --scenario NAME.")
    from reef_release.settings import load_settings
    from reef_release.signing.keyring import ROOT_NAME

    found = load_settings(home=home)
    read_token(token_file)  # Of a missing one, this tells the next step.
    run_module(
        "trainer.worker",
        {
            "--url": url,
            "--scenario": scenario,
            "--channel": channel,
            "--name": name,
            "--root": root or found.keys_dir / ROOT_NAME,
            "--log": origin or found.origin,
            "--state": state or found.home / "trainer",
            "--settings": settings,
            "--development": development,
            "--verifiers": verifiers,
            "--canary-tolerance": canary_tolerance,
            "--token-file": token_file,
        },
        flags=["--once"] if once else [],
    )


@app.command("replay")
def replay(
    out: Annotated[
        Path, typer.Option("--out", help="Directory to make: weights/, state/, training.json.")
    ],
    recording: Annotated[
        Path | None,
        typer.Option("--from", help="A recording, with all below: STATE/replay/BATCH of a worker."),
    ] = None,
    batch: Annotated[
        Path | None, typer.Option("--batch", help="A batch as the service hands it out (JSON).")
    ] = None,
    origin: Annotated[
        Path | None,
        typer.Option("--origin", help="The origin's directory: the teacher, and the form."),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option("--weights", help="What is trained: a model, or an adapter; else the origin."),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option("--state", help="The optimizer's state that was written beside --weights."),
    ] = None,
    serving: Annotated[
        Path | None,
        typer.Option("--serving", help="The release that sampled, where that is not --weights."),
    ] = None,
    settings: Annotated[
        Path | None, typer.Option("--settings", help="As the worker takes; `training` counts.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="As the training's start says; default 0.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train one batch again: the same weights as the trainer made, bit for bit on one machine.

    Give --from, or at least --batch and --origin. The exit status is 1 when a watch stops the
    batch, and then nothing is written; or when other weights came of a recording than it says.
    """
    run_module(
        "trainer.learning",
        {
            "--from": recording,
            "--batch": batch,
            "--origin": origin,
            "--out": out,
            "--weights": weights,
            "--state": state,
            "--serving": serving,
            "--settings": settings,
            "--seed": seed,
        },
        flags=["--json"] if as_json else [],
        verb="replay",
    )


@app.command("settings")
def show_settings() -> None:
    """Print all settings with their defaults, as JSON."""
    run_module("trainer.learning", {}, verb="settings")
