"""Memory is bounded by number and by event time, and forgetting is never taken for a match."""

from __future__ import annotations

import math
import tracemalloc

import pytest

from reef_release.domain.correlation import Call, Correlator, Limits
from reef_release.errors import BadRequest
from tests.unit.domain.correlation.stories import Story, assistant, user


def opened(count: int, limits: Limits, tag: bool = False) -> Correlator:
    correlator = Correlator(limits)
    for number in range(count):
        correlator.feed(
            Call(
                call_id=f"{number}",
                at_s=float(number),
                scenario="homework",
                tag=f"s{number}" if tag else None,
                messages=[user(f"Question {number}?")],
                reply=assistant(f"Answer {number}."),
            )
        )
    return correlator


@pytest.mark.parametrize("tag", [False, True])
def test_sessions_that_never_end_are_bounded_in_number(tag: bool) -> None:
    correlator = opened(12_000, Limits(max_turns=1_000, max_tags=1_000), tag)
    assert correlator.open_sessions("homework") == 1_000
    memory = correlator._clients["homework"][None]
    assert len(memory.tags) <= 1_000
    assert len(memory.index) <= 6 * 1_000


def test_ten_thousand_open_sessions_take_a_few_kilobytes_each() -> None:
    tracemalloc.start()
    correlator = opened(10_000, Limits(), tag=True)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert correlator.open_sessions("homework") == 10_000
    assert taken / 10_000 < 4_000


def test_the_longest_silent_session_goes_first() -> None:
    story = Story(Limits(max_turns=2))
    story.tell(user("one"), reply="1")
    story.tell(user("two"), reply="2")
    story.tell(user("one"), assistant("1"), user("and"), reply="1.1")
    story.tell(user("three"), reply="3")
    gone = story.tell(user("two"), assistant("2"), user("and"))
    assert (gone.follows, gone.reason) == (None, "expired")


def test_the_last_turn_of_a_session_is_kept_before_the_earlier_ones_of_another() -> None:
    """As many conversations as there is room for go on side by side without losing a turn."""
    limit = 20
    story = Story(Limits(max_turns=limit))
    chats: list[list[dict[str, object]]] = [[] for _ in range(limit - 1)]
    before: dict[int, str] = {}
    for round_ in range(6):
        for number, chat in enumerate(chats):
            chat.append(user(f"{number}: question {round_}"))
            told = story.tell(*chat, reply=f"{number}: answer {round_}")
            assert told.follows == before.get(number)
            before[number] = told.call_id
            chat.append(assistant(f"{number}: answer {round_}"))
    assert story.correlator._clients["homework"][None].turn_count == limit


def test_what_is_forgotten_is_not_kept_alive_by_its_tag() -> None:
    correlator = opened(4_000, Limits(max_turns=100), tag=True)
    tags = correlator._clients["homework"][None].tags
    kept = {id(turn) for tag in tags.all() for turn in tag.recent}
    kept |= {id(lane.newest) for tag in tags.all() for lane in tag.lanes.values() if lane.newest}
    assert len(kept) <= 100


def test_a_long_session_forgets_its_first_turns() -> None:
    story = Story()
    messages = []
    for number in range(50):
        messages.append(user(f"question {number}"))
        story.tell(*messages, reply=f"answer {number}")
        messages.append(assistant(f"answer {number}"))
    assert story.correlator._clients["homework"][None].turn_count == 8
    assert story.tell(*messages, user("so")).follows == "c50"


def test_everything_expires_by_event_time() -> None:
    story = Story(Limits(expiry_s=100))
    for number in range(20):
        story.tell(user(f"question {number}"), tag=f"s{number}")
    assert story.correlator.open_sessions("homework") == 11
    story.tell(user("later"), after=1_000)
    assert story.correlator.open_sessions("homework") == 1
    assert len(story.correlator._clients["homework"][None].tags) == 0


def test_time_that_goes_back_expires_nothing_and_binds_to_nothing_later() -> None:
    story = Story(Limits(expiry_s=100))
    story.tell(user("one"), reply="1", at=50)
    early = story.tell(user("one"), assistant("1"), user("and"), at=40)
    assert early.follows is None
    assert story.tell(user("one"), assistant("1"), user("so"), at=60).follows == "c1"


@pytest.mark.parametrize("at_s", [math.nan, math.inf, -math.inf])
def test_a_time_that_is_not_finite_is_refused(at_s: float) -> None:
    with pytest.raises(BadRequest, match="not finite"):
        Story().tell(user("one"), at=at_s)


def test_a_call_costs_the_same_number_of_look_ups_whatever_is_open() -> None:
    """Counted, not timed: how many turns are compared with a call."""
    counts = []
    for crowd in (50, 2_000):
        correlator = opened(crowd, Limits())
        index = correlator._clients["homework"][None].index
        seen = 0
        newest = index.newest

        def counting(key: bytes, newest=newest):  # type: ignore[no-untyped-def]
            nonlocal seen
            for turn in newest(key):
                seen += 1
                yield turn

        index.newest = counting  # type: ignore[method-assign]
        binding = correlator.feed(
            Call(
                call_id="next",
                at_s=1e5,
                scenario="homework",
                messages=[user("Question 7?"), assistant("Answer 7."), user("Why?")],
                reply=assistant("So."),
            )
        )
        assert binding.follows == "7"
        counts.append(seen)
    assert counts[0] == counts[1]
