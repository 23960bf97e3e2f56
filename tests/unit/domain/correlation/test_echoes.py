"""Clients that do not resend what they got: recovery by the echo and its neighbourhood."""

from __future__ import annotations

import pytest

from tests.unit.domain.correlation.stories import Story, assistant, calling, system, tool, user

PROMPT = system("You book flights. Be brief.")
ANSWER = "Your flight leaves at nine from gate four, and you can check in from seven on."
LONG = f"{ANSWER} Please bring your passport; the desk closes forty minutes before departure."


def told(story: Story, *words: str, reply: str = ANSWER) -> None:
    """One conversation whose last call asks *words*, all but the last answered by "So."."""
    messages = [PROMPT]
    for index, each in enumerate(words):
        messages.append(user(each))
        last = index == len(words) - 1
        story.tell(*messages, reply=reply if last else f"So, {each}")
        messages.append(assistant(f"So, {each}"))


def test_a_window_binds_by_what_is_left_in_it() -> None:
    story = Story()
    told(story, "one", "two", "three")
    call = story.tell(PROMPT, user("three"), assistant(ANSWER), user("And back?"))
    assert (call.follows, call.method) == ("c3", "recovery")


def test_the_neighbourhood_decides_between_equal_echoes() -> None:
    story = Story()
    told(story, "one", "two", "three")
    told(story, "uno", "due", "three")
    call = story.tell(
        PROMPT, assistant("So, due"), user("three"), assistant(ANSWER), user("And back?")
    )
    assert call.follows == "c6"


def test_equal_neighbourhoods_bind_neither() -> None:
    story = Story()
    told(story, "one", "two", "three")
    told(story, "uno", "two", "three")
    call = story.tell(
        PROMPT, assistant("So, two"), user("three"), assistant(ANSWER), user("And back?")
    )
    assert (call.follows, call.reason) == (None, "ambiguous")


def test_a_short_echo_alone_is_no_evidence() -> None:
    story = Story()
    told(story, "one", "two", reply="Yes.")
    call = story.tell(PROMPT, user("[Summary]"), assistant("Yes."), user("And back?"))
    assert (call.follows, call.reason) == (None, "weak-echo")


def test_a_long_echo_that_nobody_else_was_given_is_evidence_under_a_summary() -> None:
    story = Story()
    told(story, "one", "two", reply=LONG)
    call = story.tell(PROMPT, user("[Summary]"), assistant(LONG), user("And back?"))
    assert (call.follows, call.method) == ("c2", "recovery")


def test_a_summary_that_two_conversations_share_decides_nothing() -> None:
    story = Story()
    summary = user("[Summary of 4 messages]")
    story.tell(PROMPT, summary, assistant("So."), user("one"), reply=LONG)
    story.tell(PROMPT, user("zero"), assistant("So."), user("one"), reply=LONG)
    call = story.tell(PROMPT, summary, user("one"), assistant(LONG), user("And back?"))
    assert (call.follows, call.reason) == (None, "ambiguous")


@pytest.mark.parametrize(
    "head",
    [
        [system("You book flights. Be brief.\n\nEarlier: the user asked about flights.")],
        [PROMPT, system("Earlier: the user asked about flights.")],
        [PROMPT, assistant("Earlier: the user asked about flights.")],
        [PROMPT, user("Earlier: the user asked about flights."), assistant("Understood.")],
        [system("You book flights. It is 12:04 now. Be brief.")],
        [],
    ],
)
def test_a_summary_may_stand_anywhere(head: list[dict[str, object]]) -> None:
    story = Story()
    told(story, "one", "two", "three", reply=LONG)
    if not head:
        story = Story()
        story.tell(user("three"), reply=LONG)
        head = [system("Earlier: the user asked about flights.")]
    tail = [assistant("So, two"), user("three"), assistant(LONG), user("And back?")]
    if story.count == 1:
        tail = tail[1:]
    call = story.tell(*head, *tail)
    assert call.follows == (f"c{story.count - 1}" if story.count > 2 else None)


def test_dropped_tool_messages_do_not_hide_the_conversation() -> None:
    story = Story()
    search = calling("search", to="Oslo")
    story.tell(PROMPT, user("To Oslo."), reply=search)
    story.tell(PROMPT, user("To Oslo."), search, tool("nine o'clock"), reply=ANSWER)
    call = story.tell(PROMPT, user("To Oslo."), assistant(ANSWER), user("And back?"))
    assert call.follows == "c2"


def test_a_result_that_was_cut_does_not_hide_the_conversation() -> None:
    story = Story()
    search = calling("search", to="Oslo")
    story.tell(PROMPT, user("To Oslo."), reply=search)
    story.tell(PROMPT, user("To Oslo."), search, tool("nine, ten, eleven"), reply=ANSWER)
    call = story.tell(
        PROMPT, user("To Oslo."), search, tool("[cut]"), assistant(ANSWER), user("And back?")
    )
    assert call.follows == "c2"


def test_an_edited_earlier_message_does_not_hide_the_conversation() -> None:
    story = Story()
    told(story, "my number is 4711", "two", "three")
    call = story.tell(
        PROMPT,
        user("my number is [removed]"),
        assistant("So, my number is 4711"),
        user("two"),
        assistant("So, two"),
        user("three"),
        assistant(ANSWER),
        user("And back?"),
    )
    assert call.follows == "c3"


def test_a_message_written_otherwise_branches_and_replaces_what_followed() -> None:
    story = Story()
    told(story, "one", "two")
    branch = story.tell(PROMPT, user("one"), assistant("So, one"), user("two, please"))
    assert (branch.follows, branch.kind, branch.replaces) == ("c1", "main", "c2")
    assert branch.session_id == "c1"


def test_an_assistant_message_that_was_never_served_binds_nothing() -> None:
    story = Story()
    told(story, "one")
    call = story.tell(PROMPT, user("one"), assistant("Something else."), user("And back?"))
    assert (call.follows, call.reason) == (None, "unknown-reply")


def test_examples_before_each_request_echo_nobody() -> None:
    story = Story()
    examples = [user("good"), assistant("positive"), user("bad"), assistant("negative")]
    story.tell(PROMPT, *examples, user("awful"), reply="negative")
    for word in ("bad", "awful", "fine", "horrid"):
        call = story.tell(PROMPT, *examples, user(word), reply="negative")
        assert call.follows is None


def test_equal_ids_of_unequal_tool_calls_are_no_evidence() -> None:
    story = Story()
    one, other = (calling("look", ids=("call_0123456789",), at=each) for each in ("a", "b"))
    story.tell(PROMPT, user("one"), reply=one)
    story.tell(PROMPT, user("two"), reply=other)
    result = tool("seen", "call_0123456789")
    assert story.tell(PROMPT, user("[Summary]"), one, result).follows == "c1"


def test_ids_decide_between_equal_tool_calls() -> None:
    story = Story()
    one, other = (calling("look", ids=(each,)) for each in ("call_aaaaaaaa", "call_bbbbbbbb"))
    story.tell(PROMPT, user("go"), reply=one)
    story.tell(PROMPT, user("go"), reply=other)
    assert story.tell(PROMPT, user("go"), one, tool("seen", "call_aaaaaaaa")).follows == "c1"


def test_a_result_without_the_echo_is_bound_by_its_id() -> None:
    story = Story()
    story.tell(PROMPT, user("one"), reply=calling("look", ids=("call_aaaaaaaa",)))
    story.tell(PROMPT, user("two"), reply=calling("look", ids=("call_bbbbbbbb",)))
    call = story.tell(PROMPT, tool("seen", "call_aaaaaaaa"))
    assert (call.follows, call.method) == ("c1", "recovery")
    assert story.tell(PROMPT, tool("seen", "call_cccccccc")).follows is None


def test_crowds_of_equal_openings_bind_nobody_wrongly() -> None:
    story = Story()
    for _ in range(100):
        story.tell(PROMPT, user("Hello."), reply="Hello! How can I help?")
    call = story.tell(PROMPT, user("Hello."), assistant("Hello! How can I help?"), user("To Oslo."))
    assert (call.follows, call.reason) == (None, "ambiguous")


def test_a_tag_finds_its_own_in_a_crowd_of_equal_openings() -> None:
    story = Story()
    for number in range(100):
        story.tell(PROMPT, user("Hello."), reply="Hello! How can I help?", tag=f"s{number}")
    call = story.tell(
        PROMPT,
        user("Hello."),
        assistant("Hello! How can I help?"),
        user("To Oslo."),
        tag="s17",
    )
    assert (call.follows, call.method) == ("c18", "tag")


def test_a_turn_that_never_saw_so_much_history_is_not_continued() -> None:
    """The reply that was echoed is unknown here; another one happens to say the same."""
    story = Story()
    told(story, "two", "three", reply=LONG)
    before = [user("zero"), assistant("So, zero"), user("one"), assistant("So, one")]
    call = story.tell(
        PROMPT,
        *before,
        user("two"),
        assistant("So, two"),
        user("three"),
        assistant(LONG),
        user("And back?"),
    )
    assert (call.follows, call.reason) == (None, "weak-echo")


def test_what_lies_beyond_memory_does_not_speak_against_a_long_conversation() -> None:
    story = Story()
    words = [str(number) for number in range(30)]
    told(story, *words, reply=LONG)
    messages = [PROMPT, user("[removed]")]
    for each in words[1:]:
        messages += [assistant(f"So, {int(each) - 1}"), user(each)]
    call = story.tell(*messages, assistant(LONG), user("And back?"))
    assert (call.follows, call.method) == ("c30", "recovery")


def test_a_window_that_looks_like_all_of_another_conversation_is_not_taken_for_it() -> None:
    """Once it is known that clients send windows, a transcript may begin in the middle."""
    story = Story()
    told(story, "one", "two", "three", "four")
    story.tell(PROMPT, user("four"), assistant(ANSWER), user("five"), reply="So, five")
    story.tell(PROMPT, user("five"), assistant("So, five"), user("ok"), reply="Fine.")
    story.tell(PROMPT, user("ok"), reply="Fine.")
    call = story.tell(PROMPT, user("ok"), assistant("Fine."), user("Bye."))
    assert (call.follows, call.reason) == (None, "ambiguous")


def test_two_forks_that_look_alike_in_the_window_are_not_told_apart() -> None:
    story = Story()
    told(story, "one", "two")
    asked = [PROMPT, user("one"), assistant("So, one"), user("two"), assistant(ANSWER)]
    for words in ("three", "four"):
        story.tell(*asked, user(words), reply="So be it, and well, for both of us.")
    for words in ("three", "four"):
        messages = [*asked, user(words), assistant("So be it, and well, for both of us.")]
        story.tell(*messages, user("Yes."), reply="The next train leaves at noon from gate two.")
    window = [user("Yes."), assistant("The next train leaves at noon from gate two.")]
    call = story.tell(PROMPT, *window, user("And then?"))
    assert (call.follows, call.reason) == (None, "ambiguous")


def test_ids_outweigh_a_transcript_that_is_equal_because_tool_messages_were_dropped() -> None:
    story = Story()
    first = calling("write", ids=("call_0123456789ab",))
    second = calling("write", ids=("call_ba9876543210",))
    asked = [PROMPT, user("Write both files."), first, tool("ok", "call_0123456789ab")]
    story.tell(*asked[:2], reply=first)
    story.tell(*asked, reply=second)
    call = story.tell(*asked[:2], second, tool("ok", "call_ba9876543210"))
    assert call.follows == "c2"


def test_a_message_that_the_client_adds_to_each_request_and_takes_out_again_hides_nothing() -> None:
    story = Story()
    story.tell(PROMPT, user("To Oslo, please."), user("<env>12:01</env>"), reply="Yes.")
    asked = [PROMPT, user("To Oslo, please."), assistant("Yes."), user("At nine.")]
    second = story.tell(*asked, user("<env>12:02</env>"), reply="Yes.")
    third = story.tell(*asked, assistant("Yes."), user("ok"), user("<env>12:03</env>"))
    assert (second.follows, third.follows) == ("c1", "c2")


def test_a_crowd_of_equal_replies_does_not_hide_a_conversation_with_a_wrapped_message() -> None:
    story = Story()
    for number in range(100):
        told(story, f"first {number}", "wrapped <reminder>")
    asked = [PROMPT, user("first 7"), assistant("So, first 7"), user("wrapped")]
    call = story.tell(*asked, assistant(ANSWER), user("And back?"))
    assert call.follows == "c16"


def test_a_counter_does_not_decide_which_of_two_equal_openings_goes_on() -> None:
    story = Story()
    ask = user("To Oslo.")
    story.tell(system("You help. Call 1."), ask, reply=ANSWER)
    story.tell(system("You help. Call 7."), ask, reply=ANSWER, after=30)
    call = story.tell(system("You help. Call 7."), ask, assistant(ANSWER), user("Why?"))
    assert (call.follows, call.reason) == (None, "ambiguous")


def test_who_answers_the_same_questions_otherwise_is_somebody_else() -> None:
    story = Story()
    questions = ("Do you own a car?", "Do you like tea?", "Do you read?", "Do you sing?")
    for answers in (("no", "no", "no"), ("no", "no", "ok")):
        chat = [PROMPT, user("hi")]
        for question, words in zip(questions, answers, strict=False):
            story.tell(*chat, reply=question)
            chat += [assistant(question), user(words)]
        story.tell(*chat, reply=questions[-1])
    strange = [PROMPT, user("hi")]
    for question in questions[:-1]:
        strange += [assistant(question), user("yes")]
    call = story.tell(*strange, assistant(questions[-1]), user("yes"))
    assert call.follows is None
