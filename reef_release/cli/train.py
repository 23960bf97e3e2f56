"""`train replay`: one recorded batch into weights, without a service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reef_release.cli.external import run_module
from reef_release.cli.options import AsJson

__all__ = ["app"]

app = typer.Typer(help="Train on judged turns.", no_args_is_help=True)


@app.command("replay")
def replay(
    batch: Annotated[
        Path, typer.Option("--batch", help="A batch as the service hands it out (JSON).")
    ],
    origin: Annotated[
        Path, typer.Option("--origin", help="The origin's directory: the teacher, and the form.")
    ],
    out: Annotated[
        Path, typer.Option("--out", help="Directory to make: weights/, state/, training.json.")
    ],
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
        Path | None, typer.Option("--settings", help="JSON; see `train settings` for all fields.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="As the training's start says.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Train one batch again: the same weights as the trainer made, bit for bit on one machine.

    The exit status is 1 when a watch stops the batch; then nothing is written.
    """
    run_module(
        "trainer.learning",
        {
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
def settings() -> None:
    """Print all settings of a training with their defaults, as JSON."""
    run_module("trainer.learning", {}, verb="settings")
