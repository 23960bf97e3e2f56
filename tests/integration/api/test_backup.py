"""Backups: made of a running service, verified, and back in an empty database as they were."""

from __future__ import annotations

import json
import os
import stat
import tarfile
import time
from collections.abc import AsyncIterator, Collection, Iterator
from pathlib import Path
from typing import Any

import anyio
import asyncpg
import pytest
from typer.testing import CliRunner, Result

from reef_release.audit import replay, verify
from reef_release.audit.http_source import ClientSource
from reef_release.backup import make_backup, read_erasures, recover, write_keys
from reef_release.backup.layout import read_manifest
from reef_release.cli import app
from reef_release.client import ReefClient
from reef_release.domain import events as ev
from reef_release.domain.events import VerdictRecord
from reef_release.errors import BadRequest, Conflict, NotFound, ReefError, Refused, SettingsError
from reef_release.log import EventLog
from reef_release.log.migrate import migrate
from tests.databases import Database, Server
from tests.erasing import SECRET, WHY, holding
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import SCENARIO, Site, Story, open_story
from tests.integration.api.test_forged_events import Thief
from tests.integration.api.traffic import Agent, judged_turn
from tests.integration.log.mirror import new_event
from tests.world import facts

pytestmark = pytest.mark.anyio


@pytest.fixture
def empty(postgres: Server) -> Iterator[Database]:
    """A second database, without any schema."""
    with postgres.database(migrated=False) as database:
        yield database


@pytest.fixture
async def told(server: ServerProcess) -> AsyncIterator[Story]:
    """A served release, a judged turn, a report, a candidate without a gate, an erased call."""
    story = server.story()
    async with story.http:
        await story.create_scenario()
        await story.release()
        turn = await judged_turn(story)
        await story.post(
            "ingest", "/reef/report", {"score": 1, "feedback": "Good.", "references": [turn]}
        )
        await story.submit()
        gone = await Agent(story=story, tag="gone").say(f"{SECRET} Long gone.", "Hello.")
        await story.post("operate", story.path("erasures"), {**WHY, "turn_id": gone})
        await Agent(story=story, tag="here").say(SECRET, "Hello Ada.")
        yield story


async def backed_up(story: Story, out: Path, without_effect: Collection[int] = ()) -> Path:
    end = len(await story.events())

    def make() -> None:
        with ReefClient(str(story.http.base_url), story.site.token("audit")) as client:
            while int(client.checkpoint().split("\n")[1]) < end:
                time.sleep(0.1)  # one is signed each second
            make_backup(ClientSource(client), out, without_effect=without_effect)

    await anyio.to_thread.run_sync(make)
    return out


async def rows(dsn: str, size: int | None = None) -> list[tuple[Any, ...]]:
    connection = await asyncpg.connect(dsn)
    try:
        found = await connection.fetch("select * from reef.events order by position")
    finally:
        await connection.close()
    return [tuple(row) for row in found][:size]


async def decisions(dsn: str) -> dict[str, int]:
    connection = await asyncpg.connect(dsn)
    try:
        return dict(await connection.fetch("select scenario, position from reef.decisions"))
    finally:
        await connection.close()


async def head(dsn: str) -> tuple[int, bytes]:
    connection = await asyncpg.connect(dsn)
    try:
        row = await connection.fetchrow("select position, chain from reef.head")
    finally:
        await connection.close()
    return row["position"], row["chain"]


async def test_a_recovered_service_is_the_one_that_was_backed_up(
    told: Story, empty: Database, tmp_path: Path
) -> None:
    site = told.site
    backup = await backed_up(told, tmp_path / "backup")
    size = read_manifest(backup).size
    assert stat.S_IMODE(backup.stat().st_mode) == 0o700
    assert (await anyio.to_thread.run_sync(verify, backup / "export", site.anchor)).good
    home = tmp_path / "new"
    found = await recover(backup, empty.owner_dsn, home / "blobs", site.anchor)
    assert (found.size, found.missing, found.withheld, found.erased) == (size, 0, 0, 0)
    before = await rows(site.database.owner_dsn, size)
    assert await rows(empty.owner_dsn) == before
    assert await head(empty.owner_dsn) == (size - 1, before[-1][-1])
    decided = await decisions(empty.owner_dsn)
    assert decided.keys() == {"_", SCENARIO}
    assert decided[SCENARIO] == (await decisions(site.database.owner_dsn))[SCENARIO]
    assert decided["_"] == max(row[0] for row in before if row[2] == "_")
    old = {each.name: each for each in (site.home / "blobs" / "blobs").rglob("*") if each.is_file()}
    new = {each.name: each for each in (home / "blobs" / "blobs").rglob("*") if each.is_file()}
    assert new.keys() == old.keys()
    assert all(new[name].read_bytes() == old[name].read_bytes() for name in new)
    assert holding(home, "Long gone.") == []
    elsewhere = {"home": home, "database_url": empty.service_dsn, "keys": site.home / "keys"}
    async with open_story(site) as one, open_story(site, **elsewhere) as two:
        assert one.service is not None
        assert two.service is not None
        await one.service.live.catch_up()
        assert two.service.state.violations == []
        mine, theirs = facts(one.service.state), facts(two.service.state)
        for each in ("root", "keys", "scenarios", "erased", "kept"):
            assert mine[each] == theirs[each], each
        assert two.service.state.tree.root(size).hex() == found.root
        # And it goes on: what is appended continues the chain.
        await Agent(story=two).say("Still there?", "Yes.")
        assert len(await two.events(type="interaction.recorded")) == 5


async def test_the_recovered_log_is_append_only_again(
    told: Story, empty: Database, tmp_path: Path
) -> None:
    backup = await backed_up(told, tmp_path / "backup")
    await recover(backup, empty.owner_dsn, tmp_path / "blobs", told.site.anchor)
    connection = await asyncpg.connect(empty.owner_dsn)
    try:
        for statement in (
            "delete from reef.events",
            "update reef.events set actor = 'x'",
            "insert into reef.events select * from reef.events limit 1",
            "update reef.head set position = 0",
            "truncate reef.events",
        ):
            with pytest.raises(asyncpg.PostgresError):
                await connection.execute(statement)
        states = await connection.fetch(
            "select tgname, tgenabled from pg_trigger where not tgisinternal"
        )
        assert {row["tgenabled"] for row in states} == {b"A"}
    finally:
        await connection.close()


async def test_a_point_in_time_ends_the_log_there(
    told: Story, empty: Database, tmp_path: Path
) -> None:
    backup = await backed_up(told, tmp_path / "backup")
    events = await told.events()
    promoted = next(e["position"] for e in events if e["type"] == "release.promoted")
    found = await recover(
        backup, empty.owner_dsn, tmp_path / "blobs", told.site.anchor, to=promoted
    )
    assert found.size == promoted + 1
    assert await rows(empty.owner_dsn) == await rows(told.site.database.owner_dsn, promoted + 1)
    assert (await decisions(empty.owner_dsn))[SCENARIO] == promoted
    assert holding(tmp_path / "blobs", SECRET) == []  # said later


async def test_what_was_erased_after_the_backup_does_not_come_back(
    told: Story, empty: Database, tmp_path: Path
) -> None:
    backup = await backed_up(told, tmp_path / "backup")
    assert holding(backup, SECRET)
    view = await told.post("operate", told.path("erasures"), {**WHY, "tag": "here"})
    later = await backed_up(told, tmp_path / "later")
    assert holding(later, SECRET) == []
    printed = tmp_path / "erased.json"
    printed.write_text(json.dumps(view))
    for source in (later, later / "export", printed):
        assert view["bodies"][0]["digest"] in {each.data.digest for each in read_erasures([source])}
    found = await recover(
        backup,
        empty.owner_dsn,
        tmp_path / "blobs",
        told.site.anchor,
        erasures=read_erasures([later]),
    )
    assert (found.withheld, found.erased, found.missing) == (1, 1, 0)
    assert holding(tmp_path / "blobs", SECRET) == []
    last = json.loads((await rows(empty.owner_dsn))[-1][-2])
    assert (last["type"], last["actor"], last["data"]["reason"]) == (
        "body.erased",
        "recover",
        WHY["reason"],
    )


@pytest.mark.parametrize("given", [False, True])
async def test_what_was_erased_behind_a_point_in_time_stays_erased(
    told: Story, empty: Database, tmp_path: Path, given: bool
) -> None:
    view = await told.post("operate", told.path("erasures"), {**WHY, "tag": "here"})
    [digest] = {each["digest"] for each in view["bodies"]}
    backup = await backed_up(told, tmp_path / "backup")
    assert holding(backup, SECRET) == []
    [_, last] = [each["position"] for each in await told.events(type="body.erased")]
    printed = tmp_path / "erased.json"
    printed.write_text(json.dumps(view))
    site = told.site
    home = tmp_path / "new"
    found = await recover(
        backup,
        empty.owner_dsn,
        home / "blobs",
        site.anchor,
        to=last - 1,
        erasures=read_erasures([backup, printed]) if given else (),
    )
    assert (found.size, found.withheld, found.erased, found.missing) == (last, 1, 1, 0)
    elsewhere = {"home": home, "database_url": empty.service_dsn, "keys": site.home / "keys"}
    async with open_story(site, **elsewhere) as two:
        assert two.service is not None
        assert two.service.state.violations == []
        assert two.service.state.erased[digest].reason == WHY["reason"]
        assert (await two.ask("audit", "HEAD", f"/reef/blobs/{digest}")).status_code == 410


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"turn_id": "nobody"}, "unknown-turn"),
        ({"scenario": "elsewhere"}, "unknown-scenario"),
        ({"kind": "votes"}, "other-body"),
        ({"reason": ""}, "no-reason"),
    ],
)
async def test_an_erasure_that_the_log_does_not_bear_out_is_refused(
    told: Story, empty: Database, tmp_path: Path, changes: dict[str, str], code: str
) -> None:
    backup = await backed_up(told, tmp_path / "backup")
    call = (await told.events(type="interaction.recorded"))[-1]
    right = {
        "scenario": told.scenario,
        "turn_id": call["data"]["interaction_id"],
        "kind": "call",
        "digest": call["data"]["body"],
    }
    printed = tmp_path / "erased.json"
    printed.write_text(json.dumps({"bodies": [right | changes]}))
    with pytest.raises(Refused) as refused:
        await recover(
            backup,
            empty.owner_dsn,
            tmp_path / "blobs",
            told.site.anchor,
            erasures=read_erasures([printed]),
        )
    assert [each.code for each in refused.value.reasons] == [code]
    assert await rows(empty.owner_dsn) == []
    assert set(os.listdir(tmp_path)) == {"home", "backup", "erased.json"}
    printed.write_text(json.dumps({"bodies": [right | changes, right]}))
    found = await recover(
        backup,
        empty.owner_dsn,
        tmp_path / "blobs",
        told.site.anchor,
        erasures=read_erasures([printed]),
    )
    assert (found.withheld, found.erased, found.missing) == (1, 1, 0)


async def test_a_gate_that_was_freed_of_a_violation_is_free_after_a_recovery(
    told: Story, empty: Database, tmp_path: Path
) -> None:
    site = told.site
    gate = (await told.claim_soon()).opened
    forged = ev.GateFailed(
        gate_id=gate.gate_id,
        candidate_id=gate.candidate_id,
        base=gate.base,
        channel=gate.channel,
        attestation={
            "payload": "",
            "payloadType": "application/vnd.in-toto+json",
            "signatures": [],
        },
        canary=None,
    )
    async with EventLog.open(site.database.service_dsn) as log:
        wrong = (await Thief(told, log).append(forged)).position
    unnamed = await backed_up(told, tmp_path / "unnamed")
    with pytest.raises(Refused, match="not what its checkpoint"):
        await recover(unnamed, empty.owner_dsn, tmp_path / "blobs", site.anchor)
    with pytest.raises(BadRequest):
        await backed_up(told, tmp_path / "none", [1_000_000])
    too_many = await backed_up(told, tmp_path / "too-many", [wrong, wrong - 1])
    with pytest.raises(Refused, match=f"position {wrong - 1} "):
        await recover(too_many, empty.owner_dsn, tmp_path / "blobs", site.anchor)
    backup = await backed_up(told, tmp_path / "backup", [wrong])
    await recover(backup, empty.owner_dsn, tmp_path / "blobs", site.anchor)
    course = "select reef.gate_course_reasons('gate.trial', $1, $2, '{}')"
    connection = await asyncpg.connect(empty.owner_dsn)
    try:
        found = await connection.fetch("select position from reef.without_effect")
        assert [row["position"] for row in found] == [wrong]
        await connection.execute("set search_path = reef, pg_catalog")
        asked = (course, SCENARIO, f"gate/{gate.gate_id}")
        assert await connection.fetchval(*asked) == []
        await connection.execute("delete from reef.without_effect")
        assert await connection.fetchval(*asked) == ["gate-closed"]
    finally:
        await connection.close()


NOWHERE = "0" * 64


async def forged(story: Story) -> list[int]:
    """Events without effect: a trial whose body never was, data of no form, a call of nobody's."""
    due = await story.claim_soon()
    trial = ev.GateTrial(
        gate_id=due.opened.gate_id,
        slot=0,
        side="candidate",
        attempt=0,
        task_id=due.tasks[0].task_id,
        body=NOWHERE,
        error=None,
        verdict=VerdictRecord(passed=True, checks={"answer@1": True}),
    )
    submitted = (await story.events(type="candidate.submitted"))[-1]["data"]
    files = [each | {"sha256": "../../../etc/hostname"} for each in submitted["files"]]
    async with EventLog.open(story.site.database.service_dsn) as log:
        return [
            (await log.append(each)).position
            for each in (
                new_event(trial),
                new_event({"reason": 5}, type="scenario.held", stream="scenario"),
                new_event(
                    submitted | {"files": files},
                    type="candidate.submitted",
                    stream=f"candidate/{submitted['candidate_id']}",
                ),
            )
        ]


async def test_events_without_effect_do_not_stop_a_recovery_whatever_they_name(
    told: Story, empty: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = told.site
    wrong = await forged(told)
    backup = await backed_up(told, tmp_path / "backup")
    assert NOWHERE in read_manifest(backup).missing
    monkeypatch.setenv("DATABASE_URL", empty.owner_dsn)
    home, root = tmp_path / "new", tmp_path / "root.json"
    root.write_text(site.anchor)

    async def recover_(*options: str) -> Result:
        command = ["recover", str(backup), "--home", str(home), "--root", str(root), *options]
        return await anyio.to_thread.run_sync(lambda: CliRunner().invoke(app, command))

    refused = await recover_()
    assert isinstance(refused.exception, Refused)
    options = " ".join(f"--without-effect {position}" for position in wrong)
    assert options in str(refused.exception)
    assert not home.exists()

    done = await recover_(*options.split(), "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["missing"], found["not_needed"]) == (0, [NOWHERE])
    assert await rows(empty.owner_dsn) == await rows(site.database.owner_dsn, found["size"])

    elsewhere = {"home": home, "database_url": empty.service_dsn, "keys": site.home / "keys"}
    with pytest.raises(SettingsError, match=f"positions \\[{wrong[0]}\\]"):
        async with open_story(site, **elsewhere):
            pass
    async with open_story(site, **elsewhere, accept_missing_blobs=True) as two:
        assert two.service is not None
        assert [each.position for each in two.service.state.violations] == wrong
        # And the slot that the forged trial stood on is free.
        ended = await two.run_trials(await two.claim_soon(), "---")
        assert await two.decide(ended) == "failed"


async def test_a_position_is_no_excuse_for_a_body_that_the_backup_had(
    told: Story, empty: Database, tmp_path: Path
) -> None:
    """Without it the honest trial is one without effect, too; but the backup once had it."""
    backup = await backed_up(told, tmp_path / "backup")
    trial = (await told.events(type="gate.trial"))[0]
    (backup / "export" / "blobs" / trial["data"]["body"]).unlink()
    report = await anyio.to_thread.run_sync(replay, backup / "export", told.site.anchor)
    void = {each.position for each in report.problems if each.position is not None}
    assert trial["position"] in void
    with pytest.raises(Refused) as refused:
        await recover(
            backup,
            empty.owner_dsn,
            tmp_path / "blobs",
            told.site.anchor,
            without_effect=sorted(void),
        )
    assert [each.code for each in refused.value.reasons] == ["blob-missing"]
    assert "--without-effect" not in refused.value.next_step


async def test_nothing_is_written_over_a_log_or_a_blob(
    told: Story, empty: Database, tmp_path: Path
) -> None:
    backup = await backed_up(told, tmp_path / "backup")
    anchor = told.site.anchor
    before = await rows(told.site.database.owner_dsn)
    with pytest.raises(Conflict, match="holds a log"):
        await recover(backup, told.site.database.owner_dsn, tmp_path / "blobs", anchor)
    assert (await rows(told.site.database.owner_dsn))[: len(before)] == before
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "something").touch()
    with pytest.raises(Conflict, match="not empty"):
        await recover(backup, empty.owner_dsn, tmp_path / "full", anchor)
    assert not (tmp_path / "blobs").exists()
    with pytest.raises(Conflict):
        await backed_up(told, backup)


@pytest.mark.parametrize("what", ["event", "blob", "trial", "checkpoint", "position", "anchor"])
async def test_an_altered_backup_leaves_nothing_behind(
    told: Story, empty: Database, tmp_path: Path, what: str
) -> None:
    backup = await backed_up(told, tmp_path / "backup")
    anchor, to = told.site.anchor, None
    if what == "event":
        [segment] = (backup / "export" / "events").iterdir()
        text = segment.read_bytes().replace(b"the-ingest", b"the-1ngest", 1)
        segment.write_bytes(text)
    elif what == "blob":
        path = next((backup / "blobs").iterdir())
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    elif what == "trial":
        events = await told.events(type="gate.trial")
        (backup / "export" / "blobs" / events[0]["data"]["body"]).unlink()
    elif what == "checkpoint":
        path = backup / "export" / "checkpoint"
        path.write_text(path.read_text().replace("\n", "x\n", 1))
    elif what == "position":
        to = 10_000
    else:
        other = Site(home=tmp_path / "other", database=told.site.database)
        anchor = other.anchor
    with pytest.raises(ReefError):
        await recover(backup, empty.owner_dsn, tmp_path / "blobs", anchor, to=to)
    connection = await asyncpg.connect(empty.owner_dsn)
    try:
        if await connection.fetchval("select to_regclass('reef.events') is not null"):
            assert await connection.fetchval("select count(*) from reef.events") == 0
    finally:
        await connection.close()
    assert set(os.listdir(tmp_path)) <= {"home", "backup", "other"}


async def test_the_services_own_role_cannot_recover(
    told: Story, empty: Database, tmp_path: Path
) -> None:
    backup = await backed_up(told, tmp_path / "backup")
    await migrate(empty.owner_dsn)
    with pytest.raises(ReefError):
        await recover(backup, empty.service_dsn, tmp_path / "blobs", told.site.anchor)
    assert await rows(empty.owner_dsn) == []


async def test_private_keys_go_into_a_file_of_their_own_only_when_asked_for(
    told: Story, tmp_path: Path
) -> None:
    backup = await backed_up(told, tmp_path / "backup")
    assert holding(backup, "PRIVATE KEY") == []
    keys = told.site.home / "keys"
    secret = (keys / "token.secret").read_bytes()
    assert not any(secret in each.read_bytes() for each in backup.rglob("*") if each.is_file())
    out = tmp_path / "keys.tar"
    count = write_keys(keys, out)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    with tarfile.open(out) as archive:
        names = archive.getnames()
        content = archive.extractfile("keys/log/private.pem")
        assert content is not None
        assert content.read() == (keys / "log" / "private.pem").read_bytes()
        assert archive.getmember("keys/log/private.pem").mode & 0o077 == 0
    assert len(names) == count
    with pytest.raises(Conflict):
        write_keys(keys, out)


async def test_what_is_no_backup_is_none(empty: Database, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        await recover(tmp_path, empty.owner_dsn, tmp_path / "blobs", "{}")
