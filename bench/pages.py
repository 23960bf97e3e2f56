"""How long the pages take on a large log: `python bench/pages.py [--events N]`.

A log of a million events (see `bench/mix.py`) is written into an embedded PostgreSQL. The service
is opened in this process, which rebuilds its state, and every page is asked for through the whole
application, without a network, as an auditor of all scenarios. The longest of a page's requests is
one that was not warm. CPU is that of the service alone; where other programs use the machine it
says more than the time.

    --events N               1,000,000 by default
    --short                  20,000 events, 5 requests per page
    --keep DIRECTORY         where the log is made, and is found by the next run
    --home HOME --dsn DSN    another log instead: a service's home, and its role's DSN
    --origin NAME            the origin of that log, if it is not the default
    --scenario NAME          the scenario to look at; the first one by default
    --requests N             per page, 20 by default
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import math
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import structlog

from bench.append import PASSWORD
from bench.mix import load
from reef_release.api.app import create_app
from reef_release.api.service import Service, open_service
from reef_release.log.embedded import EmbeddedPostgres
from reef_release.log.migrate import SERVICE_ROLE, migrate
from reef_release.settings import Settings
from reef_release.tokens import TOKEN_SECRET, Principal, TokenRole, load_secret
from reef_release.web.pages import PAGES
from tests.world import ORIGIN


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--short", action="store_true", help="20,000 events, 5 requests")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--dsn", default="")
    parser.add_argument("--origin", default="")
    parser.add_argument("--scenario", default="")
    parser.add_argument("--requests", type=int, default=20)
    given = parser.parse_args()
    if given.short:
        given.events, given.requests = 20_000, 5
    if given.dsn:
        asyncio.run(measure(given))
    else:
        with _log(given.keep, given.events) as (given.home, given.dsn):
            given.origin = ORIGIN
            asyncio.run(measure(given))


@contextmanager
def _log(keep: Path | None, count: int) -> Iterator[tuple[Path, str]]:
    """A log of *count* events: the home and the DSN of a service for it."""
    with tempfile.TemporaryDirectory(prefix="reef-pages-") as name:
        directory = keep or Path(name)
        made = directory / f"made-{count}"
        with EmbeddedPostgres(directory, settings={"max_wal_size": "4GB"}) as server:
            asyncio.run(migrate(server.dsn, service_password=PASSWORD))
            if not made.exists():
                began = time.perf_counter()
                load(server.dsn, count, directory / "home")
                made.touch()
                print(f"the log was made in {time.perf_counter() - began:.0f} s", flush=True)
            load_secret(directory / "home" / "keys" / TOKEN_SECRET, create=True)
            yield directory / "home", server.dsn_for(SERVICE_ROLE, PASSWORD)


async def measure(given: argparse.Namespace) -> None:
    """Open the service, and ask for each page."""
    # All calls of a made log have one body, which is no conversation: nobody wants to read of each.
    quiet = structlog.make_filtering_bound_logger(logging.ERROR)
    structlog.configure(wrapper_class=quiet)
    settings = Settings(home=given.home, database_url=given.dsn, port=0)
    if given.origin:
        settings = settings.model_copy(update={"origin": given.origin})
    started = time.perf_counter()
    async with open_service(settings) as service:
        took_s = time.perf_counter() - started
        gc.freeze()  # as `reef-release serve` does
        count = service.state.position + 1
        print(f"{count:,} events; state rebuilt in {took_s:.1f} s, {count / took_s:,.0f} events/s")
        print(f"journals of the signal: {service.signal.size_bytes / 1e6:.1f} MB; ", end="")
        print(f"whole process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:,.0f} MB")
        transport = httpx.ASGITransport(create_app(service, PAGES))
        async with httpx.AsyncClient(
            transport=transport, base_url="http://reef", headers={"accept": "text/html"}
        ) as http:
            await _quiet()
            await _sign_in(http, service)
            print("| page | bytes | median ms | p95 ms | longest ms | of it CPU, median ms |")
            print("| --- | --- | --- | --- | --- | --- |")
            for name, path in _paths(service, given.scenario).items():
                await _ask(http, name, path, given.requests)


async def _quiet(patience_s: float = 60) -> None:
    """Wait until what a service does at its start (correlation reads calls again) is over."""
    end, calm = time.monotonic() + patience_s, 0
    while calm < 20 and time.monotonic() < end:
        before = time.process_time()
        await asyncio.sleep(0.05)
        calm = calm + 1 if time.process_time() - before < 0.005 else 0


async def _sign_in(http: httpx.AsyncClient, service: Service) -> None:
    token = service.tokens.issue(Principal(name="bench", role=TokenRole.AUDIT))
    answer = await http.post(
        "/sign-in", data={"token": token}, headers={"sec-fetch-site": "same-origin"}
    )
    if answer.status_code not in (302, 303):
        sys.exit(f"signing in failed: {answer.status_code} {answer.text[:300]}")


def _paths(service: Service, wanted: str) -> dict[str, str]:
    state = service.state
    name = wanted or next(iter(state.scenarios))
    here, middle, end = f"/s/{name}", state.position // 2, state.position
    sessions = service.sessions.active(name, end, 1).sessions
    paths = {
        "scenarios": "/",
        "overview": here,
        "overview, half way": f"{here}?at={middle}",
        "timeline": f"{here}/timeline",
        "timeline, half way": f"{here}/timeline?at={middle}",
        "timeline, rollbacks alone": f"{here}/timeline?kind=rollback",
        "gates": f"{here}/gates",
        "gates, half way": f"{here}/gates?at={middle}",
        "candidates": f"{here}/candidates",
        "candidates, half way": f"{here}/candidates?at={middle}",
        "learning": f"{here}/learning",
        "learning, half way": f"{here}/learning?at={middle}",
        "signal": f"{here}/signal",
        "signal, half way": f"{here}/signal?at={middle}",
        "signal, 744 hours": f"{here}/signal?hours=744",
        "sessions": f"{here}/sessions",
        "sessions, half way": f"{here}/sessions?at={middle}",
        "log": f"{here}/log",
        "log, by type": f"{here}/log?type=turn.judged",
        "log, text found nowhere": f"{here}/log?q=nowhere-at-all",
        "log, all scenarios": "/log",
        "event with its neighbours": f"/log/{middle}",
        "event's proof": f"/log/{middle}/proof",
    }
    scenario = state.scenarios[name]
    if scenario.gates:
        paths["one policy"] = f"{here}/policies/{scenario.policy.digest}"
        paths["one gate"] = f"{here}/gates/{next(reversed(scenario.gates))}"
        paths["one candidate"] = f"{here}/candidates/{next(reversed(scenario.candidates))}"
    if sessions:
        paths["session"] = f"{here}/sessions/{sessions[0].session_id}"
    return paths


async def _ask(http: httpx.AsyncClient, name: str, path: str, requests: int) -> None:
    times_ms, own_ms = [], []
    for _ in range(requests):
        started, own = time.perf_counter(), time.process_time()
        answer = await http.get(path, follow_redirects=True)
        times_ms.append((time.perf_counter() - started) * 1e3)
        own_ms.append((time.process_time() - own) * 1e3)
        if answer.status_code != 200:
            print(f"{name}: {answer.status_code} {answer.text[:300]}")
            return
    times_ms.sort()
    p95 = times_ms[math.ceil(0.95 * len(times_ms)) - 1]
    print(
        f"| {name} | {len(answer.content):,} | {statistics.median(times_ms):.1f} | {p95:.1f} | "
        f"{times_ms[-1]:.1f} | {statistics.median(own_ms):.1f} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
