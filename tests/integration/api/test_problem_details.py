"""Whatever goes wrong is said as RFC 9457 problem details, and bad input is never a 5xx."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import anyio
import httpx
import pytest

from tests.integration.api.server import ServerProcess
from tests.integration.api.story import Story

pytestmark = pytest.mark.anyio

S = "/reef/scenarios/homework"
DEEP = 100_000


def check(response: httpx.Response, *statuses: int) -> dict[str, Any]:
    """A complete problem with one of *statuses*."""
    assert response.status_code in statuses, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert problem["status"] == response.status_code
    assert problem["type"].startswith("urn:reef-release:problem:")
    for field in ("title", "detail", "next_step"):
        assert isinstance(problem[field], str)
        assert problem[field], field
    for reason in problem["reasons"]:
        assert reason.keys() == {"code", "message", "where"}
    return problem


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 401),
        ("GET", "/nope", 404),
        ("GET", "/reef", 404),
        ("GET", "/reef/scenarios/homework/nope", 404),
        ("GET", "/reef/scenarios/homewrok", 404),
        ("GET", "/reef/scenarios/Homework", 404),
        ("GET", "/reef/scenarios/homework%2Fcurrent", 200),
        ("GET", "/reef/scenarios/home%2Fwork", 404),
        ("GET", "/reef/scenarios/%00", 404),
        ("GET", "/reef/scenarios/homework%00", 404),
        ("GET", "/reef/scenarios/%FF%FE", 404),
        ("GET", "/reef/scenarios/..%2F..%2Fetc%2Fpasswd", 404),
        ("GET", "/reef/scenarios/" + "x" * 50_000, 404),
        ("GET", f"{S}/candidates/" + "0" * 64, 404),
        ("GET", f"{S}/candidates/%00", 404),
        ("GET", f"{S}/releases/none", 404),
        ("GET", f"{S}/current?channel=nope", 404),
        ("GET", f"{S}/current?channel=%00", 404),
        ("GET", f"{S}/current?wait=-1", 400),
        ("GET", f"{S}/current?wait=61", 400),
        ("GET", f"{S}/current?wait=nan", 400),
        ("GET", f"{S}/current?wait=inf", 400),
        ("GET", f"{S}/current?wait=soon", 400),
        ("GET", "/reef/blobs/" + "0" * 64, 404),
        ("GET", "/reef/blobs/" + "A" * 64, 400),
        ("GET", "/reef/blobs/%2e%2e%2f%2e%2e", 404),
        ("GET", "/reef/events?after=-2", 400),
        ("GET", "/reef/events?after=x", 400),
        ("GET", "/reef/events?after=" + "9" * 30, 400),
        ("GET", "/reef/events?limit=0", 400),
        ("GET", "/reef/events?limit=1001", 400),
        ("GET", "/reef/events?scenario=%00", 400),
        ("GET", "/reef/events?type=a%00b", 400),
        ("GET", "/reef/events?scenario=%FF%ED%A0%80", 200),
        ("GET", "/reef/events/stream?scenario=%00", 400),
        ("GET", "/reef/events/stream?after=" + "9" * 30, 400),
        ("GET", "/reef/events?type=nope", 200),
        ("GET", "/reef/events/stream?after=-2", 400),
        ("GET", "/reef/log/tile/0/999", 404),
        ("GET", "/reef/log/tile/0/000.p/256", 404),
        ("GET", "/reef/log/tile/0/000.p/0", 404),
        ("GET", "/reef/log/tile/64/000.p/1", 404),
        ("GET", "/reef/log/tile/63/000.p/1", 404),
        ("GET", "/reef/log/tile/-1/000", 404),
        ("GET", "/reef/log/tile/0/0", 404),
        ("GET", "/reef/log/tile/entries/x999/x999/x999/x999/x999/x999/999", 404),
        ("GET", "/reef/log/proof/inclusion", 400),
        ("GET", "/reef/log/proof/inclusion?position=100000", 400),
        ("GET", "/reef/log/proof/inclusion?position=0&size=0", 400),
        ("GET", "/reef/log/proof/inclusion?position=0&size=" + "9" * 25, 400),
        ("GET", "/reef/log/proof/consistency?from=0", 400),
        ("GET", "/reef/log/proof/consistency?from=5&to=4", 400),
        ("GET", "/reef/trust/root/0", 404),
        ("GET", "/reef/trust/root/x", 404),
        ("GET", "/reef/trust/root/" + "9" * 5000, 404),
        ("PUT", "/reef/scenarios", 405),
        ("DELETE", S, 405),
        ("POST", f"{S}/current", 405),
        ("PATCH", "/reef/blobs/" + "0" * 64, 405),
        ("GET", f"{S}/hold", 405),
        ("POST", "/healthz", 405),
        ("BREW", "/healthz", 405),
        ("GET", "/reef//scenarios//homework//", 200),
    ],
)
async def test_an_odd_request_is_answered_with_a_problem(
    standing: Story, method: str, path: str, status: int
) -> None:
    response = await standing.ask("audit", method, path)
    if status == 200:
        assert response.status_code == 200, response.text
        return
    check(response, status)
    if status == 405:
        assert response.headers["allow"]


@pytest.mark.parametrize("value", ["-1", "x", "1.5", "", "9" * 30, "\u0663"])
async def test_a_last_event_id_that_is_no_position_is_400(standing: Story, value: str) -> None:
    headers = {b"Last-Event-ID": value.encode()}
    headers[b"Authorization"] = f"Bearer {standing.site.token('audit')}".encode()
    check(await standing.http.get("/reef/events/stream", headers=headers), 400)


async def test_head_is_answered_without_a_body_where_it_is_not_served(standing: Story) -> None:
    for path in ("/healthz", S, f"{S}/current", "/nope"):
        response = await standing.ask("audit", "HEAD", path)
        assert response.status_code in (404, 405)


GOOD_HOLD = {"reason": "because"}
BODIES: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"{",
    "two values": b"{}{}",
    "a trailing comma": b'{"reason":"x",}',
    "a number": b"1",
    "null": b"null",
    "a list": b"[]",
    "a string": b'"reason"',
    "no field": b"{}",
    "an unknown field": b'{"reason":"x","force":true}',
    "another type": b'{"reason":1}',
    "null for a string": b'{"reason":null}',
    "NaN": b'{"reason":NaN}',
    "Infinity": b'{"reason":Infinity}',
    "a huge integer": b'{"reason":' + b"9" * 400 + b"}",
    "a float beyond all": b'{"reason":1e999}',
    "deep lists": b"[" * DEEP + b"]" * DEEP,
    "deep objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "invalid UTF-8": b'{"reason":"\xff\xfe"}',
    "UTF-16": '{"reason":"x"}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"reason":"x"}',
    "a lone surrogate": b'{"reason":"\\ud800"}',
    "NUL": b"\x00",
    "an empty reason": b'{"reason":"  "}',
    "a very long reason": json.dumps({"reason": "x" * 3000}).encode(),
    "a form": b"reason=x",
}


@pytest.mark.parametrize("name", BODIES)
async def test_a_malformed_body_is_400_whatever_is_wrong_with_it(
    standing: Story, name: str
) -> None:
    for path in (f"{S}/hold", f"{S}/resume"):
        check(await standing.ask("operate", "POST", path, content=BODIES[name]), 400)
    view = await standing.get("audit", S)
    assert view["held_reason"] is None


async def test_the_well_formed_twin_of_those_bodies_is_accepted(story: Story) -> None:
    assert await story.post("operate", f"{S}/hold", GOOD_HOLD)
    with_space = b' {"reason" : "a \\u00e9 \\ud83d\\ude00 b"} '
    assert await story.post("operate", f"{S}/resume", with_space)
    event = (await story.events(type="scenario.resumed"))[-1]
    assert event["data"]["reason"] == "a é 😀 b"


MANIFEST_PARTS: dict[str, Any] = {
    "settings with NaN": b'{"settings":{"x":NaN}',
    "settings with infinity": b'{"settings":{"x":1e999}',
    "settings with a huge integer": b'{"settings":{"x":' + b"9" * 30 + b"}",
    "settings beyond 2^53": b'{"settings":{"x":9007199254740993}',
    "deep settings": b'{"settings":' + b'{"a":' * 200 + b"1" + b"}" * 200,
    "very deep settings": b'{"settings":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "a seed that is a float": b'{"seed":1.5',
    "a seed beyond 2^53": b'{"seed":' + b"9" * 25,
    "a kind nobody knows": b'{"kind":"gguf"',
    "a channel with a slash": b'{"channel":"a/b"',
    "a channel with a space": b'{"channel":"a b"',
    "an empty channel": b'{"channel":""',
    "a negative length": b'{"channel":"stable"',
    "batches of numbers": b'{"batches":[1]',
}


@pytest.mark.parametrize("name", MANIFEST_PARTS)
async def test_a_malformed_manifest_leaves_no_event(standing: Story, name: str) -> None:
    manifest = await standing.manifest()
    if name == "a negative length":
        manifest["files"][0]["size_bytes"] = -1
    field = MANIFEST_PARTS[name][2:].split(b'"')[0].decode()
    manifest.pop(field, None)
    rest = json.dumps(manifest).encode()[1:]
    before = len(await standing.events(type="candidate.submitted"))
    response = await standing.ask(
        "operate", "POST", f"{S}/candidates", content=MANIFEST_PARTS[name] + b"," + rest
    )
    check(response, 400, 422)
    assert len(await standing.events(type="candidate.submitted")) == before


@pytest.mark.parametrize(
    ("path", "size", "encoding"),
    [
        (f"{S}/hold", 17 * 1024**2, "announced"),
        (f"{S}/hold", 17 * 1024**2, "chunked"),
        (f"{S}/releases/none/bundle", 17 * 1024**2, "announced"),
    ],
)
async def test_a_huge_body_is_413(standing: Story, path: str, size: int, encoding: str) -> None:
    async def chunks() -> Any:
        for _ in range(size // 65536):
            yield b" " * 65536

    role = "sign" if path.endswith("bundle") else "operate"
    content = chunks() if encoding == "chunked" else b" " * size
    check(await standing.ask(role, "POST", path, content=content), 413)


async def test_a_body_of_another_media_type_is_read_as_json_or_refused(standing: Story) -> None:
    for media_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        response = await standing.ask(
            "operate",
            "POST",
            f"{S}/hold",
            content=b"reason=x",
            headers={"Content-Type": media_type},
        )
        check(response, 400, 415)


async def test_unknown_and_odd_names_are_refused_with_reasons(standing: Story) -> None:
    schema = await standing.put_blob(standing.site.model_schema())
    for name in ("a b", "", "_", "é", "a/b", "x" * 65, "-a", "a\n", "\x00"):
        body = {"name": name, "schema": schema, "policy": standing.signed_policy()}
        response = await standing.ask("operate", "POST", "/reef/scenarios", json=body)
        check(response, 400, 422)
    assert len((await standing.get("audit", "/reef/scenarios"))["scenarios"]) == 1


async def test_a_defect_is_a_problem_that_tells_nothing_of_the_inside(
    standing: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("the password is 1234")

    monkeypatch.setattr("reef_release.api.routes.scenarios.scenario_view", broken)
    response = await standing.ask("audit", "GET", S)
    problem = check(response, 500)
    assert problem["type"] == "urn:reef-release:problem:defect"
    assert "1234" not in response.text
    monkeypatch.undo()
    assert (await standing.ask("audit", "GET", S)).status_code == 200


RAW = {
    "no HTTP": b"hello\r\n\r\n",
    "a path of bytes": b"GET /reef/scenarios/\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    "a path in percent that is no UTF-8": b"GET /reef/scenarios/%FF HTTP/1.1\r\nHost: x\r\n\r\n",
    "a query that is no UTF-8": b"GET /healthz?a=%FF&%FF=b HTTP/1.1\r\nHost: x\r\n\r\n",
    "a very long path": b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "a very long header": b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 200_000 + b"\r\n\r\n",
    "a host that is none": b"GET /healthz HTTP/1.1\r\nHost: a b\x01\r\n\r\n",
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "a length that is none": b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
    "two lengths": b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n"
    b"Content-Length: 2\r\n\r\nab",
    "a length and chunks": b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a body that breaks off": b"POST /reef/scenarios/homework/hold HTTP/1.1\r\nHost: x\r\n"
    b"Content-Length: 100\r\n\r\n{",
}


@pytest.mark.parametrize("name", RAW)
async def test_bytes_that_are_hardly_http_hurt_nobody(running: ServerProcess, name: str) -> None:
    async with await anyio.connect_tcp("127.0.0.1", running.port) as stream:
        await stream.send(RAW[name])
        await stream.send_eof()
        answer = b""
        with (
            anyio.fail_after(20),
            contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError),
        ):
            while True:
                answer += await stream.receive()
    status = answer[9:12]
    assert not status.startswith(b"5"), answer[:500]
    async with running.story().http as http:
        assert (await http.get("/healthz")).status_code == 200
    assert "Traceback" not in running.log
