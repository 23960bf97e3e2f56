"""The correlator: calls in order of arrival go in, bindings come out.

A state machine without I/O, clock or chance: the same calls give the same bindings, so a rebuild
from the log repeats them. Scenarios share nothing, nor do the clients of one: whoever knows what
another was told, or guesses its tag, cannot react in its name. The cost of a call is that of
hashing its request, whatever is open; memory is bounded per client by `Limits`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import islice

import msgspec

from reef_release.domain.correlation.arrival import Arrival, arrive
from reef_release.domain.correlation.calls import Binding, Call, Kind
from reef_release.domain.correlation.evidence import by_echo, callers_of, without_echo
from reef_release.domain.correlation.found import Found
from reef_release.domain.correlation.memory import Limits, Memory
from reef_release.domain.correlation.normal import same_reply
from reef_release.domain.correlation.repeats import find_repeat
from reef_release.domain.correlation.tags import Tag
from reef_release.domain.correlation.tally import Finding, Tally, findings_of
from reef_release.domain.correlation.turn import Turn
from reef_release.errors import BadRequest

__all__ = ["Correlator"]

_MOST_CLIENTS = 256
_STRANGE = frozenset({"expired", "first-call", "unknown-reply"})
"""What is said of a call for which nothing of its own client's speaks."""


class Correlator:
    """Binds each call to the call that it continues, or says why it binds to none."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._clients: dict[str, dict[str | None, Memory]] = {}
        self._tallies: dict[str, Tally] = {}

    def feed(self, call: Call) -> Binding:
        """Bind the next call; its id must be new. Raises `BadRequest` when `at_s` is no time."""
        if not math.isfinite(call.at_s):
            raise BadRequest(f"The time {call.at_s} of call {call.call_id!r} is not finite.")
        if call.tag == "":
            call = msgspec.structs.replace(call, tag=None)
        clients = self._clients.setdefault(call.scenario, {})
        memory = clients.pop(call.client, None) or Memory(self.limits)
        others = list(islice(clients.values(), _MOST_CLIENTS))
        for other in others:
            other.advance(call.at_s)  # what a silent client left behind expires too
        clients[call.client] = memory
        self._tallies.setdefault(call.scenario, Tally())
        memory.advance(call.at_s)
        tag = memory.tags.get(call.tag, memory.now_s)
        spent = 0.0
        if call.turn_type == "side":
            binding = _side(call, tag)
        else:
            arrival = arrive(call, memory, tag)
            binding, spent = _bind(arrival)
            if binding.reason in _STRANGE and _is_of_others(arrival, others):
                binding = msgspec.structs.replace(binding, reason="other-client")
        self._tallies[call.scenario].add(binding, spent)
        return binding

    def scenarios(self) -> list[str]:
        """The scenarios of which a call was seen, by name."""
        return sorted(self._clients)

    def open_sessions(self, scenario: str) -> int:
        """How many conversations of a scenario are remembered."""
        return sum(map(len, self._clients.get(scenario, {}).values()))

    def tally(self, scenario: str) -> Tally:
        """Counts of a scenario since the beginning."""
        return self._tallies.get(scenario) or Tally()

    def findings(self, scenario: str) -> list[Finding]:
        """What a person should know about a scenario's traffic by now."""
        memories = self._clients.get(scenario)
        if memories is None:
            return []
        tags = [tag for memory in memories.values() for tag in memory.tags.all()]
        return findings_of(scenario, self._tallies[scenario], tags, self.limits)


def _is_of_others(arrival: Arrival, others: Iterable[Memory]) -> bool:
    """Whether what an unbound call continues is known of another client."""
    request, tag = arrival.request, arrival.tag
    if request.echo is not None:
        return any(each.index.count(b"t" + request.stem) for each in others)
    return tag is not None and tag.calls == 1 and any(each.tags.has(tag.name) for each in others)


def _side(call: Call, tag: Tag | None) -> Binding:
    """A side call trains nothing, and nothing can follow it."""
    session_id = None if tag is None else tag.current
    return Binding(
        call_id=call.call_id,
        session_id=session_id or call.call_id,
        follows=None,
        kind="side",
        method=None,
        reason="side-call",
        replaces=None,
    )


def _bind(arrival: Arrival) -> tuple[Binding, float]:
    """The binding of a main call, and the share of its time that the reaction took."""
    request = arrival.request
    if not request.has_reaction:
        reason = "no-user-turn" if request.prefill is None else "prefill"
        return _unbound(arrival, reason), 0.0
    callers = callers_of(arrival)
    found = by_echo(arrival)
    same = list(arrival.memory.index.newest(b"r" + request.identity))
    repeat = find_repeat(arrival, same=same, echoed=found, callers=callers)
    if repeat == "ambiguous":
        return _unbound(arrival, repeat), 0.0
    if isinstance(repeat, Turn):
        return _repeated(arrival, repeat, same), 0.0
    if found.turn is None:
        found = without_echo(arrival, found, callers)
    if found.turn is None:
        return _unbound(arrival, found.reason), 0.0
    limits = arrival.memory.limits
    allowed_s = limits.tag_alone_s if found.alone else limits.expiry_s
    spent = (arrival.call.at_s - found.turn.at_s) / allowed_s
    return _bound(arrival, found, found.turn), spent


def _bound(arrival: Arrival, found: Found, followed: Turn) -> Binding:
    tag = arrival.tag
    by_its_tag = tag is not None and followed.tag == tag.name
    if tag is not None and by_its_tag:
        if found.echoed:
            arrival.memory.tags.note_echo(tag)
            by_its_tag = not tag.shared
        elif arrival.request.answered_ids:
            arrival.memory.tags.note_at_home(tag, arrival.lane)
    replaces = followed.next_call
    followed.next_call = arrival.call.call_id
    followed.next_news = None if arrival.reply is None else arrival.request.news_chain
    arrival.remember(
        followed.session_id, follows=followed.call_id, echoed=found.echoed, replaces=replaces
    )
    return Binding(
        call_id=arrival.call.call_id,
        session_id=followed.session_id,
        follows=followed.call_id,
        kind="main",
        method="tag" if by_its_tag else "transcript" if found.exact else "recovery",
        reason=None,
        replaces=replaces,
    )


def _repeated(arrival: Arrival, original: Turn, same: list[Turn]) -> Binding:
    """A retry, or the same request answered otherwise: a turn in the original's place."""
    known = [each for each in same if each.session_id == original.session_id]
    nothing_new = arrival.reply is None or any(
        same_reply(each.reply, arrival.reply) for each in known
    )
    if nothing_new:
        sole = arrival.tag is not None and not arrival.tag.shared
        original.doubted |= not sole and arrival.request.last < 0
        arrival.memory.touch(original.session_id)
    else:
        original.superseded = True
        followed = arrival.memory.turn(original.session_id, original.follows)
        if followed is not None and arrival.reply is not None:
            followed.next_news = arrival.request.news_chain
        arrival.remember(
            original.session_id,
            follows=original.follows,
            echoed=original.echoed,
            replaces=original.call_id,
        )
    kind: Kind = "retry" if nothing_new or original.reply is None else "regeneration"
    return Binding(
        call_id=arrival.call.call_id,
        session_id=original.session_id,
        follows=None,
        kind=kind,
        method=None,
        reason=kind,
        replaces=None if nothing_new else original.call_id,
    )


def _unbound(arrival: Arrival, reason: str) -> Binding:
    call_id = arrival.call.call_id
    arrival.remember(call_id)
    return Binding(
        call_id=call_id,
        session_id=call_id,
        follows=None,
        kind="main",
        method=None,
        reason=reason,
        replaces=None,
    )
