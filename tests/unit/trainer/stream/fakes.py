"""An endpoint that answers by a function, with everything it was asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx

from reef_release.client.transport import Retry
from trainer.stream.endpoint import Endpoint

Messages = list[dict[str, str]]

GOOD = "First 3 * 4 = 12 pens. Then 12 + 6 = 18 pens. So the answer is 18."
BULLETS = "- 3 * 4 = 12\n- 12 + 6 = 18\n**Final answer:** 18"
LAZY = "The answer is 18."
WRONG = "First 3 * 4 = 12 pens. Then 12 + 6 = 19 pens. So the answer is 19."


class FakeServer:
    """Answers chat completions with *reply*(messages); *refusals* come first, one per request."""

    def __init__(
        self,
        reply: Callable[[Messages], str],
        *,
        release: str | None = None,
        finish_reason: str = "stop",
        refusals: list[int] | None = None,
    ) -> None:
        self.reply = reply
        self.release = release
        self.finish_reason = finish_reason
        self.refusals = refusals or []
        self.asked: list[dict[str, Any]] = []
        self.headers: list[httpx.Headers] = []

    def handle(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/models":
            return httpx.Response(200, json={"data": [{"id": "policy"}]})
        assert request.url.path == "/v1/chat/completions"
        if self.refusals:
            return httpx.Response(self.refusals.pop(0), json={})
        asked = json.loads(request.content)
        self.asked.append(asked)
        self.headers.append(request.headers)
        choice = {
            "message": {"role": "assistant", "content": self.reply(asked["messages"])},
            "finish_reason": self.finish_reason,
        }
        return httpx.Response(
            200,
            json={"choices": [choice], "system_fingerprint": self.release},
            headers={"x-reef-agent-record-id": f"receipt-{len(self.asked)}"},
        )

    def endpoint(self, **options: Any) -> Endpoint:
        return Endpoint(
            "http://endpoint.test/v1",
            transport=httpx.MockTransport(self.handle),
            retry=Retry(attempts=4, sleep=lambda _: None),
            **options,
        )
