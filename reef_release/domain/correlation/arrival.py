"""A call as it arrives: read, with what is remembered of its scenario and of its tag."""

from __future__ import annotations

from dataclasses import dataclass

from reef_release.domain.correlation.calls import Call
from reef_release.domain.correlation.memory import Memory
from reef_release.domain.correlation.normal import Normal
from reef_release.domain.correlation.request import Request, read_reply, read_request
from reef_release.domain.correlation.system import kinship
from reef_release.domain.correlation.tags import Lane, Tag
from reef_release.domain.correlation.turn import Turn, turn_of

__all__ = ["Arrival", "arrive"]


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """One main call and all that decides where it belongs."""

    call: Call
    request: Request
    reply: Normal | None
    memory: Memory
    tag: Tag | None

    @property
    def lane(self) -> Lane | None:
        """What came before under the tag from the same agent."""
        if self.tag is None:
            return None
        return self.tag.lane(self.request.system, self.memory.tags.counting)

    def may_follow(self, turn: Turn) -> bool:
        """Whether the turn came earlier, from an agent that can be the same."""
        return turn.at_s <= self.call.at_s and self.kinship(turn) > 0

    def kinship(self, turn: Turn) -> int:
        """How surely the turn is the same agent's."""
        return kinship(turn.system, self.request.system, self.request.system_text)

    def remember(
        self,
        session_id: str,
        *,
        follows: str | None = None,
        echoed: bool = False,
        replaces: str | None = None,
    ) -> None:
        """Keep the call as a turn of a session, so that later calls can follow it."""
        turn = turn_of(
            self.call,
            self.request,
            self.reply,
            session_id=session_id,
            follows=follows,
            echoed=echoed,
        )
        self.memory.add(turn)
        if self.tag is not None:
            self.memory.tags.add(self.tag, turn, replaces)


def arrive(call: Call, memory: Memory, tag: Tag | None) -> Arrival:
    """Read *call*."""
    request = read_request(call.messages)
    return Arrival(
        call=call, request=request, reply=read_reply(call, request), memory=memory, tag=tag
    )
