"""`gate`: the worker; `gate odds POLICY`: what a policy lets through."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reef_release.cli.external import run_module
from reef_release.cli.options import DEFAULT_URL, AsJson, Home, Once, TokenFile, Url, read_token
from reef_release.cli.output import console, emit, print_table

__all__ = ["app"]

app = typer.Typer(help="Run gates, or ask what a policy lets through.")


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
    read_token(token_file)  # Of a missing one, this tells the next step.
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
    incumbent: Annotated[
        list[str] | None,
        typer.Option("--incumbent", help="The incumbent's true pass rate; may be given again."),
    ] = None,
    joint: Annotated[
        str | None,
        typer.Option(
            "--joint",
            help="For pairs that are not independent: probabilities win,loss,both per task.",
        ),
    ] = None,
    gate: Annotated[int, typer.Option("--gate", min=1, help="Which gate of the scenario.")] = 1,
    promotions: Annotated[
        int, typer.Option("--promotions", min=0, help="Promotions before that gate.")
    ] = 0,
    svg: Annotated[Path | None, typer.Option("--svg", help="Write the plot to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """The exact probability that a candidate of true pass rate p gets through, per p.

    For a policy that compares with the incumbent: per rate of that as well, at one gate of the
    scenario's life, with what the error budget asks of it.
    """
    from reef_release.cli import gate_odds as table_of
    from reef_release.cli.plot import odds_svg
    from reef_release.domain.odds import course

    if part not in ("bootstrap", "standard"):
        raise typer.BadParameter("part is standard or bootstrap")
    found = table_of.read_policy(policy)
    if joint is not None:
        level = table_of.level_at(found, part, gate, promotions)
        rule = found.part(part).rule
        one = course(rule, table_of.joint_of(joint), level, most_bits=table_of.MOST_BITS // 10)
        passes = one.passed[-1]
        emit(
            {"passes": f"{float(passes):.9f}", "median_slots": one.median(), "exact": str(passes)},
            as_json=as_json,
            text=f"P(passes) = {float(passes):.6f}; half of all gates have decided after "
            f"{one.median()} tasks.",
        )
        return
    rates = [table_of.chance(text) for text in incumbent or ("0.1", "0.3", "0.5")]
    table = table_of.odds_table(found, part, rates, gate, promotions)
    if svg is not None:
        points = [(float(p), float(courses[0].passed[-1])) for p, courses in table.rows]
        svg.write_text(odds_svg(points), "utf-8")
    if as_json:
        emit(table_of.as_json(found, part, table), as_json=True)
        return
    table_of.show(found, part, table, gate, promotions)
    if svg is not None:
        console.print(f"Plot: {svg}", markup=False)


@app.command("simulate")
def simulate(
    policy: Annotated[
        Path | None,
        typer.Argument(help="A policy (JSON), signed or not; default: that of a new scenario."),
    ] = None,
    lives: Annotated[int, typer.Option("--lives", min=2, help="Lives per mixture.")] = 1000,
    candidates: Annotated[
        int, typer.Option("--candidates", min=1, help="Candidates submitted in a life.")
    ] = 200,
    seed: Annotated[int, typer.Option("--seed", help="Another one, other lives.")] = 1,
    page: Annotated[
        Path | None, typer.Option("--page", help="Write the results page to this file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Put whole lives of candidates through the gate, with the code that decides real ones.

    Beside it, on the same streams: three in a row anywhere in 36, and a better mean than the best
    so far. A thousand lives of two hundred candidates take some minutes.
    """
    from datetime import UTC, datetime

    from reef_release.cli.gate_measures import measure
    from reef_release.cli.gate_odds import new_policy, read_policy
    from reef_release.cli.gate_page import page as page_of
    from reef_release.cli.quorum import odds_line
    from reef_release.domain.gating.rules import protected_tasks

    found = new_policy() if policy is None else read_policy(policy)
    say = (lambda _text: None) if as_json else (lambda text: console.print(f"· {text}"))
    measured = measure(found, lives=lives, candidates=candidates, seed=seed, say=say)
    if page is not None:
        words = ["reef-release gate simulate", *([] if policy is None else [str(policy)])]
        words += [f"--lives {lives} --candidates {candidates} --seed {seed}", f"--page {page}"]
        today = datetime.now(UTC).date()
        page.write_text(page_of(found, measured, today, " ".join(words)), "utf-8")
    if as_json:
        emit(measured, as_json=True)
        return
    print_table(
        f"{lives} lives of {candidates} candidates",
        ["candidates", "gate", "false share", "lives with a false one", "promotions"],
        [
            [
                row.profile,
                row.gate,
                str(row.false_share),
                str(row.lives_with_one),
                f"{row.promotions:.2f}",
            ]
            for row in measured.rows
        ],
    )
    console.print(
        "In parentheses: intervals of 95%, Clopper and Pearson's (exact) for shares of lives and "
        "of gates; the normal approximation for the false share, a mean over lives, unless no life "
        "has a false promotion: then the exact one of the lives with one, which bounds it.",
        soft_wrap=True,
    )
    if line := odds_line(found):
        console.print(line, markup=False, soft_wrap=True)
    if not protected_tasks(found.standard.rule):
        console.print(
            "This policy has no protected task, so no candidate here breaks one: the mixture is "
            "of its other kinds.",
            soft_wrap=True,
        )
    print_table(
        "0.9 against 0.3",
        ["gate", "promotions", "P(passes)", "counted", "tasks for 0.9"],
        [
            [
                str(row.gate),
                str(row.promotions),
                f"{row.exact:.4f}",
                str(row.counted),
                str(row.trials or "over 100"),
            ]
            for row in measured.power
        ],
    )
    if page is not None:
        console.print(f"Page: {page}", markup=False)
