"""Asking an endpoint: what is an answer, what an outage, what a wrong setting."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from judge.backend import HttpBackend, Misconfigured
from reef_release.errors import BadRequest, ReefError, SettingsError, Unavailable
from tests.unit.judge.fakes import NO_WAIT

ASKED = [{"role": "user", "content": "hi"}]


def completion(content: str | None = "yes", **message: Any) -> httpx.Response:
    choice = {"index": 0, "message": {"role": "assistant", "content": content, **message}}
    return httpx.Response(200, json={"choices": [choice]})


def backend(
    *answers: httpx.Response | Exception, endpoint: str = "http://judge.test/v1"
) -> tuple[HttpBackend, list[httpx.Request]]:
    requests: list[httpx.Request] = []
    left = list(answers)

    def handle(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    found = HttpBackend(
        endpoint,
        "judge-model",
        key="k",
        temperature=0.5,
        max_tokens=99,
        retry=NO_WAIT,
        transport=httpx.MockTransport(handle),
    )
    return found, requests


def test_a_request_has_the_openai_form() -> None:
    judge, requests = backend(completion())
    assert judge.complete(ASKED, 7) == "yes"
    assert str(requests[0].url) == "http://judge.test/v1/chat/completions"
    assert requests[0].headers["authorization"] == "Bearer k"
    assert json.loads(requests[0].content) == {
        "model": "judge-model",
        "messages": ASKED,
        "temperature": 0.5,
        "max_tokens": 99,
        "seed": 7,
    }
    assert judge.settings == {"temperature": "0.5", "max_tokens": "99"}


@pytest.mark.parametrize(
    "endpoint", ["http://judge.test", "http://judge.test/", "http://judge.test/v1/"]
)
def test_the_endpoint_may_be_given_with_v1_or_without(endpoint: str) -> None:
    judge, requests = backend(completion(), endpoint=endpoint)
    judge.complete(ASKED, 1)
    assert requests[0].url.path == "/v1/chat/completions"


@pytest.mark.parametrize(
    "first",
    [
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
        httpx.RemoteProtocolError("cut"),
        httpx.Response(408),
        httpx.Response(425),
        httpx.Response(429, headers={"retry-after": "1"}),
        httpx.Response(500, text="oops"),
        httpx.Response(502, text="<html>"),
        httpx.Response(503),
        httpx.Response(504),
        httpx.Response(200, text="<html>"),
        httpx.Response(200, json={"choices": []}),
        httpx.Response(200, json={"error": "busy"}),
    ],
)
def test_an_outage_is_tried_again_and_then_raised(first: httpx.Response | Exception) -> None:
    judge, requests = backend(first, completion("later"))
    assert judge.complete(ASKED, 1) == "later"
    judge, requests = backend(first)
    with pytest.raises(Unavailable):
        judge.complete(ASKED, 1)
    assert len(requests) == NO_WAIT.attempts


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_wrong_setting_is_told_at_once(status: int) -> None:
    judge, requests = backend(httpx.Response(status, text="no"))
    with pytest.raises(Misconfigured, match=f"status {status}"):
        judge.complete(ASKED, 1)
    assert len(requests) == 1


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_request_that_is_not_accepted_is_neither(status: int) -> None:
    judge, requests = backend(httpx.Response(status, text="too long"))
    with pytest.raises(BadRequest, match=f"status {status}") as caught:
        judge.complete(ASKED, 1)
    assert not isinstance(caught.value, (Unavailable, SettingsError))
    assert len(requests) == 1


def test_an_answer_that_is_all_reasoning_is_an_empty_answer() -> None:
    judge, _ = backend(completion(None, reasoning_content="hm"))
    assert judge.complete(ASKED, 1) == ""


@pytest.mark.parametrize("answer", [httpx.Response(200, json={"data": []}), httpx.Response(404)])
def test_whoever_answers_is_there(answer: httpx.Response) -> None:
    judge, requests = backend(answer)
    judge.check()
    assert requests[0].url.path == "/v1/models"


def test_nobody_there_is_told() -> None:
    judge, _ = backend(httpx.ConnectError("refused"))
    with pytest.raises(Unavailable):
        judge.check()


@pytest.mark.parametrize(
    "make",
    [
        lambda: HttpBackend("judge.test", "m"),
        lambda: HttpBackend("http://judge.test", "m", temperature=float("nan")),
        lambda: HttpBackend("http://judge.test", "m", temperature=-0.1),
    ],
)
def test_settings_that_cannot_work_are_refused(make: Callable[[], HttpBackend]) -> None:
    with pytest.raises(SettingsError):
        make()


def test_a_bad_request_keeps_its_kind() -> None:
    judge, _ = backend(httpx.Response(400, text="the prompt is too long"))
    with pytest.raises(BadRequest):
        judge.complete(ASKED, 1)


@pytest.mark.parametrize("status", [302, 400, 401, 404, 409, 413, 418, 422, 429, 500, 502, 503])
def test_no_error_repeats_what_the_answer_says(status: int) -> None:
    """What a judge could not do goes into the log, and from there nobody can erase a word."""
    said = "My name is Ada."
    echo = {"title": said, "detail": [{"input": said}], "next_step": said, "error": said}
    for answer in (
        httpx.Response(status, json=echo, headers={"location": said}),
        httpx.Response(status, json=echo | {"detail": said}),
        httpx.Response(status, text=said),
        httpx.RemoteProtocolError(f"illegal status line: {said}"),
        httpx.Response(200, json={said: said}),
    ):
        judge, _ = backend(answer)
        with pytest.raises(ReefError) as caught:
            judge.complete(ASKED, 1)
        assert said not in str(caught.value)
        assert len(caught.value.detail) < 200


@pytest.mark.parametrize("status", [429, 500, 502, 504])
def test_an_outage_is_told_by_its_status(status: int) -> None:
    judge, _ = backend(httpx.Response(status, text="oops"))
    with pytest.raises(Unavailable, match=f"status {status}"):
        judge.complete(ASKED, 1)
