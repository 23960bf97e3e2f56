"""`serve`, `migrate` and `up`."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from reef_release.cli.options import AsJson, Home
from reef_release.cli.output import console, emit
from reef_release.errors import SettingsError
from reef_release.settings import Settings, load_settings

__all__ = ["given_settings", "register"]

_LOOK_S = 1.0
_DECIDED_BY_UP = {
    "blobs": "HOME/blobs",
    "database_url": "an embedded PostgreSQL in HOME/postgres",
    "host": "127.0.0.1",
    "keys": "HOME/keys",
}


def register(app: typer.Typer) -> None:
    """Add the verbs to *app*."""
    app.command("up")(up)
    app.command("serve")(serve)
    app.command("migrate")(migrate)


def serve(
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option("--port", help="Port to listen on.")] = None,
    home: Home = None,
) -> None:
    """Serve the API and the pages on the database of DATABASE_URL (or REEF_DATABASE_URL)."""
    from reef_release.api.server import serve as run
    from reef_release.web.pages import PAGES

    settings = load_settings(home=home, host=host, port=port)
    if not settings.database_url:
        raise SettingsError(
            "No database is set.",
            next_step="Set DATABASE_URL, or run `reef-release up` for an embedded one.",
        )
    run(settings, PAGES)


def migrate(
    service_password_file: Annotated[
        Path | None,
        typer.Option(help="Let the service's database role log in with this password."),
    ] = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Bring the database of DATABASE_URL to the newest schema; its user may create roles."""
    from reef_release.log.migrate import migrate as run
    from reef_release.log.migrate import newest_revision

    settings = load_settings(home=home)
    if not settings.database_url:
        raise SettingsError("No database is set.", next_step="Set DATABASE_URL.")
    password = None
    if service_password_file is not None:
        try:
            password = service_password_file.read_text("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{service_password_file} cannot be read: {error}.") from error
    asyncio.run(run(settings.database_url, service_password=password))
    revision = newest_revision()
    emit({"revision": revision}, as_json=as_json, text=f"The schema is at revision {revision}.")


def up(
    home: Home = None,
    port: Annotated[
        int | None, typer.Option("--port", help="Port of the API; default REEF_PORT, else 8470.")
    ] = None,
) -> None:
    """Everything on this machine with the tiny policy, kept running until Ctrl-C.

    Settings of the service are honoured, so REEF_UPSTREAM_URL forwards the calls of agents to a
    server of yours. Nothing is restarted: when one program ends, all of it stops and says why.
    """
    from reef_release.cli.external import tiny_models
    from reef_release.cli.homework import (
        SCENARIO,
        await_status,
        homework_learning,
        start_homework,
        submit,
    )
    from reef_release.cli.serving import await_engine
    from reef_release.cli.stack import LocalStack
    from reef_release.tokens import TokenRole

    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    signal.signal(signal.SIGINT, lambda *_: stopped.set())
    settings = load_settings(home=home, port=port)
    given = given_settings(settings)
    with LocalStack(
        settings.home,
        scenario=SCENARIO,
        learning=homework_learning(),
        port=settings.port,
        service_settings=given,
    ) as stack:
        stack.prepare(_say)
        with stack.client(TokenRole.OPERATE) as client:
            start_homework(stack, client, _say)
            if "stable" not in client.scenario(SCENARIO).channels:
                _say("gating the origin")
                origin = submit(stack, tiny_models() / "origin")
                await_status(stack, origin.candidate_id, "promoted")
            _say("waiting until the engine serves what is promoted")
            late = await_engine(stack, client, stopped=stopped.is_set)
        if stopped.is_set():
            _say("stopping")
            return
        _say(f"not yet: {late}; see {stack.home}/logs/node.log" if late else "the engine serves it")
        console.print(
            f"\nReef Release runs at {stack.url} (process {os.getpid()}): pages for a browser"
            f" (sign in with the token in {stack.token_file(TokenRole.OPERATE)}), API at /schema.\n"
            f"Serving {SCENARIO}/stable at {stack.engine_url}/v1.\n"
            f"Agents call {stack.url}/v1; key: {stack.token_file(TokenRole.INGEST)},"
            f" header: x-reef-scenario: {SCENARIO}.\n"
            f"Their calls are forwarded to {settings.upstream_url or stack.engine_url + '/v1'}.\n"
            f"Tokens by role: {stack.home}/tokens, keys: {stack.keys}, logs: {stack.home}/logs.\n"
            f"Try: reef-release status --url {stack.url} "
            f"--token-file {stack.token_file(TokenRole.OPERATE)}\n"
            "Ctrl-C stops everything, and so does the end of any program of it: nothing is"
            " restarted. The data stays.",
            markup=False,
            soft_wrap=True,
        )
        while not stopped.wait(_LOOK_S):
            stack.check()
        _say("stopping")


def given_settings(settings: Settings) -> dict[str, str]:
    """What was set for the service, as its environment; says what `up` decides otherwise."""
    given = {name: getattr(settings, name) for name in settings.model_fields_set - {"home"}}
    for name in sorted(given.keys() & _DECIDED_BY_UP.keys()):
        _say(f"not used here: the setting {name}; it is {_DECIDED_BY_UP[name]}")
    decided = {
        "host": "127.0.0.1",
        "keys": settings.home.absolute() / "keys",
        "blobs": settings.home.absolute() / "blobs",
    }
    return {
        f"REEF_{name.upper()}": str(value)
        for name, value in (given | decided).items()
        if value not in ("", None) and name not in ("database_url", "port")
    }


def _say(text: str) -> None:
    console.print(f"· {text}", markup=False)
