"""What went wrong in public for people who bind reactions to turns; none of it may happen here."""

from __future__ import annotations

import pytest

from reef_release.domain.correlation import Limits
from tests.unit.domain.correlation.stories import (
    Story,
    assistant,
    calling,
    system,
    tool,
    user,
)

PROMPT = system("You help with homework. Explain every step.")
ASK = user("What is 3 times 4?")
SAID = "It is 12, since 4 + 4 + 4 = 12."


def test_traffic_without_headers_binds_by_its_transcript() -> None:
    story = Story()
    first = story.tell(PROMPT, ASK, reply=SAID)
    assert (first.kind, first.follows, first.reason) == ("main", None, "first-call")
    second = story.tell(PROMPT, ASK, assistant(SAID), user("Thanks."))
    assert (second.follows, second.method, second.session_id) == ("c1", "transcript", "c1")


def test_nine_calls_that_bind_to_nothing_are_a_finding() -> None:
    story = Story()
    for number in range(8):
        story.tell(PROMPT, user(f"Question {number}?"))
    assert story.correlator.findings("homework") == []
    story.tell(PROMPT, user("Question 8?"))
    codes = [each.code for each in story.correlator.findings("homework")]
    assert codes == ["nothing-continues"]


def test_nine_calls_all_marked_as_side_calls_are_a_finding() -> None:
    story = Story()
    for number in range(9):
        binding = story.tell(PROMPT, user(f"Question {number}?"), turn_type="side")
        assert (binding.kind, binding.reason) == ("side", "side-call")
    codes = [each.code for each in story.correlator.findings("homework")]
    assert codes == ["side-calls-only"]


@pytest.mark.parametrize("gap_s", [3.0, 20.0, 59.0])
def test_two_users_with_the_same_opening_inside_a_minute_are_no_retries(gap_s: float) -> None:
    story = Story()
    story.tell(PROMPT, ASK, reply=SAID)
    other = story.tell(PROMPT, ASK, reply="12. Four, three times.", after=gap_s)
    assert (other.kind, other.session_id) == ("main", "c2")
    first = story.tell(PROMPT, ASK, assistant("12. Four, three times."), user("Why?"))
    second = story.tell(PROMPT, ASK, assistant(SAID), user("And 5 times 4?"))
    assert (first.follows, second.follows) == ("c2", "c1")


def test_two_users_with_the_same_opening_and_the_same_reply_bind_to_neither() -> None:
    story = Story()
    story.tell(PROMPT, ASK, reply=SAID)
    story.tell(PROMPT, ASK, reply=SAID, after=20)
    third = story.tell(PROMPT, ASK, assistant(SAID), user("Why?"), reply="Because 4 + 4 + 4.")
    assert (third.follows, third.reason) == (None, "ambiguous")
    fourth = story.tell(
        PROMPT, ASK, assistant(SAID), user("Why?"), assistant("Because 4 + 4 + 4."), user("I see.")
    )
    assert fourth.follows == "c3"


def test_the_same_openings_under_two_tags_are_told_apart() -> None:
    story = Story()
    story.tell(PROMPT, ASK, reply=SAID, tag="ann")
    other = story.tell(PROMPT, ASK, reply=SAID, after=0.5, tag="ben")
    assert other.kind == "main"
    ben = story.tell(PROMPT, ASK, assistant(SAID), user("Why?"), tag="ben")
    ann = story.tell(PROMPT, ASK, assistant(SAID), user("Why?"), tag="ann")
    assert (ben.follows, ann.follows) == ("c2", "c1")


def test_who_opened_last_is_no_likelier_to_react_than_who_opened_alike_hours_ago() -> None:
    story = Story()
    story.tell(PROMPT, ASK, reply=SAID, tag="ann")
    story.tell(PROMPT, ASK, reply=SAID, tag="ben", after=3 * 3600)
    call = story.tell(PROMPT, ASK, assistant(SAID), user("Why?"), after=30)
    assert (call.follows, call.reason) == (None, "ambiguous")
    ann = story.tell(PROMPT, ASK, assistant(SAID), user("Why so?"), tag="ann")
    assert ann.follows == "c1"


def test_a_second_user_with_an_opening_that_went_on_already_starts_afresh() -> None:
    story = Story()
    story.tell(PROMPT, ASK, reply=SAID)
    story.tell(PROMPT, ASK, assistant(SAID), user("Why?"))
    story.tell(PROMPT, ASK, reply=SAID, after=30)
    assert story.tell(PROMPT, ASK, assistant(SAID), user("And 5 times 4?")).follows == "c3"


def test_a_genuine_repeat_under_a_tag_is_not_dropped_as_a_retry() -> None:
    """The client keeps its history at home, and its user says "again" twice."""
    story = Story()
    story.tell(PROMPT, user("Again."), reply="A first joke.", tag="t")
    again = story.tell(PROMPT, user("Again."), reply="A second joke.", tag="t")
    assert (again.kind, again.follows, again.method) == ("main", "c1", "tag")
    third = story.tell(PROMPT, user("Again."), reply="A third joke.", tag="t")
    assert third.follows == "c2"


def test_a_genuine_repeat_with_history_is_not_dropped_as_a_retry() -> None:
    story = Story()
    messages = [PROMPT, user("Again.")]
    story.tell(*messages, reply="Ha.", tag="t")
    for number in range(2, 5):
        messages += [assistant("Ha."), user("Again.")]
        binding = story.tell(*messages, reply="Ha.", tag="t")
        assert (binding.kind, binding.follows) == ("main", f"c{number - 1}")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("The time is 2025-03-01T09:59:58Z.", "The time is 2025-03-01T10:00:04Z."),
        ("Today is Monday, 3 March 2025, 9:59 am.", "Today is Tuesday, 4 March 2025, 0:01 am."),
        ("Now: 1740819598.25", "Now: 1740819604.75"),
        ("Second 17 of the session.", "Second 24 of the session."),
    ],
)
def test_a_clock_in_the_system_prompt_hides_nothing(before: str, after: str) -> None:
    story = Story()
    story.tell(system(before), ASK, reply=SAID)
    assert story.tell(system(after), ASK, assistant(SAID), user("Why?")).follows == "c1"


def test_a_clock_does_not_decide_which_of_two_equal_openings_goes_on() -> None:
    story = Story()
    story.tell(system("It is 12:00."), ASK, reply=SAID)
    story.tell(system("It is 12:01."), ASK, reply=SAID)
    third = story.tell(system("It is 12:01."), ASK, assistant(SAID), user("Why?"))
    assert (third.follows, third.reason) == (None, "ambiguous")


def test_serialising_tool_arguments_anew_hides_nothing() -> None:
    story = Story()
    call = calling("multiply", left=3, right=4.0)
    story.tell(PROMPT, ASK, reply=call)
    echo = {
        "role": "assistant",
        "tool_calls": [
            {"function": {"name": "multiply", "arguments": '{ "right":4,\n "left":3 }'}}
        ],
    }
    assert story.tell(PROMPT, ASK, echo, tool("12")).follows == "c1"


def test_sub_agents_side_by_side_under_one_tag_are_split() -> None:
    story = Story()
    planner, coder = system("You are the planner."), system("You are the coder.")
    story.tell(planner, user("Start."), reply="Ready.", tag="t")
    story.tell(coder, user("Start."), reply="Ready.", tag="t")
    first = story.tell(planner, user("Start."), assistant("Ready."), user("Plan."), tag="t")
    second = story.tell(coder, user("Start."), assistant("Ready."), user("Code."), tag="t")
    assert (first.follows, second.follows) == ("c1", "c2")
    story.tell(
        planner,
        user("Start."),
        assistant("Ready."),
        user("Plan."),
        assistant("Well."),
        user("Go."),
        tag="t",
    )
    findings = story.correlator.findings("homework")
    assert [(each.code, each.tag) for each in findings] == [("tag-carries-many", "t")]


def test_sub_agents_whose_history_stays_at_home_are_split_too() -> None:
    story = Story()
    planner, coder = system("You are the planner."), system("You are the coder.")
    story.tell(planner, user("Plan it."), reply=calling("look", ids=("call_a",)), tag="t")
    story.tell(coder, user("Code it."), reply=calling("look", ids=("call_b",)), tag="t")
    first = story.tell(planner, tool("a map", "call_a"), reply="A plan.", tag="t")
    second = story.tell(coder, tool("a file", "call_b"), reply="Code.", tag="t")
    third = story.tell(planner, user("Shorter."), tag="t")
    fourth = story.tell(coder, user("Faster."), tag="t")
    assert [each.follows for each in (first, second, third, fourth)] == ["c1", "c2", "c3", "c4"]


def test_a_stale_tag_does_not_leak_into_the_next_conversation() -> None:
    story = Story()
    story.tell(PROMPT, ASK, reply=SAID, tag="a")
    story.tell(PROMPT, ASK, assistant(SAID), user("Why?"), reply="So.", tag="a")
    leaked = story.tell(PROMPT, user("Who was Gauss?"), reply="A man.", tag="a")
    assert (leaked.follows, leaked.reason, leaked.session_id) == (None, "first-call", "c3")
    own = story.tell(PROMPT, user("Who was Gauss?"), assistant("A man."), user("More."), tag="b")
    assert (own.follows, own.method, own.session_id) == ("c3", "transcript", "c3")
    codes = [(each.code, each.tag) for each in story.correlator.findings("homework")]
    assert codes == [("tag-is-reused", "a")]


def test_a_stale_tag_of_a_conversation_of_one_call_does_not_leak_either() -> None:
    story = Story()
    story.tell(PROMPT, ASK, reply=SAID, tag="a")
    leaked = story.tell(PROMPT, user("Who was Gauss?"), tag="a")
    assert (leaked.follows, leaked.reason) == (None, "tag-unproven")


def test_a_reaction_after_a_long_pause_still_binds() -> None:
    story = Story()
    story.tell(PROMPT, ASK, reply=SAID, tag="t")
    assert story.tell(
        PROMPT, ASK, assistant(SAID), user("Why?"), tag="t", after=2.9 * 24 * 3600
    ).follows


def test_a_reaction_after_the_expiry_says_so() -> None:
    story = Story(Limits(expiry_s=60))
    story.tell(PROMPT, ASK, reply=SAID)
    late = story.tell(PROMPT, ASK, assistant(SAID), user("Why?"), after=61)
    assert (late.follows, late.reason) == (None, "expired")
    codes = [each.code for each in story.correlator.findings("homework")]
    assert codes == ["reactions-after-expiry"]


def test_gaps_near_the_expiry_warn_when_they_are_common() -> None:
    story = Story(Limits(expiry_s=60))
    messages = [PROMPT, ASK]
    story.tell(*messages, reply="0")
    for number in range(1, 10):
        assert story.correlator.findings("homework") == []
        messages += [assistant(str(number - 1)), user("More.")]
        assert story.tell(*messages, reply=str(number), after=31).follows
    codes = [each.code for each in story.correlator.findings("homework")]
    assert codes == ["gaps-near-expiry"]


def test_a_call_that_a_watchdog_aborts_and_sends_again_is_one_sample() -> None:
    story = Story()
    story.tell(PROMPT, ASK, reply=SAID)
    asked = [PROMPT, ASK, assistant(SAID), user("Why?")]
    aborted = story.tell(*asked, reply=None)
    again = story.tell(*asked, reply="Because.", after=30)
    assert (aborted.follows, again.follows) == ("c1", None)
    assert (again.kind, again.replaces, again.session_id) == ("retry", "c2", "c1")
    assert story.tell(*asked, assistant("Because."), user("I see.")).follows == "c3"


def test_an_answered_call_that_is_sent_again_is_a_retry_and_resolves_to_the_first() -> None:
    story = Story()
    story.tell(PROMPT, ASK, reply=SAID)
    retry = story.tell(PROMPT, ASK, reply=SAID, after=1)
    assert (retry.kind, retry.follows, retry.session_id) == ("retry", None, "c1")
    assert story.tell(PROMPT, ASK, assistant(SAID), user("Why?")).follows == "c1"


def test_a_regenerated_answer_replaces_the_turn_and_the_conversation_goes_on_from_it() -> None:
    story = Story()
    story.tell(PROMPT, ASK, reply=SAID)
    asked = [PROMPT, ASK, assistant(SAID), user("Why?")]
    story.tell(*asked, reply="No idea.")
    again = story.tell(*asked, reply="Because 4 + 4 + 4 = 12.")
    assert (again.kind, again.replaces, again.follows) == ("regeneration", "c2", None)
    kept = story.tell(*asked, assistant("Because 4 + 4 + 4 = 12."), user("I see."))
    assert (kept.follows, kept.session_id) == ("c3", "c1")


def test_the_user_may_keep_the_first_of_two_answers() -> None:
    story = Story()
    story.tell(PROMPT, ASK, reply=SAID, tag="t")
    asked = [PROMPT, ASK, assistant(SAID), user("Why?")]
    story.tell(*asked, reply="Because 4 + 4 + 4 = 12.", tag="t")
    story.tell(*asked, reply="No idea.", tag="t")
    kept = story.tell(*asked, assistant("Because 4 + 4 + 4 = 12."), user("I see."), tag="t")
    assert kept.follows == "c2"


def test_all_results_of_parallel_tool_calls_are_one_next_state() -> None:
    story = Story()
    call = calling("left", "right", ids=("call_left", "call_right"))
    story.tell(PROMPT, ASK, reply=call)
    both = story.tell(PROMPT, ASK, call, tool("3", "call_left"), tool("4", "call_right"))
    assert (both.follows, both.replaces) == ("c1", None)


@pytest.mark.parametrize("results", [("call_left", "call_right"), ("call_right", "call_left")])
def test_all_results_are_the_next_state_also_without_the_echo(results: tuple[str, str]) -> None:
    story = Story()
    story.tell(PROMPT, ASK, reply=calling("l", "r", ids=("call_left", "call_right")), tag="t")
    both = story.tell(PROMPT, *(tool("3", each) for each in results), tag="t")
    assert both.follows == "c1"


def test_a_prefill_binds_nothing() -> None:
    story = Story()
    story.tell(PROMPT, ASK, reply=SAID)
    prefill = story.tell(PROMPT, ASK, assistant(SAID), reply=" And that is it.")
    assert (prefill.follows, prefill.reason) == (None, "prefill")
    joined = story.tell(PROMPT, ASK, assistant(f"{SAID} And that is it."), user("Why?"))
    assert joined.follows == "c2"


def test_a_call_without_a_user_or_a_tool_binds_nothing() -> None:
    story = Story()
    assert story.tell(PROMPT).reason == "no-user-turn"
    assert story.tell().reason == "no-user-turn"


def test_a_side_call_trains_nothing_and_takes_no_next_state() -> None:
    story = Story()
    story.tell(PROMPT, ASK, reply=SAID)
    asked = [PROMPT, ASK, assistant(SAID)]
    side = story.tell(*asked, user("Name this talk."), reply="Times", turn_type="side")
    assert (side.kind, side.follows) == ("side", None)
    assert story.tell(*asked, user("Why?")).replaces is None
    after = story.tell(*asked, user("Name this talk."), assistant("Times"), user("Longer."))
    assert after.follows is None


def test_an_unmarked_call_of_another_agent_takes_no_next_state() -> None:
    story = Story()
    story.tell(PROMPT, ASK, reply=SAID)
    namer = system("You name talks in four words.")
    title = story.tell(namer, ASK, assistant(SAID), user("Name this talk."))
    assert (title.follows, title.reason) == (None, "other-agent")
    real = story.tell(PROMPT, ASK, assistant(SAID), user("Why?"))
    assert (real.follows, real.replaces) == ("c1", None)


def test_an_agent_that_takes_over_with_the_results_continues() -> None:
    story = Story()
    story.tell(system("You are the front desk."), ASK, reply=calling("hand_over"))
    taken = story.tell(system("You teach arithmetic."), ASK, calling("hand_over"), tool("done"))
    assert taken.follows == "c1"


def test_a_question_on_the_side_that_ignores_the_reply_takes_no_next_state() -> None:
    """A client that asks for a title sends the newest request with one more message."""
    story = Story()
    story.tell(PROMPT, ASK, reply=SAID)
    asked = [PROMPT, ASK, assistant(SAID), user("Why?")]
    story.tell(*asked, reply="Because.")
    title = story.tell(*asked, user("Name this talk."), reply="Times")
    assert (title.follows, title.reason) == (None, "aside")
    assert story.tell(*asked, assistant("Because."), user("I see.")).follows == "c2"


def test_a_user_who_adds_a_word_because_nothing_came_still_reacts_to_the_reply_before() -> None:
    story = Story()
    story.tell(PROMPT, ASK, reply=SAID)
    asked = [PROMPT, ASK, assistant(SAID), user("Why?")]
    story.tell(*asked, reply=None)
    again = story.tell(*asked, user("Hello?"), reply="Because.")
    assert (again.follows, again.replaces) == ("c1", "c2")


def test_two_greetings_in_one_second_that_are_greeted_alike_are_no_retry() -> None:
    story = Story()
    for _ in range(2):
        greeted = story.tell(PROMPT, user("Hello"), reply="How can I help?", after=0.7)
    assert (greeted.kind, greeted.reason) == ("main", "ambiguous")
    hello = [PROMPT, user("Hello"), assistant("How can I help?")]
    assert story.tell(*hello, user("Homework."), after=5).reason == "ambiguous"


def test_conversations_that_are_equal_so_far_are_no_retries_of_each_other() -> None:
    story = Story()
    for _ in range(2):
        story.tell(PROMPT, ASK, reply=SAID)
    asked = [PROMPT, ASK, assistant(SAID), user("Why?")]
    for _ in range(2):
        call = story.tell(*asked, reply="Because.", after=0.4)
        assert (call.kind, call.reason) == ("main", "ambiguous")
    after = story.tell(*asked, assistant("Because."), user("I see."))
    assert (after.follows, after.reason) == (None, "ambiguous")


def test_sub_agents_that_say_the_same_at_once_are_no_retries_of_each_other() -> None:
    story = Story()
    said = {}
    for agent in ("search", "review", "search", "review"):
        prompt = system(f"You are the {agent} agent. Do the task.")
        chat = said.setdefault(agent, [prompt, user("Check it.")])
        story.tell(*chat, reply="Working on it.", after=0.01)
        chat += [assistant("Working on it."), user("ok")]
    story.now_s += 10
    found = [story.tell(*said[agent], after=0.01).follows for agent in ("search", "review")]
    assert found == ["c3", "c4"]
