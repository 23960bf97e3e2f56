"""`gate`: the worker; `gate odds POLICY`: what a policy lets through."""

from __future__ import annotations

import base64
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from reef_release.cli.external import run_module
from reef_release.cli.options import DEFAULT_URL, AsJson, Home, Once, TokenFile, Url
from reef_release.cli.output import console, emit, print_table
from reef_release.domain.policy import ConsecutivePasses
from reef_release.errors import SettingsError

__all__ = ["app"]

app = typer.Typer(help="Run gates, or ask what a policy lets through.")

_STEPS = 20
_BAR = 40


@app.callback(invoke_without_command=True)
def worker(
    context: typer.Context,
    name: Annotated[str, typer.Option("--name", help="This worker's name.")] = "gate-1",
    key: Annotated[
        Path | None, typer.Option("--key", help="The gate key; default HOME/keys/gate.")
    ] = None,
    models: Annotated[
        Path | None, typer.Option("--models", help="Cache of weights; default HOME/gate.")
    ] = None,
    engine: Annotated[
        list[str] | None,
        typer.Option(
            "--engine",
            help="Address of an engine of this worker's own; twice for one each of candidate and "
            "incumbent; by default both run in this process.",
        ),
    ] = None,
    threads: Annotated[int, typer.Option("--threads", help="Torch threads.")] = 1,
    trial_timeout: Annotated[
        float,
        typer.Option("--trial-timeout", min=0.001, help="Seconds a reply may take; then an error."),
    ] = 600.0,
    once: Once = False,
    home: Home = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
) -> None:
    """Claim gates, run candidate and incumbent, post raw replies, sign the decisions."""
    if context.invoked_subcommand is not None:
        return
    from reef_release.settings import load_settings

    settings = load_settings(home=home)
    run_module(
        "trainer.gate",
        {
            "--url": url,
            "--name": name,
            "--key": key or settings.keys_dir / "gate" / "private.pem",
            "--models": models or settings.home / "gate",
            "--threads": threads,
            "--trial-timeout": trial_timeout,
            "--token-file": token_file,
        },
        flags=[
            *(part for each in engine or () for part in ("--engine", each)),
            *(["--once"] if once else []),
        ],
    )


@app.command("odds")
def odds(
    policy: Annotated[Path, typer.Argument(help="A policy (JSON), signed or not.")],
    part: Annotated[str, typer.Option("--part", help="standard or bootstrap")] = "standard",
    svg: Annotated[Path | None, typer.Option("--svg", help="Write the plot to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """The exact probability that a candidate of true pass rate p gets through, per p."""
    from reef_release.cli.plot import odds_svg
    from reef_release.domain.odds import pass_probability

    rule = _rule(policy, part)
    points = [
        (Fraction(step, _STEPS), pass_probability(rule, Fraction(step, _STEPS)))
        for step in range(_STEPS + 1)
    ]
    if svg is not None:
        svg.write_text(odds_svg([(float(p), float(chance)) for p, chance in points]), "utf-8")
    if as_json:
        emit(
            [
                {"p": f"{float(p):.2f}", "passes": f"{float(chance):.9f}", "exact": str(chance)}
                for p, chance in points
            ],
            as_json=True,
        )
        return
    title = (
        f"{part}: {rule.k} in a row within {rule.max_trials}, {rule.max_failures} failures end it"
    )
    rows = [
        [f"{float(p):.2f}", f"{float(chance):.6f}", "█" * round(float(chance) * _BAR)]
        for p, chance in points
    ]
    print_table(title, ["true pass rate", "P(passes)", "plot"], rows)
    if svg is not None:
        console.print(f"Plot: {svg}", markup=False)


def _rule(path: Path, part: str) -> ConsecutivePasses:
    from reef_release.domain.canonical import parse_json
    from reef_release.domain.policy import parse_policy
    from reef_release.verifiers.registry import is_objective

    if part not in ("bootstrap", "standard"):
        raise typer.BadParameter("part is standard or bootstrap")
    try:
        document = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}.") from error
    value = parse_json(document)
    if isinstance(value, dict) and "payload" in value:
        try:
            document = base64.b64decode(value["payload"], validate=True)
        except (TypeError, ValueError) as error:
            raise SettingsError(
                f"{path} is no signed policy: {error}.",
                next_step="Name the output of `reef-release policy sign`.",
            ) from error
    return parse_policy(document, is_objective).part(part).rule
