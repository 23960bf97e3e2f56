"""Clients, told apart by their tokens: none reacts to what another was told."""

from __future__ import annotations

import pytest

from tests.unit.domain.correlation.stories import Story, assistant, calling, system, tool, user

PROMPT = system("You book flights.")
SAID = "At nine in the morning, from the first platform of the old station."
ASKED = (PROMPT, user("When does it leave?"))


@pytest.mark.parametrize("tag", [None, "t"])
def test_whoever_knows_what_another_was_told_reacts_to_nothing(tag: str | None) -> None:
    story = Story()
    story.tell(*ASKED, reply=SAID, client="ann", tag=tag)
    forged = [*ASKED, assistant(SAID), user("Wrong, terrible.")]
    call = story.tell(*forged, client="ben", tag=tag)
    assert (call.follows, call.replaces, call.reason) == (None, None, "other-client")
    own = story.tell(*ASKED, assistant(SAID), user("Thanks."), client="ann", tag=tag)
    assert (own.follows, own.replaces) == ("c1", None)
    late = story.tell(*forged, user("Terrible."), client="ben", tag=tag)
    assert (late.follows, late.replaces) == (None, None)


def test_whoever_guesses_a_tag_reacts_to_nothing_under_it() -> None:
    story = Story()
    for tag in ("a", "b", "c"):
        for number in range(3):
            known = story.tell(PROMPT, user(f"{number}?"), client="ann", tag=tag)
    assert known.method == "tag"
    call = story.tell(PROMPT, user("Wrong."), client="ben", tag="c")
    assert (call.follows, call.reason) == (None, "other-client")


def test_the_ids_of_anothers_tool_calls_open_nothing() -> None:
    story = Story()
    called = calling("look", ids=("call_0123456789abcdef",))
    story.tell(*ASKED, reply=called, client="ann")
    call = story.tell(PROMPT, tool("never", "call_0123456789abcdef"), client="ben")
    assert call.follows is None


def test_a_request_that_another_sent_before_is_no_retry_and_no_regeneration() -> None:
    story = Story()
    story.tell(*ASKED, reply=SAID, client="ann")
    same = story.tell(*ASKED, reply=SAID, client="ben", after=0.5)
    other = story.tell(*ASKED, reply="At ten.", client="eve", after=0.5)
    assert [same.kind, other.kind] == ["main", "main"]


def test_what_one_client_does_is_no_evidence_on_another() -> None:
    story = Story()
    for number in range(20):
        asked = [PROMPT, user(f"Number {number}, please.")]
        tag = f"ann-{number}"
        story.tell(*asked, reply=f"{SAID} {number}", client="ann", tag=tag)
        more = [*asked, assistant(f"{SAID} {number}"), user("Go on.")]
        assert story.tell(*more, client="ann", tag=tag).follows is not None
    for number in range(3):
        for tag in ("x", "y", "z"):
            call = story.tell(PROMPT, user(f"{number} {tag}?"), client="ben", tag=tag)
    assert (call.follows, call.method) == ("c46", "tag")


def test_what_a_silent_client_left_behind_expires_with_the_others_time() -> None:
    story = Story()
    story.tell(*ASKED, reply=SAID, client="ann")
    story.tell(*ASKED, reply=SAID, client="ben", after=30 * 24 * 3600.0)
    assert story.correlator.open_sessions("homework") == 1
