"""Killed services, a log that is away, a disk that is full: no answered call is lost or doubled."""

from __future__ import annotations

import asyncio
import errno
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from reef_release.api.proxy import draining, exchange, spool
from reef_release.api.proxy.journal import Journal, Kind, Place
from reef_release.api.service import Service
from reef_release.artifacts.directory_store import DirectoryBlobStore
from reef_release.errors import LogUnavailable, QueueFull
from reef_release.ids import uuid7
from reef_release.log import Appended, EventLog, NewEvent
from reef_release.log.embedded import EmbeddedPostgres
from reef_release.log.migrate import SERVICE_ROLE, migrate
from tests.databases import Database
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import SCENARIO, Problem, Site, until
from tests.integration.api.traffic import interaction
from tests.integration.log.proxy import proxied
from tests.integration.proxy.desk import Desk, hello, open_desk
from tests.integration.proxy.upstream import Call, Upstream, completion, scripted, streamed

pytestmark = pytest.mark.anyio

PARTS = streamed(["It ", "is ", "4."])
HOLD = "hold this one"


async def script(call: Call) -> None:
    """Answers, streamed or not; a question to be held gets a beginning, and never an end."""
    asked = call.json
    if asked["messages"][-1]["content"].startswith(HOLD):
        await call.start()
        await call.send(*PARTS[:2])
        await call.left()
    elif asked.get("stream"):
        await call.stream(*PARTS)
    else:
        await call.whole(completion("It is 4."))


@contextmanager
def short_directory() -> Iterator[Path]:
    """For sockets, whose names may not be long."""
    with tempfile.TemporaryDirectory(prefix="reef-") as name:
        Path(name).chmod(0o755)  # for the user that root's PostgreSQL runs as
        yield Path(name)


@asynccontextmanager
async def process_desk(site: Site, upstream: Upstream) -> AsyncIterator[tuple[ServerProcess, Desk]]:
    """A server process before the upstream; its scenario exists."""
    server = ServerProcess(site, upstream_url=upstream.url)
    server.launch()
    try:
        await asyncio.to_thread(server.await_ready)
        story = server.story()
        async with story.http:
            desk = Desk(story=story, upstream=upstream)
            await story.create_scenario()
            yield server, desk
    finally:
        server.__exit__(None, None, None)


async def in_the_log(desk: Desk, count: int) -> list[dict[str, Any]]:
    """The data of so many calls, in the log's order; `failed` says how they are recorded."""

    async def look() -> list[dict[str, Any]]:
        return [
            {**each["data"], "failed": each["type"] == "interaction.failed"}
            for each in await desk.story.events(scenario=SCENARIO)
            if each["type"].startswith("interaction.")
        ]

    found = await until(look, lambda seen: len(seen) >= count)
    assert len(found) == count
    return found


def receipts(calls: list[dict[str, Any]]) -> list[str]:
    return [each["interaction_id"] for each in calls]


async def hold(desk: Desk, name: str) -> tuple[asyncio.Task[None], str]:
    """A client in the middle of a stream that does not end; and its receipt."""
    receipt: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def client() -> None:
        try:
            async with desk.stream(hello(f"{HOLD} {name}", stream=True)) as response:
                async for _ in response.aiter_raw():
                    if not receipt.done():
                        receipt.set_result(response.headers["x-reef-agent-record-id"])
        except Exception:
            assert receipt.done()

    task = asyncio.create_task(client())
    return task, await receipt


async def test_a_call_in_the_middle_of_a_killed_service_is_recorded_as_failed(site: Site) -> None:
    async with scripted(script) as upstream, process_desk(site, upstream) as (server, desk):
        client, held = await hold(desk, "one")
        answered = (await desk.ask()).headers["x-reef-agent-record-id"]
        await in_the_log(desk, 1)
        server.kill()
        await client
        await asyncio.to_thread(server.restart)
        found = await in_the_log(desk, 2)
        assert receipts(found) == [answered, held]
        assert found[1]["error"] == "service-stopped"

        async def spool_is_empty() -> bool:
            return not list((site.home / "spool").glob("process-*/*.calls"))

        await until(spool_is_empty)


async def test_a_burst_while_the_log_is_away_survives_a_killed_service_in_order(
    tmp_path: Path, database: Database
) -> None:
    with short_directory() as directory:
        async with (
            proxied(database.service_dsn, directory) as network,
            scripted(script) as upstream,
        ):
            site = Site(
                home=tmp_path / "home",
                database=Database(owner_dsn=database.owner_dsn, service_dsn=network.dsn),
            )
            async with process_desk(site, upstream) as (server, desk):
                await network.cut()
                answers: list[list[str]] = [[] for _ in range(4)]
                clients = [hold(desk, str(number)) for number in range(2)]
                held = [receipt for _, receipt in [await each for each in clients]]

                async def converse(number: int) -> None:
                    for question in range(10):
                        asked = hello(f"{number}: {question}?", stream=question % 2 == 0)
                        response = await desk.ask(asked, x_reef_tag_session=str(number))
                        assert response.status_code == 200
                        answers[number].append(response.headers["x-reef-agent-record-id"])

                await asyncio.gather(*(converse(number) for number in range(4)))
                server.kill()
                await network.mend()
                await asyncio.to_thread(server.restart)
                found = await in_the_log(desk, 42)
                assert sorted(receipts(found)) == sorted([*chain(*answers), *held])
                assert sorted(receipts(found[-2:])) == sorted(held)
                assert [each["failed"] for each in found] == [False] * 40 + [True] * 2
                for mine in answers:
                    assert [each for each in receipts(found) if each in mine] == mine
                # Once more: what is in the log already does not come again.
                server.kill()
                await asyncio.to_thread(server.restart)
                assert receipts(await in_the_log(desk, 42)) == receipts(found)


async def test_calls_are_answered_while_postgres_is_stopped_and_started_under_load() -> None:
    with short_directory() as root, EmbeddedPostgres(root / "pg") as postgres:
        await migrate(postgres.dsn, service_password="secret")
        dsn = postgres.dsn_for(SERVICE_ROLE, "secret")
        site = Site(home=root / "home", database=Database(owner_dsn=postgres.dsn, service_dsn=dsn))
        async with scripted(script) as upstream, process_desk(site, upstream) as (_, desk):
            answers: list[list[str]] = [[] for _ in range(3)]
            enough = asyncio.Event()

            async def load(number: int) -> None:
                while not enough.is_set():
                    response = await desk.ask(hello(f"{number}: {len(answers[number])}?"))
                    assert response.status_code == 200
                    answers[number].append(response.headers["x-reef-agent-record-id"])

            async def answered_now(count: int) -> None:
                goal = [len(mine) + count for mine in answers]

                async def far() -> bool:
                    return all(len(mine) >= each for mine, each in zip(answers, goal, strict=True))

                await until(far)

            clients = [asyncio.create_task(load(number)) for number in range(3)]
            await answered_now(5)
            await asyncio.to_thread(postgres.stop)
            await answered_now(20)
            response = await desk.story.http.get("/metrics")
            depth = float(response.text.split("\nreef_spool_calls ")[1].split("\n")[0])
            assert depth >= 60
            await asyncio.to_thread(postgres.start)
            await answered_now(5)
            enough.set()
            await asyncio.gather(*clients)
            found = receipts(await in_the_log(desk, sum(map(len, answers))))
            for mine in answers:
                assert [each for each in found if each in mine] == mine


async def test_a_stream_cut_by_the_services_stop_is_recorded_as_that(site: Site) -> None:
    async with open_desk(site) as desk:
        await desk.story.create_scenario()
        desk.upstream.script = script
        client, held = await hold(desk, "one")
    await client
    async with open_desk(site) as desk:
        (recorded,) = await desk.recorded()
        assert recorded.data["interaction_id"] == held
        assert (recorded.data["error"], recorded.text) == ("service-stopped", "It ")


async def test_a_service_takes_over_from_one_of_the_same_home_that_is_killed_later(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draining, "_LOOK_S", 0.05)
    async with open_desk(site) as desk:
        desk.upstream.script = script
        async with process_desk(site, desk.upstream) as (server, doomed):
            client, held = await hold(doomed, "one")
            answered = (await desk.ask()).headers["x-reef-agent-record-id"]
            await in_the_log(desk, 1)
            server.kill()
            await client
            assert receipts(await in_the_log(desk, 2)) == [answered, held]


async def test_two_users_at_once_are_two_conversations(desk: Desk) -> None:
    async def converse(tag: str) -> list[str]:
        messages: list[dict[str, Any]] = []
        found = []
        for number in range(3):
            messages.append({"role": "user", "content": f"What is 2 + {number}?"})
            response = await desk.ask(hello(messages=messages), x_reef_tag_session=tag)
            found.append(response.headers["x-reef-agent-record-id"])
            messages.append(response.json()["choices"][0]["message"])
        return found

    talks = await asyncio.gather(converse("ann"), converse("bob"))
    service = desk.story.service
    assert service is not None
    await desk.recorded(6)
    turns = service.scenario(SCENARIO).traffic.turns

    async def correlated() -> bool:
        return all(turn.kind is not None for turn in turns.values())

    await until(correlated)
    for first, second, third in talks:
        assert (turns[second].follows, turns[third].follows) == (first, second)
        assert {turns[each].session_id for each in (first, second, third)} == {first}


async def test_a_full_disk_blocks_no_answer_and_loses_no_call(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    full(monkeypatch)
    response = await desk.ask()
    assert response.status_code == 200
    (recorded,) = await desk.recorded()
    assert recorded.data["interaction_id"] == response.headers["x-reef-agent-record-id"]


async def test_a_disk_that_fills_up_during_a_call_leaves_no_doubt_how_it_ended(
    site: Site,
) -> None:
    async with open_desk(site) as desk:
        await desk.story.create_scenario()
        service = desk.story.service
        assert service is not None
        with pytest.MonkeyPatch.context() as patch:
            full(patch, but="begun")
            await desk.ask()
            await desk.recorded()
            await until(lambda: emptied(service))
    async with open_desk(site) as desk:
        assert len(await desk.recorded()) == 1


async def emptied(service: Service) -> bool:
    return service.spool.size_bytes == 0


async def test_a_call_whose_end_is_in_the_log_alone_is_not_taken_for_a_failed_one(
    site: Site,
) -> None:
    async with open_desk(site) as desk:
        await desk.story.create_scenario()
        with pytest.MonkeyPatch.context() as patch:
            full(patch, but="begun")
            patch.setattr(Journal, "forget", lambda *_: None)  # killed before
            await desk.ask()
            await desk.recorded()
    async with open_desk(site) as desk:
        service = desk.story.service
        assert service is not None
        await until(lambda: drained(service))
        assert service.spool.set_aside.count == 0
        assert len(await desk.recorded()) == 1


async def drained(service: Service) -> bool:
    return not service.spool.waiting


async def test_a_call_that_neither_disk_nor_memory_takes_is_counted_as_lost(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    full(monkeypatch)
    monkeypatch.setattr(spool, "_HELD_BYTES", 0)
    assert (await desk.ask()).status_code == 200
    assert "reef_spool_lost 1.0" in (await desk.story.http.get("/metrics")).text
    view = await desk.story.get("operate", desk.story.path("signal"))
    assert [each["code"] for each in view["findings"]] == ["lost"]


async def test_an_answer_does_not_wait_for_a_disk_that_hangs(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "_PATIENCE_S", 0.01)
    mended = threading.Event()
    real = Journal.write

    def write(journal: Journal, *args: Any) -> Place:
        assert mended.wait(30)
        return real(journal, *args)

    monkeypatch.setattr(Journal, "write", write)
    desk.upstream.script = script
    try:
        response = await desk.ask(hello(stream=True))
        assert response.content.endswith(b"data: [DONE]\n\n")
        assert (await desk.ask()).status_code == 200
    finally:
        mended.set()
    assert len(await desk.recorded(2)) == 2


def full(monkeypatch: pytest.MonkeyPatch, but: str = "") -> None:
    """From now on, the spool's disk is full; lines of kind *but* still fit."""
    real = Journal.write

    def write(journal: Journal, kind: Kind, *args: Any) -> Place:
        if kind == but:
            return real(journal, kind, *args)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Journal, "write", write)


async def test_a_queue_that_is_full_for_a_while_changes_no_order(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = EventLog.append
    is_full = True

    async def append(log: EventLog, new: NewEvent) -> Appended:
        if is_full and new.type == "interaction.recorded":
            raise QueueFull("Too many wait.")
        return await real(log, new)

    monkeypatch.setattr(EventLog, "append", append)
    sent = [(await desk.ask(hello(f"{n}?"))).headers["x-reef-agent-record-id"] for n in range(5)]
    is_full = False
    assert [each.data["interaction_id"] for each in await desk.recorded(5)] == sent


async def test_a_body_that_cannot_be_stored_for_a_while_is_not_overtaken(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = DirectoryBlobStore.put_body
    refusals = iter([True, False, True, True, False])

    async def put_body(blobs: DirectoryBlobStore, body: bytes, salt: bytes | None) -> str:
        if next(refusals, False):
            raise OSError(errno.ENOSPC, "No space left on device")
        return await real(blobs, body, salt)

    monkeypatch.setattr(DirectoryBlobStore, "put_body", put_body)
    sent = [(await desk.ask(hello(f"{n}?"))).headers["x-reef-agent-record-id"] for n in range(5)]
    assert [each.data["interaction_id"] for each in await desk.recorded(5)] == sent


async def test_however_often_the_log_is_tried_a_call_is_one_blob(site: Site) -> None:
    real = EventLog.append
    tried = 0

    async def append(log: EventLog, new: NewEvent) -> Appended:
        nonlocal tried
        if new.type == "interaction.recorded":
            tried += 1
            raise LogUnavailable("It may or may not be stored.")
        return await real(log, new)

    async def tried_often(goal: int) -> bool:
        return tried >= goal

    async with open_desk(site) as desk:
        await desk.story.create_scenario()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(EventLog, "append", append)
            before = stored(desk)
            await desk.ask()
            await until(lambda: tried_often(3))
            assert len(stored(desk) - before) == 1
    async with open_desk(site) as desk:
        (recorded,) = await desk.recorded()
        assert stored(desk) - before == {recorded.data["body"]}


async def test_nothing_is_stored_for_a_log_that_is_known_to_be_away(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check(_log: EventLog) -> None:
        raise LogUnavailable("The database does not answer.")

    before = stored(desk)
    with monkeypatch.context() as patch:
        patch.setattr(EventLog, "check", check)
        await desk.ask()
        with pytest.raises(Problem) as problem:
            await desk.story.post("ingest", desk.story.path("interactions"), interaction())
        assert problem.value.status == 503
        assert stored(desk) == before
    await desk.recorded()


async def test_of_the_same_interaction_sent_at_once_one_blob_stays(desk: Desk) -> None:
    before = stored(desk)
    body = interaction(interaction_id=uuid7())
    path = desk.story.path("interactions")
    await asyncio.gather(*(desk.story.post("ingest", path, body) for _ in range(8)))
    assert len(stored(desk) - before) == 1


def stored(desk: Desk) -> set[str]:
    """The digests of all blobs."""
    assert desk.story.service is not None
    root = desk.story.service.settings.blobs_dir
    return {path.parent.name + path.name for path in (root / "blobs").glob("??/*")}
