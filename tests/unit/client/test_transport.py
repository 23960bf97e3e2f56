"""Requests and their errors: bounded, repeated only where that is safe, and told apart."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import msgspec
import pytest

from reef_release import errors
from reef_release.api.problems import PROBLEM_PREFIX
from reef_release.artifacts import errors as blob_errors
from reef_release.artifacts.errors import BlobMissing, DiskFull, OffsetConflict
from reef_release.client import ReefClient
from reef_release.client.errors import BadAnswer, error_from
from reef_release.client.transport import Retry, Transport
from reef_release.domain.reasons import Reason
from reef_release.errors import QueueFull, ReefError, SettingsError, Unavailable
from tests.fakes import NO_WAIT, problem

Handler = Callable[[httpx.Request], httpx.Response]


class Script:
    """Answers one after the other; an exception is raised as the network would."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self._answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.waits: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def transport(self, **retry: float) -> Transport:
        return Transport(
            "http://reef.test",
            token="secret",
            retry=Retry(**{"attempts": 4, **retry}, sleep=self.waits.append),  # type: ignore[arg-type]
            transport=httpx.MockTransport(self),
        )


def get(transport: Transport, method: str = "GET", **options: object) -> bytes:
    return transport.call(method, "/x", limit_bytes=1000, **options).body  # type: ignore[arg-type]


OK = httpx.Response(200, content=b"ok")


# Problems


TOLD_APART = [
    getattr(module, name)
    for module in (errors, blob_errors)
    for name in module.__all__
    if name not in ("ReefError", "OffsetConflict", "openai_error", "token_hint", "told")
]


@pytest.mark.parametrize(
    "kind",
    TOLD_APART,
    ids=lambda kind: kind.__name__,
)
def test_every_error_of_the_tree_comes_back_as_itself(kind: type[ReefError]) -> None:
    reason = Reason(code="because", message="it is so", where="here")
    body = problem(
        kind.status,
        kind.problem,
        "what is wrong",
        next_step="do this",
        reasons=[{"code": "because", "message": "it is so", "where": "here"}],
    ).content
    error = error_from(kind.status, body)
    assert type(error) is kind
    assert (error.detail, error.next_step, error.reasons) == ("what is wrong", "do this", (reason,))


def test_the_services_prefix_is_understood() -> None:
    answer = httpx.Response(404, json={"type": PROBLEM_PREFIX + "blob-missing", "detail": "gone"})
    assert type(error_from(404, answer.content)) is BlobMissing


def test_an_offset_conflict_keeps_its_offset() -> None:
    error = error_from(409, problem(409, "offset-conflict", offset=17).content)
    assert isinstance(error, OffsetConflict)
    assert error.offset == 17
    assert type(error_from(409, problem(409, "offset-conflict").content)) is errors.Conflict


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.BadRequest),
        (401, errors.Unauthorized),
        (403, errors.Forbidden),
        (404, errors.NotFound),
        (409, errors.Conflict),
        (413, errors.PayloadTooLarge),
        (422, errors.Refused),
        (429, errors.TooManyRequests),
        (500, ReefError),
        (502, Unavailable),
        (503, Unavailable),
        (507, ReefError),
    ],
)
@pytest.mark.parametrize("body", [b"", b"<html>no</html>", b"{", b"[" * 100_000, b"\xff"])
def test_without_a_problem_the_status_decides(
    status: int, kind: type[ReefError], body: bytes
) -> None:
    assert type(error_from(status, body)) is kind


def test_a_problem_type_that_contradicts_the_status_is_not_believed() -> None:
    assert type(error_from(500, problem(500, "not-found").content)) is ReefError


# Retries


def test_an_idempotent_request_is_repeated_after_a_lost_connection() -> None:
    script = Script(httpx.ReadError("reset"), httpx.ConnectError("refused"), OK)
    assert get(script.transport()) == b"ok"
    assert len(script.waits) == 2


def test_retries_are_bounded_and_wait_longer_each_time() -> None:
    script = Script(*[httpx.ReadError("reset")] * 4)
    with pytest.raises(Unavailable, match="got no answer"):
        get(script.transport(first_wait_s=1.0))
    assert len(script.requests) == 4
    assert len(script.waits) == 3
    assert all(low <= wait <= 2 * low for low, wait in zip((0.5, 1, 2), script.waits, strict=True))


def test_a_write_is_repeated_only_if_no_connection_came_about() -> None:
    script = Script(httpx.ReadError("reset"))
    with pytest.raises(Unavailable):
        get(script.transport(), "POST")
    assert len(script.requests) == 1
    script = Script(httpx.ConnectError("refused"), OK)
    assert get(script.transport(), "POST") == b"ok"


def test_a_write_is_not_repeated_when_the_queue_is_full() -> None:
    script = Script(problem(503, "queue-full"))
    with pytest.raises(QueueFull):
        get(script.transport(), "POST")


def test_a_refusal_is_not_repeated() -> None:
    script = Script(problem(422, "refused"))
    with pytest.raises(errors.Refused):
        get(script.transport())
    assert len(script.requests) == 1


def test_retry_after_is_waited_for() -> None:
    later = datetime.now(UTC) + timedelta(seconds=5)
    script = Script(
        httpx.Response(503, headers={"retry-after": "3"}),
        httpx.Response(503, headers={"retry-after": format_datetime(later, usegmt=True)}),
        httpx.Response(503, headers={"retry-after": "soon"}),
        OK,
    )
    assert get(script.transport()) == b"ok"
    assert script.waits[0] == 3.0
    assert 3.0 < script.waits[1] <= 5.0
    assert script.waits[2] <= 1.0


def test_a_service_that_asks_for_an_hour_is_not_waited_for() -> None:
    script = Script(httpx.Response(503, headers={"retry-after": "3600"}))
    with pytest.raises(Unavailable) as caught:
        get(script.transport())
    assert caught.value.extra["retry_after_s"] == 3600
    assert script.waits == []


# Limits


def test_an_answer_longer_than_its_limit_is_refused() -> None:
    with pytest.raises(BadAnswer, match="longer than 1000 bytes"):
        get(Script(httpx.Response(200, content=b"x" * 1001)).transport())
    assert len(get(Script(httpx.Response(200, content=b"x" * 1000)).transport())) == 1000


def test_an_endless_answer_ends() -> None:
    taken = []

    def endless() -> Iterator[bytes]:
        while True:
            taken.append(1)
            yield b"x" * 400

    with pytest.raises(BadAnswer):
        get(Script(httpx.Response(200, content=endless())).transport())
    assert len(taken) == 3


def test_an_answer_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("reef_release.client.transport.time.monotonic", lambda: now[0])

    def drip() -> Iterator[bytes]:
        for _ in range(100):
            now[0] += 20.0
            yield b"x"

    script = Script(httpx.Response(200, content=drip()))
    with pytest.raises(Unavailable, match="did not end in time"):
        get(script.transport(attempts=1))


def test_an_encoded_answer_is_refused_before_it_is_unpacked() -> None:
    bomb = gzip.compress(b"0" * 10_000_000)
    answer = httpx.Response(
        200, headers={"content-encoding": "gzip"}, stream=httpx.ByteStream(bomb)
    )
    script = Script(answer)
    with pytest.raises(BadAnswer, match="encoded"):
        get(script.transport())
    assert script.requests[0].headers["accept-encoding"] == "identity"


def test_a_redirect_is_not_followed_and_is_no_answer() -> None:
    script = Script(httpx.Response(302, headers={"location": "http://evil.test/"}))
    with pytest.raises(BadAnswer, match="redirected"):
        get(script.transport())
    assert len(script.requests) == 1


# The client itself


def test_the_token_is_sent_as_a_bearer_token() -> None:
    script = Script(OK)
    get(script.transport())
    assert script.requests[0].headers["authorization"] == "Bearer secret"


@pytest.mark.parametrize("url", ["", "reef.test", "ftp://reef.test", "http://"])
def test_a_url_that_is_none_is_a_wrong_setting(url: str) -> None:
    with pytest.raises(SettingsError):
        ReefClient(url)


def test_a_full_disk_keeps_its_own_error() -> None:
    client = ReefClient(
        "http://reef.test",
        retry=NO_WAIT,
        transport=httpx.MockTransport(lambda _: problem(507, "disk-full")),
    )
    with pytest.raises(DiskFull):
        client.scenarios()


def test_what_an_answer_quotes_is_named_before_anybody_prints_it() -> None:
    body = {
        "detail": "a\u202eb",
        "next_step": "\x1b[31m",
        "reasons": [{"code": "x", "message": "\u2066", "where": "\x9b"}],
    }
    error = error_from(422, msgspec.json.encode(body))
    assert str(error) == "a⟦U+202E⟧b\n  x: ⟦U+2066⟧ [⟦U+009B⟧]\n⟦U+001B⟧[31m"
    assert error_from(502, "gone\u202e".encode()).detail == "gone⟦U+202E⟧"
