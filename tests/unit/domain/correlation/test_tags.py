"""Tags of clients that keep their history at home: believed when they are known to be sessions."""

from __future__ import annotations

from tests.unit.domain.correlation.stories import Story, assistant, calling, system, tool, user

PROMPT = system("You book flights.")


def test_one_tag_without_echoes_is_not_believed() -> None:
    """It may as well be a constant that a service stamps on questions of anybody."""
    story = Story()
    for number in range(20):
        call = story.tell(PROMPT, user(f"Question {number}?"), tag="default")
        assert call.follows is None
    assert call.reason == "tag-unproven"


def test_results_without_their_calls_prove_that_history_stays_at_home() -> None:
    story = Story()
    story.tell(PROMPT, user("To Oslo."), reply=calling("look", ids=("call_0",)), tag="t")
    result = story.tell(PROMPT, tool("nine", "call_0"), reply="At nine.", tag="t")
    reaction = story.tell(PROMPT, user("Too early."), tag="t")
    assert (result.follows, reaction.follows, reaction.method) == ("c1", "c2", "tag")


def test_results_without_ids_follow_the_only_turn_that_waits_for_them() -> None:
    story = Story()
    story.tell(PROMPT, user("To Oslo."), reply=calling("look"), tag="t")
    assert story.tell(PROMPT, tool("nine"), tag="t").follows == "c1"


def test_a_user_who_speaks_while_tools_are_awaited_binds_nothing() -> None:
    story = Story()
    story.tell(PROMPT, user("To Oslo."), reply=calling("look"), tag="t")
    call = story.tell(PROMPT, user("To Rome."), tag="t")
    assert (call.follows, call.reason) == (None, "tools-awaited")


def test_several_tags_that_went_on_without_any_echo_are_sessions() -> None:
    story = Story()
    story.tell(PROMPT, user("To Oslo."), tag="a")
    story.tell(PROMPT, user("To Rome."), tag="b")
    assert story.tell(PROMPT, user("Too early."), tag="a").reason == "tag-unproven"
    assert story.tell(PROMPT, user("Too late."), tag="b").follows == "c2"
    assert story.tell(PROMPT, user("Still too early."), tag="a").follows == "c3"


def test_what_comes_before_anybody_can_have_read_the_reply_is_no_reaction_to_it() -> None:
    story = Story()
    story.tell(PROMPT, user("To Oslo."), tag="a")
    story.tell(PROMPT, user("Too early."), tag="a")
    story.tell(PROMPT, user("To Rome."), tag="b")
    call = story.tell(PROMPT, user("To Bonn."), tag="b", after=0.1)
    assert (call.follows, call.reason) == (None, "tag-unproven")


def test_a_long_message_that_comes_again_was_sent_again_and_not_typed_again() -> None:
    story = Story()
    asked = [PROMPT, user("To Oslo, in the morning, with two bags and a bicycle, please.")]
    story.tell(*asked, reply="At nine.", tag="t")
    again = story.tell(*asked, reply="At ten.", tag="t")
    assert (again.kind, again.replaces) == ("regeneration", "c1")


def test_a_few_tags_on_very_many_calls_are_not_sessions() -> None:
    story = Story()
    for number in range(60):
        story.tell(PROMPT, user(f"Question {number}?"), tag=("ask", "tell")[number % 2])
    call = story.tell(PROMPT, user("One more?"), tag="ask")
    assert (call.follows, call.reason) == (None, "tag-unproven")


def test_tags_of_clients_that_resend_their_history_bind_nothing_without_an_echo() -> None:
    story = Story()
    story.tell(PROMPT, user("To Oslo."), tag="a")
    story.tell(PROMPT, user("To Oslo."), assistant("Well."), user("Early."), tag="a")
    story.tell(PROMPT, user("To Rome."), tag="b")
    assert story.tell(PROMPT, user("To Bonn."), tag="b").reason == "tag-unproven"


def resending(story: Story, count: int) -> None:
    """Conversations of a client that sends its history along, each under a tag of its own."""
    for number in range(count):
        asked = [PROMPT, user(f"To town number {number}.")]
        story.tell(*asked, reply=f"At {number} o'clock.", tag=f"full-{number}")
        more = [*asked, assistant(f"At {number} o'clock."), user("Early.")]
        assert story.tell(*more, tag=f"full-{number}").follows is not None


def test_tags_without_any_history_are_sessions_also_beside_others_that_resend_theirs() -> None:
    story = Story()
    resending(story, 20)
    bound = 0
    for number in range(60):
        story.tell(PROMPT, user(f"To place {number}."), tag=f"new-{number}")
        call = story.tell(PROMPT, user(f"Not {number}."), tag=f"new-{number}")
        assert call.follows in (None, f"c{story.count - 1}")
        bound += call.follows is not None
    assert bound >= 58


def test_a_client_that_begins_anew_under_its_tags_does_not_make_them_sessions() -> None:
    """A tag per user: who asks one thing and then another does not react to the first reply."""
    story = Story()
    for number in range(30):
        asked = [PROMPT, user(f"To town number {number}.")]
        tag = f"user-{number % 10}"
        story.tell(*asked, reply=f"At {number} o'clock.", tag=tag)
        story.tell(*asked, assistant(f"At {number} o'clock."), user("Early."), tag=tag)
    for number in range(5):
        for question in range(3):
            call = story.tell(PROMPT, user(f"{number} {question}?"), tag=f"other-{number}")
            assert call.follows is None
    assert call.reason == "tag-unproven"


def test_a_constant_tag_beside_sessions_is_soon_no_session() -> None:
    story = Story()
    wrong = 0
    for number in range(200):
        wrong += story.tell(PROMPT, user(f"Question {number}?"), tag="default").follows is not None
        for step in range(3):
            call = story.tell(PROMPT, user(f"Step {step}."), tag=f"s-{number}")
    assert call.method == "tag"
    assert wrong <= 10


def test_a_tag_under_which_calls_came_too_fast_to_be_reactions_is_no_session() -> None:
    story = Story()
    for tag in ("a", "b", "c"):
        story.tell(PROMPT, user("To Oslo."), tag=tag)
        story.tell(PROMPT, user("Too early."), tag=tag)
    story.tell(PROMPT, user("To Rome."), tag="all")
    story.tell(PROMPT, user("To Bonn."), tag="all", after=0.5)
    assert story.tell(PROMPT, user("To Kiel."), tag="all").reason == "tag-unproven"


def test_nobody_reacts_to_a_call_that_failed() -> None:
    story = Story()
    story.tell(PROMPT, user("To Oslo."), reply=calling("look", ids=("call_0",)), tag="t")
    story.tell(PROMPT, tool("nine", "call_0"), reply=None, tag="t")
    call = story.tell(PROMPT, user("Hello?"), tag="t")
    assert (call.follows, call.reason) == (None, "unanswered")


def test_a_constant_tag_on_two_equal_openings_makes_no_retry() -> None:
    story = Story()
    opening = [PROMPT, user("To Oslo.")]
    story.tell(*opening, reply="When?", tag="default")
    story.tell(*opening, assistant("When?"), user("Now."), tag="default")
    story.tell(PROMPT, user("To Rome."), tag="default")
    other = story.tell(*opening, reply="On which day?", tag="default")
    assert (other.kind, other.session_id) == ("main", "c4")
    call = story.tell(*opening, assistant("On which day?"), user("Today."), tag="default")
    assert (call.follows, call.method) == ("c4", "transcript")


def test_a_side_call_belongs_to_the_session_of_its_tag() -> None:
    story = Story()
    story.tell(PROMPT, user("To Oslo."), tag="t")
    assert story.tell(PROMPT, user("Name it."), tag="t", turn_type="side").session_id == "c1"


def test_a_tag_alone_is_believed_for_some_hours_only() -> None:
    story = Story()
    story.tell(PROMPT, user("To Oslo."), reply=calling("look", ids=("call_0",)), tag="t")
    story.tell(PROMPT, tool("nine", "call_0"), reply="At nine.", tag="t")
    late = story.tell(PROMPT, user("To Rome."), tag="t", after=7 * 3600)
    assert (late.follows, late.reason) == (None, "tag-idle")
    soon = story.tell(PROMPT, user("Too early."), tag="t", after=5 * 3600)
    assert soon.follows == "c3"
    codes = [each.code for each in story.correlator.findings("homework")]
    assert codes == ["reactions-after-expiry"]


def test_conversations_that_cross_under_one_tag_are_bound_by_their_tool_calls_only() -> None:
    story = Story()
    story.tell(PROMPT, user("To Oslo."), reply=calling("look", ids=("call_a",)), tag="t")
    story.tell(PROMPT, user("To Rome."), reply=calling("look", ids=("call_b",)), tag="t")
    first = story.tell(PROMPT, tool("nine", "call_a"), reply="At nine.", tag="t")
    second = story.tell(PROMPT, tool("ten", "call_b"), reply="At ten.", tag="t")
    assert (first.follows, second.follows) == ("c1", "c2")
    reaction = story.tell(PROMPT, user("Too late."), tag="t")
    assert (reaction.follows, reaction.reason) == (None, "ambiguous")


def test_a_word_that_is_said_again_and_answered_alike_is_left_undecided() -> None:
    """ "OK" twice, "Fine." twice: sent again, or said again?"""
    story = Story()
    story.tell(PROMPT, user("To Oslo."), reply=calling("look", ids=("call_0",)), tag="t")
    story.tell(PROMPT, tool("nine", "call_0"), reply="At nine.", tag="t")
    story.tell(PROMPT, user("ok"), reply="Fine.", tag="t")
    again = story.tell(PROMPT, user("ok"), reply="Fine.", tag="t")
    assert (again.kind, again.follows, again.reason) == ("main", None, "ambiguous")


def test_a_sub_agent_that_only_talks_is_not_bound_by_the_tag_of_its_parent() -> None:
    """The next one with its prompt would be taken for the same."""
    story = Story()
    story.tell(PROMPT, user("To Oslo."), reply=calling("ask", ids=("call_0",)), tag="t")
    helper = system("You compare prices.")
    story.tell(helper, user("Oslo."), reply="Ninety.", tag="t")
    story.tell(PROMPT, tool("Ninety.", "call_0"), reply="It is ninety.", tag="t")
    other = story.tell(helper, user("Rome."), tag="t")
    assert (other.follows, other.reason) == (None, "tag-unproven")
    assert story.tell(PROMPT, user("Cheaper."), tag="t").follows == "c3"


def test_a_counter_in_the_prompt_does_not_hide_a_conversation_whose_history_stays_at_home() -> None:
    story = Story()
    for number in range(12):
        for tag in ("a", "b", "c"):
            prompt = system(f"You book flights. {story.count} tokens are left.")
            call = story.tell(prompt, user(f"Question {number} of {tag}?"), tag=tag)
    assert (call.follows, call.method) == ("c33", "tag")


def test_results_of_parallel_calls_may_come_one_after_the_other() -> None:
    story = Story()
    story.tell(PROMPT, user("Both."), reply=calling("l", "r", ids=("call_l", "call_r")), tag="t")
    story.tell(PROMPT, tool("3", "call_l"), reply=None, tag="t", after=0.2)
    both = story.tell(PROMPT, tool("3", "call_l"), tool("4", "call_r"), tag="t", after=0.2)
    assert (both.follows, both.replaces) == ("c1", "c2")


def test_the_same_request_under_another_tag_is_no_retry() -> None:
    story = Story()
    opening = [PROMPT, user("To Oslo."), assistant("When?")]
    for tag in ("a", "b"):
        story.tell(*opening[:2], reply="When?", tag=tag)
    for tag in ("a", "b"):
        story.tell(*opening, user("Now."), reply="From where?", tag=tag)
    for tag in ("a", "b"):
        call = story.tell(*opening, user("Now."), assistant("From where?"), user("Bonn."), tag=tag)
        assert call.follows == {"a": "c3", "b": "c4"}[tag]
