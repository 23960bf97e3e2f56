"""A running service with its upstream, and whoever calls it: everything over real HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import openai
import uvicorn

from reef_release.api.bodies import InteractionBody, read_body
from reef_release.api.service import open_service
from tests.applications import application
from tests.integration.api.story import SCENARIO, Site, Story, until
from tests.integration.proxy.upstream import Call, Upstream, completion, scripted

__all__ = ["Desk", "Recorded", "hello", "open_desk"]

CHAT = "/v1/chat/completions"


@dataclass(frozen=True)
class Recorded:
    """A call in the log: its event's type and data, and what its blob holds."""

    type: str
    data: dict[str, Any]
    body: InteractionBody

    @property
    def text(self) -> Any:
        return (self.body.reply or {}).get("content")


def hello(words: str = "What is 2 + 2?", /, **changes: Any) -> dict[str, Any]:
    """The body of a call."""
    return {"model": "policy", "messages": [{"role": "user", "content": words}], **changes}


@dataclass(kw_only=True)
class Desk:
    """One service on a port, its insides, and its upstream."""

    story: Story
    upstream: Upstream

    @property
    def url(self) -> str:
        return str(self.story.http.base_url)

    def headers(self, **changes: str | None) -> dict[str, str]:
        given = {
            "authorization": f"Bearer {self.story.site.token('ingest')}",
            "x-reef-scenario": SCENARIO,
            **{name.replace("_", "-"): value for name, value in changes.items()},
        }
        return {name: value for name, value in given.items() if value is not None}

    async def ask(self, body: Any = None, **headers: str | None) -> httpx.Response:
        """One call, not streamed unless the body says so; the whole answer."""
        content = body if isinstance(body, bytes) else json.dumps(body or hello()).encode()
        return await self.story.http.post(CHAT, content=content, headers=self.headers(**headers))

    @asynccontextmanager
    async def stream(
        self, body: Any = None, **headers: str | None
    ) -> AsyncIterator[httpx.Response]:
        """One streamed call, its body still to be read."""
        async with self.story.http.stream(
            "POST", CHAT, json=body or hello(stream=True), headers=self.headers(**headers)
        ) as response:
            yield response

    def openai(self, **changes: Any) -> openai.AsyncOpenAI:
        """OpenAI's own client, as a user would set it up."""
        given = {
            "base_url": self.url + "/v1",
            "api_key": self.story.site.token("ingest"),
            "default_headers": {"x-reef-scenario": SCENARIO},
            "max_retries": 0,
        }
        return openai.AsyncOpenAI(**(given | changes))

    async def recorded(self, count: int = 1) -> list[Recorded]:
        """Wait until so many calls are in the log; all of them, in its order."""
        service = self.story.service
        assert service is not None

        async def look() -> list[dict[str, Any]]:
            events = await self.story.events(scenario=SCENARIO)
            return [each for each in events if each["type"].startswith("interaction.")]

        events = await until(look, lambda seen: len(seen) >= count)
        assert len(events) == count
        return [
            Recorded(
                each["type"], each["data"], await read_body(service.blobs, each["data"]["body"])
            )
            for each in events
        ]


async def _friendly(call: Call) -> None:
    await call.whole(completion("It is 4."))


@asynccontextmanager
async def open_desk(site: Site, **settings: Any) -> AsyncIterator[Desk]:
    """A service of *site* in this event loop, on a real port, before a friendly upstream."""
    async with (
        scripted(_friendly) as upstream,
        open_service(site.settings(**{"upstream_url": upstream.url, **settings})) as service,
    ):
        with application(service) as app:
            config = uvicorn.Config(
                app,
                log_level="warning",
                lifespan="on",
                ws="none",
                timeout_graceful_shutdown=1,
            )
            server = uvicorn.Server(config)
            # Bound here, so that nobody has to ask for the port, or when it is open.
            listening = socket.create_server(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            running = asyncio.create_task(server.serve(sockets=[listening]))
            async with httpx.AsyncClient(base_url=url, timeout=60) as http:
                try:
                    story = Story(site=site, http=http, service=service)
                    yield Desk(story=story, upstream=upstream)
                finally:
                    server.should_exit = True
                    await running
