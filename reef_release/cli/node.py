"""`node`: the serving node; `node explain`: why the loaded release may be served."""

from __future__ import annotations

import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from reef_release.cli.account import print_lines
from reef_release.cli.options import (
    DEFAULT_URL,
    AsJson,
    Channel,
    Home,
    Once,
    ScenarioName,
    TokenFile,
    Url,
    read_token,
)
from reef_release.cli.output import console, emit
from reef_release.node.config import NodeConfig
from reef_release.settings import Settings, load_settings

__all__ = ["app"]

app = typer.Typer(help="Serve a channel, or explain what is served.")

_Root = Annotated[
    Path | None, typer.Option("--root", help="The trust root, from outside; default HOME/keys.")
]
_State = Annotated[
    Path | None, typer.Option("--state", help="The node's own directory; default HOME/node.")
]
_Name = Annotated[str, typer.Option("--name", help="The node's name in the log.")]
_Origin = Annotated[str | None, typer.Option("--origin", help="The log's name.")]
_Tolerance = Annotated[
    float,
    typer.Option(
        "--canary-tolerance",
        min=0.0,
        help="How far the engine's log-probabilities may be from the gate's, in nats.",
    ),
]
_Engine = Annotated[str, typer.Option("--engine", help="Address of the generation engine.")]

_Witnesses = Annotated[
    Path | None,
    typer.Option("--witnesses", help="File of witnesses' verifier keys, one per line."),
]
_Quorum = Annotated[
    int | None,
    typer.Option("--witness-quorum", min=1, help="How many must cosign; default more than half."),
]

_DEFAULT_ENGINE = "http://127.0.0.1:8000"


@app.callback(invoke_without_command=True)
def node(
    context: typer.Context,
    scenario: Annotated[str, typer.Option("--scenario", "-s", help="The scenario.")] = "",
    channel: Channel = "stable",
    engine: _Engine = _DEFAULT_ENGINE,
    root: _Root = None,
    state: _State = None,
    name: _Name = "node-1",
    origin: _Origin = None,
    canary_tolerance: _Tolerance = NodeConfig.canary_tolerance,
    witnesses: _Witnesses = None,
    witness_quorum: _Quorum = None,
    floor: Annotated[
        Path | None,
        typer.Option("--floor", help="Where another node stands; a new node begins there."),
    ] = None,
    once: Once = False,
    home: Home = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Follow the signed current document, verify everything, drive an engine over HTTP.

    With --once, exit status 1 when the node stands on refused or no weights.
    """
    if context.invoked_subcommand is not None:
        return
    if not scenario:
        raise typer.BadParameter("name a scenario with --scenario")
    from reef_release.node.run import run_node

    settings = load_settings(home=home)
    config = replace(
        _config(settings, scenario, channel, engine, root, state, name, origin, url),
        canary_tolerance=canary_tolerance,
        witnesses=witnesses,
        witness_quorum=witness_quorum,
        floor=floor,
        token=read_token(token_file),
    )
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    standing = run_node(config, once=once, stop=stop)
    text = f"Serving {standing.release_id or 'nothing'}." + "".join(
        f"\n{reason}" for reason in standing.reasons
    )
    emit(standing, as_json=as_json, text=text)
    if once and standing.reasons:
        raise typer.Exit(1)


@app.command("explain")
def explain(
    scenario: ScenarioName,
    channel: Channel = "stable",
    root: _Root = None,
    state: _State = None,
    name: _Name = "node-1",
    origin: _Origin = None,
    witnesses: _Witnesses = None,
    witness_quorum: _Quorum = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Judge the loaded release again, from the node's own disk; exit status 1 if it fails."""
    from reef_release.node.explain import explain as judge

    settings = load_settings(home=home)
    config = _config(
        settings, scenario, channel, _DEFAULT_ENGINE, root, state, name, origin, DEFAULT_URL
    )
    found = judge(replace(config, witnesses=witnesses, witness_quorum=witness_quorum))
    if as_json:
        emit(found, as_json=True)
    elif found.release_id is None:
        console.print("No release is loaded, so there is nothing to explain.")
    else:
        verdict = "may be served" if found.may_be_served else "may NOT be served"
        lines = [f"{found.release_id}: {verdict}"]
        lines += [f"  {finding.rule}: {finding.found}" for finding in found.findings]
        lines += [] if found.as_of is None else [str(found.as_of)]
        print_lines(lines)
    if not as_json:
        for reason in (*found.reasons, *found.warnings):
            console.print(str(reason), markup=False, soft_wrap=True)
    if not found.may_be_served:
        raise typer.Exit(1)


@app.command("floor")
def floor(
    scenario: ScenarioName,
    channel: Channel = "stable",
    root: _Root = None,
    state: _State = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Print where this node stands, for a new node to begin from (`node --floor FILE`)."""
    from reef_release.node.opening import floor_of, require_state
    from reef_release.node.vault import Vault

    settings = load_settings(home=home)
    config = _config(
        settings, scenario, channel, _DEFAULT_ENGINE, root, state, "", None, DEFAULT_URL
    )
    require_state(config)
    memory = Vault(config.state).memory(config.anchor_text(), scenario, channel)
    emit(floor_of(memory), as_json=as_json)


@app.command("evidence")
def evidence(
    file: Annotated[Path, typer.Argument(help="A file from a node's `evidence` directory.")],
    root: _Root = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Check what a node kept of a service that contradicted itself; exit status 1 if no proof.

    Needs the file and the trust root alone, so anybody can check it.
    """
    from reef_release.cli.audit import read_anchor
    from reef_release.node.evidence import read_evidence

    found = read_evidence(file, read_anchor(root, home))
    verdict = "Proven" if found.proven else "Not proven by itself"
    emit(found, as_json=as_json, text=f"{verdict} ({found.kind}): {found.found}.")
    if not found.proven:
        raise typer.Exit(1)


def _config(
    settings: Settings,
    scenario: str,
    channel: str,
    engine: str,
    root: Path | None,
    state: Path | None,
    name: str,
    origin: str | None,
    url: str,
) -> NodeConfig:
    return NodeConfig(
        url=url,
        scenario=scenario,
        channel=channel,
        node_id=name,
        anchor=root or settings.keys_dir / "root.json",
        origin=origin or settings.origin,
        # Absolute: the engine reads the files from there, and may have been started elsewhere.
        state=(state or settings.home / "node").absolute(),
        engine_url=engine,
    )
