"""The routes: each method asks for what the service offers, and reads it back strictly."""

from __future__ import annotations

import hashlib
import inspect
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from reef_release import wire
from reef_release.client import ReefClient
from reef_release.client.errors import BadAnswer
from reef_release.client.training import Training
from reef_release.domain.canonical import canonical_json
from reef_release.domain.events import FileEntry
from tests.fakes import NO_WAIT

D = "ab" * 32
JUDGE = wire.JudgeIdentity(model="m", prompt_digest=D)


def answering(*answers: httpx.Response) -> tuple[ReefClient, list[httpx.Request]]:
    requests: list[httpx.Request] = []
    left = list(answers)

    def handle(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return left.pop(0)

    client = ReefClient("http://reef.test", retry=NO_WAIT, transport=httpx.MockTransport(handle))
    return client, requests


@pytest.mark.parametrize(
    ("call", "method", "target"),
    [
        (lambda c: c.scenario("a b"), "GET", "/reef/scenarios/a%20b"),
        (
            lambda c: c.candidates("s", "passed"),
            "GET",
            "/reef/scenarios/s/candidates?status=passed",
        ),
        (lambda c: c.candidate("s", D), "GET", f"/reef/scenarios/s/candidates/{D}"),
        (lambda c: c.account("s"), "GET", "/reef/scenarios/s/account"),
        (
            lambda c: c.candidate_account("s", D),
            "GET",
            f"/reef/scenarios/s/candidates/{D}/account",
        ),
        (lambda c: c.releases("s"), "GET", "/reef/scenarios/s/releases"),
        (lambda c: c.release("s", D), "GET", f"/reef/scenarios/s/releases/{D}"),
        (lambda c: c.claim_gate("s", "w"), "POST", "/reef/scenarios/s/gates/claim"),
        (lambda c: c.claim_turn("s", "w"), "POST", "/reef/scenarios/s/turns/claim"),
        (
            lambda c: c.post_judgment(
                "s", "t/1", wire.JudgmentRequest(lease_id="l", judge=JUDGE, next_id="n")
            ),
            "POST",
            "/reef/scenarios/s/turns/t%2F1/judgment",
        ),
        (lambda c: c.renew_lease("l/1"), "POST", "/reef/leases/l%2F1/renew"),
        (lambda c: c.hold("s", "why"), "POST", "/reef/scenarios/s/hold"),
        (lambda c: c.resume("s", "why"), "POST", "/reef/scenarios/s/resume"),
        (lambda c: c.roll_back("s", D, "why"), "POST", "/reef/scenarios/s/rollback"),
        (lambda c: c.change_policy("s", {}, "why"), "PUT", "/reef/scenarios/s/policy"),
        (
            lambda c: c.revoke_candidate("s", D, "why"),
            "POST",
            f"/reef/scenarios/s/candidates/{D}/revoke",
        ),
        (
            lambda c: c.revoke_release("s", D, "why"),
            "POST",
            f"/reef/scenarios/s/releases/{D}/revoke",
        ),
        (lambda c: c.inclusion(3, 9), "GET", "/reef/log/proof/inclusion?position=3&size=9"),
        (lambda c: c.consistency(3, 9), "GET", "/reef/log/proof/consistency?from=3&to=9"),
        (
            lambda c: c.events(5, limit=7, scenario="_", type="key.added"),
            "GET",
            "/reef/events?after=5&limit=7&scenario=_&type=key.added",
        ),
        (
            lambda c: c.submit("s", wire.CandidateManifest(files=[]), wait_s=0),
            "POST",
            "/reef/scenarios/s/candidates?wait=0",
        ),
    ],
)
def test_each_method_asks_for_its_route(call: Any, method: str, target: str) -> None:
    client, requests = answering(httpx.Response(200, content=b"not json"))
    with pytest.raises(BadAnswer, match="The answer is no"):
        call(client)
    assert (requests[0].method, requests[0].url.raw_path.decode()) == (method, target)


@pytest.mark.parametrize(
    ("call", "target"),
    [
        (lambda c: c.bundle("s", D), f"/reef/scenarios/s/releases/{D}/bundle"),
        (lambda c: c.attestation("s", D), f"/reef/scenarios/s/releases/{D}/attestation"),
        (lambda c: c.checkpoint(), "/reef/log/checkpoint"),
        (lambda c: c.trust_root(), "/reef/trust/root"),
        (lambda c: c.trust_root(4), "/reef/trust/root/4"),
        (lambda c: c.health(), "/healthz"),
        (lambda c: c.ready(), "/readyz"),
    ],
)
def test_documents_come_back_byte_for_byte(call: Any, target: str) -> None:
    client, requests = answering(httpx.Response(200, content=b"text\n"))
    assert call(client) in (b"text\n", "text\n")
    assert requests[0].url.raw_path.decode() == target


def test_every_public_method_says_what_it_does() -> None:
    methods = [
        method
        for kind in (ReefClient, Training)
        for method in inspect.getmembers(kind, inspect.isfunction)
    ]
    assert all(method.__doc__ for name, method in methods if not name.startswith("_"))


def test_no_gate_to_claim_is_none() -> None:
    client, _ = answering(httpx.Response(204))
    assert client.claim_gate("s", "w") is None


def test_no_turn_to_claim_is_none() -> None:
    client, _ = answering(httpx.Response(204))
    assert client.claim_turn("s", "w") is None


def test_a_judgment_is_posted_again_when_its_answer_was_lost() -> None:
    written = httpx.Response(200, json={"position": 7, "event_id": "e"})
    client, requests = answering(httpx.Response(503), written)
    judgment = wire.JudgmentRequest(
        lease_id="l", judge=JUDGE, next_id="n", error="the judge is away"
    )
    assert client.post_judgment("s", "t", judgment).position == 7
    assert requests[0].content == requests[1].content


@pytest.mark.parametrize("answer", [httpx.Response(204), httpx.Response(200, json={})])
def test_probes_are_posted_to_the_judge_of_the_scenario(answer: httpx.Response) -> None:
    client, requests = answering(answer)
    client.post_probe("s", wire.JudgeProbe(judge=JUDGE, asked=12, right=11))
    assert (requests[0].method, requests[0].url.path) == ("POST", "/reef/scenarios/s/judge/probes")


def test_a_bundle_is_posted_as_the_bytes_that_were_signed() -> None:
    client, requests = answering(httpx.Response(201, json={"position": 4, "event_id": "e"}))
    assert client.post_bundle("s", D, b'{"a":1}').position == 4
    assert requests[0].content == b'{"a":1}'
    assert requests[0].url.path == f"/reef/scenarios/s/releases/{D}/bundle"


def test_a_file_of_a_release_is_asked_for_by_its_path(tmp_path: Path) -> None:
    client, requests = answering(httpx.Response(200, content=b"1"))
    digest = hashlib.sha256(b"1").hexdigest()
    file = FileEntry(path="sub/a+b.bin", sha256=digest, size_bytes=1)
    client.download_release_file("s", D, file, tmp_path / "x")
    assert requests[0].url.raw_path.decode() == (
        f"/reef/scenarios/s/releases/{D}/files/sub/a%2Bb.bin"
    )


def test_the_current_document_is_polled_by_its_tag() -> None:
    client, requests = answering(
        httpx.Response(200, content=b"{}", headers={"etag": '"1"'}),
        httpx.Response(304, headers={"etag": '"1"'}),
    )
    first = client.current("s")
    assert (first.document, first.etag) == (b"{}", '"1"')
    again = client.current("s", "canary", etag=first.etag, wait_s=20)
    assert (again.document, again.etag) == (None, '"1"')
    assert requests[1].headers["if-none-match"] == '"1"'
    assert dict(requests[1].url.params) == {"channel": "canary", "wait": "20"}
    assert requests[1].extensions["timeout"]["read"] == 50.0


def test_events_come_back_in_the_bytes_that_were_stored() -> None:
    events = [
        {"position": 1, "data": {"text": "grün \u2028 \U0001f41f", "n": 9007199254740991}},
        {"position": 2, "data": {}},
    ]
    loose = json.dumps({"events": events, "next_after": 2, "head": 9}, indent=2)
    client, _ = answering(httpx.Response(200, content=loose.encode()))
    page = client.events()
    assert page.events == tuple(canonical_json(event) for event in events)
    assert (page.next_after, page.head) == (2, 9)


@pytest.mark.parametrize(
    "events",
    ['[{"a":0.5}]', '[{"a":1,"a":2}]', '[{"a":9007199254740993}]', "[" * 5000 + "]" * 5000],
)
def test_an_event_without_canonical_form_is_refused(events: str) -> None:
    body = f'{{"events":{events},"next_after":1,"head":1}}'
    client, _ = answering(httpx.Response(200, content=body.encode()))
    with pytest.raises(BadAnswer):
        client.events()


@pytest.mark.parametrize(
    "page",
    [{"events": [], "next_after": 3, "head": 9}, {"events": [{}] * 3, "next_after": 9, "head": 9}],
)
def test_a_page_that_goes_back_or_overflows_is_refused(page: dict[str, Any]) -> None:
    client, _ = answering(httpx.Response(200, json=page))
    with pytest.raises(BadAnswer):
        client.events(5, limit=2)
