"""A scenario's traffic for pages: sessions of every kind, judged, batched, trained and promoted.

`tell` writes it into a world; `Projections` and `WorldLog` are what the pages read it from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from reef_release.api.bodies import InteractionBody
from reef_release.api.judging import VotesBody
from reef_release.domain import events as ev
from reef_release.domain.state import State
from reef_release.log.entries import StoredEvent
from reef_release.projections.learning import Learning
from reef_release.projections.sessions import SessionIndex
from reef_release.projections.signal import SignalHealth
from reef_release.wire import Vote
from tests.calls import bound, failed, judged, recorded, unbound
from tests.training import Trainer
from tests.web_pages import BodiesLog
from tests.world import World

__all__ = ["HINT", "QUESTION", "Projections", "WorldLog", "tell"]

QUESTION = "What is 2 + 2? <b>&amp;"
HINT = "Give the answer alone, please."


class WorldLog(BodiesLog):
    """The log of a world, with the look-ups of a `Finder` besides."""

    def _envelopes(self) -> Iterator[ev.Envelope]:
        return map(ev.decode_envelope, self.bodies)

    def _found(self, positions: Iterable[int]) -> list[StoredEvent]:
        return [StoredEvent(each, self.bodies[each]) for each in positions]

    async def at(self, positions: Sequence[int]) -> list[StoredEvent]:
        return self._found([each for each in sorted(positions) if 0 <= each < len(self.bodies)])

    async def with_id(self, event_id: str) -> StoredEvent | None:
        found = [each.position for each in self._envelopes() if each.event_id == event_id]
        return self._found(found)[0] if found else None

    async def of_streams(
        self, until: int, scenario: str, streams: Sequence[str], limit: int
    ) -> list[StoredEvent]:
        found = self._where(lambda each: each.scenario == scenario and each.stream in streams)
        return [each for each in found if each.position <= until][:limit]

    async def of_versions(
        self, scenario: str, stream: str, versions: Sequence[int]
    ) -> list[StoredEvent]:
        found = (each for each in self._envelopes() if each.version in versions)
        wanted = scenario, stream
        return self._found(e.position for e in found if (e.scenario, e.stream) == wanted)

    async def containing(
        self,
        text: bytes,
        window: tuple[int, int],
        limit: int,
        *,
        scenario: str | None = None,
        type_name: str | None = None,
    ) -> list[StoredEvent]:
        after, until = window
        types = None if type_name is None else [type_name]
        back = await self.read_back(until, len(self.bodies), scenario, types)
        return [each for each in back if each.position > after and text in each.body][:limit]


class Projections:
    """All read models beside the state, fed one event at a time."""

    def __init__(self, world: World) -> None:
        self._fold = world.new_fold()
        self.signal = SignalHealth()
        self.sessions = SessionIndex()
        self.learning = Learning(self.sessions)

    @property
    def state(self) -> State:
        return self._fold.state

    def take(self, *bodies: bytes) -> Projections:
        for body in bodies:
            event = self._fold.apply(body)
            if event is not None:
                for each in (self.signal, self.sessions, self.learning):
                    each.apply(self.state, event)
        return self


def body_of(world: World, text: str, reply: str | None, before: Sequence[str] = ()) -> str:
    """The digest of a call's body: *before* are earlier questions and replies in turn."""
    earlier = [
        {"role": "assistant" if place % 2 else "user", "content": each}
        for place, each in enumerate(before)
    ]
    body = InteractionBody(
        messages=[*earlier, {"role": "user", "content": text}],
        reply=None if reply is None else {"role": "assistant", "content": reply},
    )
    return world.blobs.put_body_sync(msgspec.json.encode(body))


def votes_of(world: World, score: int) -> str:
    votes = [
        Vote(raw=f"score {score}", valid=True, score=score, about=1, hints=[HINT]),
        Vote(raw="<nothing>", valid=False),
    ]
    body = VotesBody(votes=votes, rejected="the long way", keep="the answer")
    return world.blobs.put_body_sync(msgspec.json.encode(body))


def talk(world: World, name: str, score: int, *, tag: str | None = None, hour: int = 3) -> None:
    """A conversation of three turns, the first two judged alike."""
    release = world.serving
    at = f"2026-01-02T{hour:02}:04:05.000000Z"
    hint = world.blobs.put_body_sync(HINT.encode())
    said = [QUESTION, "It is four.", "Shorter, please.", "Four."]
    body = body_of(world, QUESTION, "It is four.")
    world.append(recorded(name, release_id=release, tag=tag, at=at, body=body))
    world.append(unbound(name))
    for about, call, follows in ((1, f"{name}.1", name), (2, f"{name}.2", f"{name}.1")):
        body = body_of(world, said[2], said[3], said[: 2 * about])
        world.append(recorded(call, release_id=release, tag=tag, at=at, body=body))
        world.append(bound(call, follows, session=name, method="tag" if tag else "transcript"))
        world.append(
            judged(
                follows,
                score=score,
                about=about,
                target=follows,
                votes=votes_of(world, score),
                hints=[hint] if score < 1 else [],
            )
        )


def tell(world: World) -> None:
    """The whole story; the world has no scenario yet."""
    world.create_scenario()
    talk(world, "early", -1, tag="pupil-1")
    world.release()
    talk(world, "first", -1, tag="pupil-2")
    regenerate(world)
    trainer = Trainer(world)
    trainer.train(steps=3)
    trainer.train(steps=3)
    trainer.promoted()
    lost = Trainer(world, "line-2")
    batch = lost.train()
    lease_id = lost.batch_of(batch).lease_id
    world.append(ev.BatchReleased(batch_id=batch, lease_id=lease_id, reason="abandoned"))
    turn = lost.batch_of(batch).formed.samples[0].turn_id
    world.append(ev.SampleRefused(turn_id=turn, target=turn, reason="came-to-nothing"))
    lost.form(lost.batch_of(batch).formed.samples[1].turn_id)
    alarm(world)
    talk(world, "late", 1, hour=5)
    world.append(ev.SignalAlarmCleared(reason="bound"))
    last_at = world.scenario.traffic.sessions["early"].last_at
    world.append(ev.SessionExpired(session_id="early", last_at=last_at, turn_count=3))
    world.attack(recorded("early"))
    world.attack(judged("early"))
    world.gate(world.admitted(), "---")
    erase(world, "late.1")


def erase(world: World, call: str) -> None:
    """What was said in a call is erased; of the votes and hints about it nothing is."""
    body = world.scenario.traffic.turns[call].body
    world.append(ev.BodyErased(digest=body, kind="call", turn_id=call, reason="A person asked."))


def regenerate(world: World) -> None:
    """Calls that failed, were tried again, asked anew, or are no turns."""
    release = world.serving
    world.append(recorded("again", release_id=release, body=body_of(world, "Hello", "Hi")))
    world.append(unbound("again"))
    world.append(failed("again.1", body=body_of(world, "Sum?", None)))
    world.append(bound("again.1", "again", session="again"))
    world.append(recorded("again.2", release_id=release, finish_reason="length"))
    world.append(
        unbound("again.2", session="again", kind="retry", reason="retry", replaces="again.1")
    )
    world.append(recorded("again.3", release_id=release, turn_type="side"))
    world.append(unbound("again.3", session="again", kind="side", reason="side-call"))
    world.append(recorded("again.4", release_id=release, body=body_of(world, "Thanks", "You're")))
    world.append(bound("again.4", "again.2", session="again", method="recovery"))
    failure = ev.TurnJudgingFailed(
        turn_id="again.2", attempt=1, error="the judge was away", judge=judged("x").judge
    )
    world.append(failure)
    feedback = world.blobs.put_body_sync(b"It was fine.")
    world.append(ev.ReportReceived(turn_id="again.2", score="0.5", feedback=feedback))


def alarm(world: World) -> None:
    for number in range(19):
        world.append(recorded(f"lone{number}", at="2026-01-02T04:00:00.000000Z"))
        world.append(unbound(f"lone{number}", reason="unknown-reply"))
    world.append(ev.SignalAlarmRaised(reason="unknown-reply", unbound=19))
