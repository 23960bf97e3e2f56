"""Session tags: what each has been seen to carry, and whether one can be believed alone.

A tag is the client's word and often wrong: one constant for everybody, one per user, the tag of
the conversation before. A call that echoes a reply is matched by the echo; its tag only helps.
A call without an echo is bound by its tag alone, and only when tags are known to be sessions of
clients that keep their history at home: a call had results of tools without the calls, or there
are several tags under which calls went on and none brought any history. The tags of whoever
resends its history say nothing of those, unless they too carry calls that begin anew.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from reef_release.domain.correlation.request import EMPTY
from reef_release.domain.correlation.system import System
from reef_release.domain.correlation.turn import Turn

__all__ = ["Lane", "Tag", "TagBook"]

_RECENT_TURNS = 8
_LANES = 32
_TOOL_TURNS = 8
_SESSIONS = 64
_QUIET_TAGS, _QUIET_AMONG_OTHERS = 2, 3
"""When under so many tags calls went on without history, none for long, those are sessions."""
_CALLS_PER_TAG = 20
_SHORT, _LONGER = 10, 3
"""A tag with more calls, and so many times those of the others, is no session but a constant."""
_MIXED_SHARE = 5
"""There are so many such tags for each under which calls with history began anew."""
_CROSSED_SHARE = 4
"""When conversations cross under one of so many tags of such clients, none is a session."""
_COUNTED = 9
"""So many prompts under known tags that differ from the one before in numbers only."""
_TOOLS_S = 600.0
"""A tool call left without results for so long was abandoned."""


class Lane(msgspec.Struct, kw_only=True):
    """One agent's calls under a tag: the turn a user may react to, and those waiting for tools.

    `crossed`: a conversation went on after another had begun, so they run side by side.
    `at_home`: results of tools came in it without the calls. `loose` is the agent's prompt
    without its numbers.
    """

    talking: Turn | None = None
    calling: list[Turn] = msgspec.field(default_factory=list)
    newest: Turn | None = None
    crossed: bool = False
    at_home: bool = False
    loose: bytes = b""

    def waiting(self, at_s: float) -> list[Turn]:
        """The turns whose tools have not answered yet."""
        return [each for each in self.calling if 0 <= at_s - each.at_s <= _TOOLS_S]

    def forget(self, turn: Turn) -> None:
        """Keep nothing of *turn*."""
        self.calling = [each for each in self.calling if each is not turn]
        if self.talking is turn:
            self.talking = None
        if self.newest is turn:
            self.newest = None

    def add(self, turn: Turn, replaced: str | None) -> bool:
        """Take in the newest turn, which follows its `follows` or comes in place of *replaced*.

        Returns whether this shows for the first time that conversations cross.
        """
        gone = {turn.follows, replaced}
        other = self.newest is not None and turn.session_id != self.newest.session_id
        shown = other and turn.follows is not None and not self.crossed
        self.crossed |= shown
        self.calling = [each for each in self.calling if each.call_id not in gone]
        self.newest = turn
        if turn.reply is None:
            if self.talking is not None and self.talking.call_id in gone:
                self.talking = None
        elif turn.reply.calls:
            self.calling = [*self.calling, turn][-_TOOL_TURNS:]
            if self.talking is not None and self.talking.call_id in gone:
                self.talking = None
        else:
            self.talking = turn
        return shown


class Tag(msgspec.Struct, kw_only=True):
    """One session tag. `echoing`: a call under it resent a reply; `at_home`: none needs to.

    `bare` calls under it carried no earlier reply, or the same ones as the call before (examples);
    `historical`: one carried some. `hasty`: a call came before anybody could have read the last
    reply.
    """

    name: str
    last_s: float
    calls: int = 0
    lanes: dict[bytes, Lane] = msgspec.field(default_factory=dict)
    recent: list[Turn] = msgspec.field(default_factory=list)
    echoing: bool = False
    at_home: bool = False
    bare: int = 0
    historical: bool = False
    hasty: bool = False
    sessions: dict[str, None] = msgspec.field(default_factory=dict)
    openings: int = 0
    switches: int = 0
    current: str | None = None

    @property
    def shared(self) -> bool:
        """Whether it carries conversations side by side, or one after another."""
        return self.switches > 0 or (self.echoing and self.openings > 1)

    @property
    def quiet(self) -> bool:
        """Whether calls went on under it, and none brought any history."""
        return self.bare > 1 and not self.echoing and not self.historical

    @property
    def mixed(self) -> bool:
        """Whether calls under it begin anew that may bring their history."""
        return self.bare > 1 and not self.quiet

    def lane(self, agent: System, counting: bool) -> Lane | None:
        """What came from this agent; *counting*: its prompt differs in numbers at each call."""
        lane = self.lanes.get(agent.masked)
        if lane is None and counting:
            return self.like(agent)
        return lane

    def agents(self, counting: bool) -> int:
        """How many agents came under it."""
        return len({each.loose for each in self.lanes.values()}) if counting else len(self.lanes)

    def like(self, agent: System) -> Lane | None:
        """The newest lane of a prompt that differs in numbers at most."""
        lanes = reversed(self.lanes.values())
        return next((each for each in lanes if each.loose == agent.loose), None)

    def visit(self, session_id: str) -> None:
        """Note that a call of this conversation came under the tag."""
        if session_id not in self.sessions:
            self.openings += 1
            self.sessions[session_id] = None
            if len(self.sessions) > _SESSIONS:
                del self.sessions[next(iter(self.sessions))]
        elif session_id != self.current:
            self.switches += 1
        self.current = session_id

    def forget(self, turn: Turn) -> None:
        """Keep nothing of *turn*, which is remembered no more."""
        self.recent = [each for each in self.recent if each is not turn]
        lane = self.lanes.get(turn.system.masked) or self.like(turn.system)
        if lane is not None:
            lane.forget(turn)

    def add(self, turn: Turn, replaced: str | None, counting: bool) -> bool:
        """Remember a turn under the tag; whether it shows that an agent's conversations cross."""
        self.recent = [*self.recent, turn][-_RECENT_TURNS:]
        lane = self.lane(turn.system, counting) or Lane(loose=turn.system.loose)
        self.lanes = {key: each for key, each in self.lanes.items() if each is not lane}
        self.lanes[turn.system.masked] = lane
        if len(self.lanes) > _LANES:
            del self.lanes[next(iter(self.lanes))]
        return lane.add(turn, replaced)


class TagBook:
    """The tags of a client, the longest silent one first; bounded in number and by age."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._tags: OrderedDict[str, Tag] = OrderedDict()
        self._quiet = 0
        self._quiet_calls = 0
        self._mixed = 0
        self._homes = 0
        self._crossed = 0
        self._repeated = 0
        self._renumbered = 0
        self.echoes = 0
        self.at_home = 0

    def __len__(self) -> int:
        return len(self._tags)

    def all(self) -> list[Tag]:
        """Every tag remembered."""
        return list(self._tags.values())

    def get(self, name: str | None, at_s: float) -> Tag | None:
        """The tag of that name, made when it is new; None for no name."""
        if not name:
            return None
        tag = self._tags.get(name)
        if tag is None:
            tag = self._tags[name] = Tag(name=name, last_s=at_s)
            if len(self._tags) > self._most:
                self._tags.popitem(last=False)
        self._tags.move_to_end(name)
        tag.last_s = max(tag.last_s, at_s)
        tag.calls += 1
        return tag

    def forget(self, turn: Turn) -> None:
        """Keep nothing of *turn* under its tag."""
        tag = self._tags.get(turn.tag or "")
        if tag is not None:
            tag.forget(turn)

    def has(self, name: str) -> bool:
        """Whether calls came under this tag lately."""
        return name in self._tags

    def expire(self, before_s: float) -> None:
        """Forget the tags that were last used before *before_s*."""
        while self._tags:
            name, tag = next(iter(self._tags.items()))
            if tag.last_s >= before_s:
                return
            del self._tags[name]

    def believed(self, tag: Tag) -> bool:
        """Whether a call without an echo continues what came before under its tag."""
        if tag.echoing or self._crossed * _CROSSED_SHARE > self._homes:
            return False
        if tag.at_home or self.at_home > self.echoes:
            return True
        if tag.historical or tag.hasty or not self.many(tag):
            return False
        quiet = self._quiet + (not tag.quiet)
        if self.echoes == 0:
            return quiet >= _QUIET_TAGS
        return quiet >= max(_QUIET_AMONG_OTHERS, _MIXED_SHARE * self._mixed + 1)

    def many(self, tag: Tag) -> bool:
        """Whether there are so many quiet tags that each, and *tag* too, can be a session's."""
        quiet = self._quiet + (not tag.quiet)
        calls = self._quiet_calls + (0 if tag.quiet else min(tag.bare + 1, _CALLS_PER_TAG + 1))
        if calls > _CALLS_PER_TAG * quiet:
            return False
        others = calls - min(tag.bare, _CALLS_PER_TAG + 1)
        return tag.bare <= _SHORT or tag.bare * (quiet - 1) <= _LONGER * others

    @property
    def counting(self) -> bool:
        """Whether no prompt ever came again under a tag, but for its numbers."""
        return self._renumbered >= _COUNTED and not self._repeated

    def resending(self, tag: Tag) -> bool:
        """Whether the client is known to resend its history."""
        if tag.echoing or tag.historical:
            return True
        return not tag.at_home and self.echoes > self.at_home and not self.believed(tag)

    def add(self, tag: Tag, turn: Turn, replaced: str | None) -> None:
        """Remember a turn under *tag*."""
        if turn.system.masked in tag.lanes:
            self._repeated += 1
        elif tag.like(turn.system) is not None:
            self._renumbered += 1
        bare = turn.stem == EMPTY or (bool(tag.recent) and tag.recent[-1].stem == turn.stem)
        with self._counted(tag):
            tag.bare += bare and replaced is None
            tag.historical |= not bare
        crossed = tag.add(turn, replaced, self.counting)
        self._crossed += crossed and not tag.echoing
        tag.visit(turn.session_id)

    def note_echo(self, tag: Tag) -> None:
        """A call under *tag* echoed a reply served under it."""
        with self._counted(tag):
            tag.echoing = True
        self.echoes += 1

    @contextmanager
    def _counted(self, tag: Tag) -> Iterator[None]:
        """Keep the counts right while *tag* changes."""
        self._count(tag, -1)
        yield
        self._count(tag, 1)

    def _count(self, tag: Tag, by: int) -> None:
        self._mixed += by * tag.mixed
        if tag.quiet:
            self._quiet += by
            self._quiet_calls += by * min(tag.bare, _CALLS_PER_TAG + 1)

    def note_at_home(self, tag: Tag, lane: Lane | None) -> None:
        """A call under *tag*, in this *lane*, carried results of tool calls without the calls."""
        self._homes += not tag.at_home
        tag.at_home = True
        if lane is not None:
            lane.at_home = True
        self.at_home += 1
