"""What holds for any traffic, however odd."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reef_release.domain.correlation import REASONS, Binding, Call, Correlator, Limits

WORDS = ("yes", "no", "again", "a long answer that says where to go, when, and with what in hand")

messages = st.one_of(
    st.builds(
        lambda role, text: {"role": role, "content": text},
        st.sampled_from(("user", "user", "assistant", "system")),
        st.sampled_from(WORDS),
    ),
    st.builds(
        lambda text, i: {"role": "tool", "content": text, "tool_call_id": i},
        st.sampled_from(WORDS),
        st.sampled_from(("call_0", "call_0123456789")),
    ),
)
replies = st.one_of(
    st.none(),
    st.builds(lambda text: {"role": "assistant", "content": text}, st.sampled_from(WORDS)),
    st.builds(
        lambda name, i: {
            "role": "assistant",
            "tool_calls": [{"id": i, "function": {"name": name, "arguments": "{}"}}],
        },
        st.sampled_from(("look", "buy")),
        st.sampled_from(("call_0", "call_0123456789")),
    ),
)


@st.composite
def traffic(draw: st.DrawFn) -> list[Call]:
    """Calls that continue, repeat, cut and mix what came before, from a few words."""
    calls: list[Call] = []
    at_s = 0.0
    for number in range(draw(st.integers(1, 14))):
        at_s += draw(st.sampled_from((0.5, 5.0, 50.0, 500.0, -3.0)))
        body: list[Any] = []
        if calls and draw(st.booleans()):
            before = draw(st.sampled_from(calls))
            body = list(before.messages)
            if before.reply is not None and draw(st.booleans()):
                body.append(before.reply)
            body = body[draw(st.sampled_from((0, 0, 1, 2))) :]
        body += draw(st.lists(messages, max_size=2))
        calls.append(
            Call(
                call_id=str(number),
                at_s=at_s,
                scenario=draw(st.sampled_from(("a", "b"))),
                tag=draw(st.sampled_from((None, None, "t", "u"))),
                turn_type=draw(st.sampled_from((None, None, None, "main", "side"))),
                messages=body,
                reply=draw(replies),
            )
        )
    return calls


def bound(calls: list[Call], limits: Limits | None = None) -> list[Binding]:
    correlator = Correlator(limits)
    return [correlator.feed(call) for call in calls]


@settings(max_examples=150)
@given(traffic())
def test_a_binding_names_an_answered_earlier_call_of_its_scenario(calls: list[Call]) -> None:
    seen: dict[str, Call] = {}
    for call, binding in zip(calls, bound(calls), strict=True):
        assert binding.call_id == call.call_id
        assert (binding.method is None) == (binding.follows is None)
        assert (binding.reason is None) == (binding.follows is not None)
        assert binding.reason is None or binding.reason in REASONS
        for other in (binding.follows, binding.replaces, binding.session_id):
            if other is not None and other != call.call_id:
                assert seen[other].scenario == call.scenario
        if binding.follows is not None:
            followed = seen[binding.follows]
            assert followed.at_s <= call.at_s
            assert followed.reply is not None
            assert followed.turn_type != "side"
            assert call.turn_type != "side"
            assert binding.kind == "main"
        seen[call.call_id] = call


@settings(max_examples=150)
@given(traffic())
def test_a_turn_has_one_next_state_unless_the_later_one_replaces_it(calls: list[Call]) -> None:
    following: dict[str, str] = {}
    for binding in bound(calls):
        if binding.follows is None:
            continue
        assert binding.replaces == following.get(binding.follows)
        following[binding.follows] = binding.call_id


@settings(max_examples=100)
@given(traffic())
def test_a_rebuild_gives_the_same_bindings(calls: list[Call]) -> None:
    assert bound(calls) == bound(calls)


@settings(max_examples=100)
@given(traffic())
def test_the_traffic_of_other_scenarios_changes_nothing(calls: list[Call]) -> None:
    together = {each.call_id: each for each in bound(calls)}
    for scenario in ("a", "b"):
        for alone in bound([each for each in calls if each.scenario == scenario]):
            assert together[alone.call_id] == alone


@settings(max_examples=100)
@given(traffic())
def test_little_memory_loses_links_and_makes_no_other_errors(calls: list[Call]) -> None:
    seen: dict[str, Call] = {}
    for call, binding in zip(calls, bound(calls, Limits(max_turns=2, max_tags=1)), strict=True):
        if binding.follows is not None:
            assert seen[binding.follows].reply is not None
        seen[call.call_id] = call
