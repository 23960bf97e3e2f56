"""A drill that cannot fail is worth nothing: with a protection away it names the row, status 1."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from reef_release.api.readers import BlobReaders
from reef_release.artifacts import admission
from reef_release.artifacts.admission import Admission
from reef_release.audit.report import VerifyReport
from reef_release.cli import app
from reef_release.cli import drill as verb
from reef_release.client import ReefClient
from reef_release.client.errors import BadAnswer
from reef_release.domain import events as ev
from reef_release.domain.events import decode
from reef_release.domain.reasons import Reason
from reef_release.domain.validation import VALIDATORS
from reef_release.drill.attack import Attack, Outcome, Seen, Stop
from reef_release.drill.attacks import audit, files
from reef_release.drill.catalogue import chosen
from reef_release.drill.context import Context
from reef_release.drill.runner import LEFT_OUT, NOT_STOPPED, STOPPED, run_drill
from reef_release.errors import BadRequest, ReefError
from reef_release.node.trusted import Trusted
from reef_release.signing import dsse
from reef_release.tokens import Principal, TokenRole, Tokens
from tests.integration.api.story import SCENARIO
from tests.integration.drill.conftest import Range

REPLAYS = "the-log-replays"


def row_of(report: dict[str, Any], name: str) -> dict[str, Any]:
    [row] = [row for row in report["rows"] if row["name"] == name]
    return dict(row)


def missed(shooting_range: Range, name: str) -> str:
    """That the drill fails for this attack and no other; what it says of it."""
    status, report = shooting_range.drill(name)
    row = row_of(report, name)
    assert (status, report["ok"], row["verdict"]) == (1, False, NOT_STOPPED)
    return str(row["problem"])


def test_with_every_protection_in_place_it_passes_and_tells_what_it_left_out(
    shooting_range: Range,
) -> None:
    names = ("trailing-byte", "suite-by-every-route", "altered-token", "export-edited", "50")
    status, report = shooting_range.drill(*names)
    assert (status, report["ok"]) == (0, True), report
    verdicts = {row["name"]: row["verdict"] for row in report["rows"]}
    assert verdicts["trailing-byte"] == verdicts[REPLAYS] == STOPPED
    assert verdicts["approvals-that-are-none"] == LEFT_OUT
    assert "the service's database password" in row_of(report, "approvals-that-are-none")["problem"]
    assert report["ran"] + report["left_out"] == len(report["rows"])
    assert report["served_before"] == report["served_after"]
    [seen] = row_of(report, "trailing-byte")["seen"]
    assert (seen["by"], seen["code"], seen["event"]) == (
        "admission",
        "trailing-bytes",
        "candidate.refused",
    )


def test_a_second_drill_on_one_service_sees_what_the_first_saw(shooting_range: Range) -> None:
    with ReefClient(shooting_range.url, shooting_range.running.site.token("audit")) as client:
        before = client.events(2**53 - 1, limit=1).head
        for _ in range(2):
            status, report = shooting_range.drill()
            assert (status, report["ok"]) == (0, True), report
        page = client.events(before, limit=1000, type="candidate.submitted")
    actors = [decode(body).envelope.actor for body in page.events]
    # Each under a name of its own, so that none of it counts as the trainer's.
    assert len(set(actors)) == 2
    assert all(actor.startswith("drill-") for actor in actors)
    assert len(actors) == 2 * actors.count(actors[0])


def test_an_admission_that_lets_everything_in(
    shooting_range: Range, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        admission, "admit", lambda *_, **__: Admission(reasons=(), tensor_count=1, size_bytes=1)
    )
    assert "was accepted" in missed(shooting_range, "trailing-byte")
    # It would be gated next.
    with ReefClient(shooting_range.url, shooting_range.running.site.token("operate")) as client:
        [admitted] = client.candidates(SCENARIO, "admitted")
        client.revoke_candidate(SCENARIO, admitted.candidate_id, "made for this test")


def test_an_admission_that_refuses_for_another_reason(
    shooting_range: Range, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = Reason(code="too-late", message="come again tomorrow")
    monkeypatch.setattr(
        admission,
        "admit",
        lambda *_, **__: Admission(reasons=(reason,), tensor_count=1, size_bytes=1),
    )
    assert "too-late, and not by hole-between-tensors" in missed(
        shooting_range, "hole-between-tensors"
    )


def test_an_admission_that_refuses_the_harmless_twin(
    shooting_range: Range, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = Reason(code="too-late", message="come again tomorrow")
    refusal = Admission(reasons=(reason,), tensor_count=1, size_bytes=1)
    monkeypatch.setattr(files, "admit", lambda *_, **__: refusal)
    assert "The good single candidate is refused" in missed(shooting_range, "tensor-renamed")


def test_blobs_that_everybody_may_read(
    shooting_range: Range, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BlobReaders, "may_read", lambda *_: True)
    assert "reads the suite: It was accepted" in missed(shooting_range, "suite-by-every-route")


def test_tokens_that_nobody_checks(shooting_range: Range, monkeypatch: pytest.MonkeyPatch) -> None:
    operator = Principal(name="anybody", role=TokenRole.OPERATE)
    monkeypatch.setattr(Tokens, "verify", lambda *_: operator)
    assert "another signature: It was accepted" in missed(shooting_range, "altered-token")


def test_signatures_that_nobody_checks(
    shooting_range: Range, monkeypatch: pytest.MonkeyPatch
) -> None:
    def believe(envelope: Any, _kind: str, keys: Any, _what: str = "") -> dsse.Verified:
        payload = base64.b64decode(envelope["payload"])
        return dsse.Verified(payload=payload, key_id=next(iter(keys)).key_id)

    monkeypatch.setattr(dsse, "verify", believe)
    assert "not by no-trusted-key" in missed(shooting_range, "policy-of-the-operators-own")


def test_an_audit_that_finds_nothing(
    shooting_range: Range, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = audit.verify

    def blind(*given: Any, **options: Any) -> VerifyReport:
        report = honest(*given, **options)
        report.problems.clear()
        return report

    monkeypatch.setattr(audit, "verify", blind)
    assert "an event deleted: the audit found []" in missed(shooting_range, "export-edited")


def attack(run: Callable[[Context], Outcome], **changes: Any) -> Attack:
    """An attack of one's own, stopped by nobody in particular."""
    fields: dict[str, Any] = {
        "name": "mine",
        "rows": (1,),
        "tries": "something",
        "stops": (Stop(by="me", code="no"),),
        "run": run,
    }
    return Attack(**(fields | changes))


def said(**changes: Any) -> Outcome:
    fields: dict[str, Any] = {"by": "me", "code": "no"}
    return Outcome(seen=(Seen(**(fields | changes)),), twin="goes through")


@pytest.fixture
def throw(
    shooting_range: Range, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Attack], tuple[int, dict[str, Any]]]:
    def run(thrown: Attack) -> tuple[int, dict[str, Any]]:
        monkeypatch.setattr(verb, "chosen", lambda *_, **__: (thrown,))
        status, report = shooting_range.drill()
        return status, row_of(report, "mine")

    return run


Throw = Callable[[Attack], tuple[int, dict[str, Any]]]


def test_a_served_digest_that_moves_is_a_failure_whatever_the_attack_says(throw: Throw) -> None:
    def roll_back(context: Context) -> Outcome:
        served = context.serving()
        releases = context.client(TokenRole.AUDIT).releases(context.scenario)
        other = next(each.release_id for each in releases if each.release_id != served)
        context.client(TokenRole.OPERATE).roll_back(context.scenario, other, "as if")
        return said()

    status, row = throw(attack(roll_back))
    assert (status, row["verdict"]) == (1, NOT_STOPPED)
    assert "homework moved from" in row["problem"]


def test_a_pointer_that_goes_and_comes_back_has_moved_as_well(throw: Throw) -> None:
    def there_and_back(context: Context) -> Outcome:
        served = context.serving() or ""
        operator = context.client(TokenRole.OPERATE)
        releases = context.client(TokenRole.AUDIT).releases(context.scenario)
        other = next(each.release_id for each in releases if each.release_id != served)
        for release in (other, served):
            operator.roll_back(context.scenario, release, "as if")
        return said()

    status, row = throw(attack(there_and_back))
    assert status == 1
    assert "homework moved from" in row["problem"]


@pytest.mark.parametrize(
    ("outcome", "problem"),
    [
        (said(code="another"), "it had to be stopped by me: no, and was by me: another"),
        (said(by="somebody"), "it had to be stopped by me: no"),
        (
            Outcome(seen=(*said().seen, *said(code="more").seen), twin="fine"),
            "none of what must stop it",
        ),
        (Outcome(seen=said().seen, twin=""), "its harmless twin"),
        (Outcome(seen=(), twin="fine"), "and was by nothing"),
    ],
)
def test_an_attack_that_ends_otherwise_than_it_must_was_not_stopped(
    throw: Throw, outcome: Outcome, problem: str
) -> None:
    status, row = throw(attack(lambda _: outcome))
    assert (status, row["verdict"]) == (1, NOT_STOPPED)
    assert problem in row["problem"]


@pytest.mark.parametrize("position", [None, 0, 10**9])
def test_an_event_that_does_not_stand_where_it_is_said_to_was_not_written(
    throw: Throw, position: int | None
) -> None:
    stop = Stop(by="me", code="no", events=("candidate.refused",))
    outcome = said(event="candidate.refused", position=position)
    status, row = throw(attack(lambda _: outcome, stops=(stop,)))
    assert status == 1
    assert f"no candidate.refused at {position}" in row["problem"]


def test_an_attack_that_breaks_was_not_stopped(throw: Throw) -> None:
    def broken(_context: Context) -> Outcome:
        raise ZeroDivisionError("oh")

    status, row = throw(attack(broken))
    assert status == 1
    assert "ZeroDivisionError: oh" in row["problem"]


# On what the drill takes for a stack of its own


def one(shooting_range: Range, tmp_path: Path, name: str) -> Any:
    tmp_path.mkdir(exist_ok=True)
    context = shooting_range.context(tmp_path)
    try:
        report = run_drill(context, chosen([name], quick=False), lambda _: None, quick=True)
    finally:
        context.close()
    [row] = [row for row in report.rows if row.name == name]
    assert report.ok == (row.verdict == STOPPED)
    return row


def test_a_node_that_forgets_its_serial(
    shooting_range: Range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = one(shooting_range, tmp_path / "1", "old-document-replayed")
    assert row.verdict == STOPPED, row.problem
    honest = Trusted.open_document

    def forgetful(self: Trusted, body: bytes, now: str) -> Any:
        memory = self.memory
        self.memory = msgspec.structs.replace(memory, serial=-1)
        try:
            return honest(self, body, now)
        finally:
            self.memory = memory

    monkeypatch.setattr(Trusted, "open_document", forgetful)
    row = one(shooting_range, tmp_path / "2", "old-document-replayed")
    assert row.verdict == NOT_STOPPED
    assert "not serial-lower" in row.problem


def test_a_node_that_does_not_compare_canaries(
    shooting_range: Range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reef_release.node.loading.largest_difference", lambda *_: 0.0)
    row = one(shooting_range, tmp_path, "engine-that-keeps-other-weights")
    assert row.verdict == NOT_STOPPED
    assert "not canary" in row.problem


def test_a_gate_that_takes_any_trial(
    shooting_range: Range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = one(shooting_range, tmp_path / "1", "trial-of-a-task-not-drawn")
    assert row.verdict == STOPPED, row.problem
    monkeypatch.setitem(VALIDATORS, ev.GateTrial, lambda *_: [])
    row = one(shooting_range, tmp_path / "2", "trial-of-a-task-not-drawn")
    assert row.verdict == NOT_STOPPED
    assert "It was accepted" in row.problem


# A service that is none


@pytest.fixture
def yes_man() -> Iterator[str]:
    """A server that says yes to everything."""

    class Yes(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        do_POST = do_PUT = do_GET  # noqa: N815 - names of the standard library

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Yes) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_service_that_says_yes_to_everything_fails_every_row(
    shooting_range: Range, yes_man: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shooting_range.running, "url", yes_man)
    names = ("trailing-byte", "altered-token", "export-edited")
    where = ("--home", str(shooting_range.home), "--url", yes_man, "--scenario", SCENARIO)
    assert "is no ScenarioView" in refusal(*where, "--only", names[0], kind=BadAnswer)
    context = shooting_range.context(tmp_path)
    try:
        report = run_drill(context, chosen(names, quick=True), lambda _: None, quick=True)
    finally:
        context.close()
    assert {row.verdict for row in report.rows} == {NOT_STOPPED}
    assert (report.ok, report.stopped) == (False, 0)


# A drill that cannot say anything


def refusal(*words: str, kind: type[ReefError] = BadRequest) -> str:
    """What `reef-release drill` says when it refuses to begin."""
    done = CliRunner().invoke(app, ["drill", *words])
    assert isinstance(done.exception, kind), done.output
    return str(done.exception)


def test_an_attack_asked_for_by_name_is_never_left_out_in_silence(shooting_range: Range) -> None:
    where = ("--home", str(shooting_range.home), "--url", shooting_range.url, "-s", SCENARIO)
    said = refusal(*where, "--only", "trailing-byte", "--only", "sql-by-hand")
    assert "--only sql-by-hand cannot be run here" in said
    assert "the service's database password" in said
    assert "it is not quick" in refusal(*where, "--quick", "--only", "sql-by-hand")


@pytest.mark.parametrize("option", ["--url", "--scenario"])
def test_without_a_home_nobody_may_believe_that_another_service_was_attacked(option: str) -> None:
    said = refusal(option, "http://127.0.0.1:8470", "--only", "trailing-byte")
    assert f"{option} says which service to attack" in said
