"""One call on its way: begun on disk, its reply taken in, ended on disk exactly once."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime

import msgspec

from reef_release.api.proxy.call import ChatCall
from reef_release.api.proxy.draining import Note
from reef_release.api.proxy.reply import Reply
from reef_release.api.proxy.spool import Spool
from reef_release.artifacts.blobs import SALT_BYTES
from reef_release.domain.state import Scenario
from reef_release.domain.traffic.times import written_time
from reef_release.ids import uuid7
from reef_release.traffic_wire import CallError, InteractionRequest

__all__ = ["Exchange"]

_PATIENCE_S = 2.0
"""For so long an answer waits for the disk, and no longer."""


class Exchange:
    """A call of *actor* to *scenario*; it begins with its construction."""

    def __init__(self, spool: Spool, actor: str, scenario: Scenario, call: ChatCall) -> None:
        self.record_id = uuid7()
        self.call = call
        self.reply = Reply()
        self._spool = spool
        self._actor = actor
        self._scenario = scenario
        self._salt = os.urandom(SALT_BYTES)
        self._request = InteractionRequest(
            messages=call.messages,
            tools=call.tools,
            interaction_id=self.record_id,
            at=written_time(datetime.now(UTC)),
            tag=call.tag,
            turn_type=call.turn_type,
            model=call.model,
            temperature=call.temperature,
        )
        self._begun = spool.begin(self.record_id, self._note(self._request))
        self._ended: asyncio.Task[None] | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it is decided how it ended."""
        return self._ended is not None

    async def begun(self) -> None:
        """Return once the disk knows of the call, or does not want to."""
        await asyncio.wait({self._begun}, timeout=_PATIENCE_S)

    def end(self, error: CallError | None = None, status: int | None = None) -> None:
        """Note what came, and the *error* that kept it from being whole; the first one counts."""
        if self._ended is None:
            self._ended = self._spool.end(self.record_id, self._note(self._outcome(error, status)))

    async def ended(self) -> None:
        """Return once the disk has what came, or does not want it."""
        if self._ended is not None:
            await asyncio.wait({self._ended}, timeout=_PATIENCE_S)

    def _outcome(self, error: CallError | None, status: int | None) -> InteractionRequest:
        reply = self.reply
        return msgspec.structs.replace(
            self._request,
            reply=reply.message,
            finish_reason=reply.finish_reason,
            model=reply.model or self._request.model,
            release_id=self._release(),
            prompt_token_ids=reply.prompt_token_ids,
            token_ids=reply.token_ids,
            logprobs=reply.logprobs,
            error=error,
            status=status,
        )

    def _release(self) -> str | None:
        """The release that answered, if the upstream names one, and one only.

        Most servers give the model's name back as it was asked for, so that says nothing.
        """
        reply = self.reply
        if reply.is_mixed:
            return None
        model = None if reply.model == self.call.model else reply.model
        for name in (reply.fingerprint, model):
            if name in self._scenario.releases:
                return name
        return None

    def _note(self, request: InteractionRequest) -> bytes:
        note = Note(
            scenario=self._scenario.name,
            actor=self._actor,
            request=request,
            salt=self._salt,
            token_fault=self.call.token_fault,
        )
        return msgspec.json.encode(note)
