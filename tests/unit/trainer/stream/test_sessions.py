from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from reef_release.errors import ReefError, SettingsError, Unavailable
from tests.unit.trainer.stream.fakes import BULLETS, GOOD, WRONG, FakeServer, Messages
from trainer.stream.endpoint import Endpoint
from trainer.stream.evaluation import evaluate
from trainer.stream.memory import Memory
from trainer.stream.records import RecordFile, Session
from trainer.stream.sessions import Stream
from trainer.stream.tasks import Task
from trainer.stream.taste import load_taste
from trainer.stream.voice import Voice

TASKS = [Task(id=f"t{n}", question=f"How many in {n}?", key=18) for n in range(1, 6)]  # type: ignore[arg-type]
HOMEWORK = load_taste("homework")


def a_stream(server: FakeServer, **options: Any) -> Stream:
    return Stream(
        endpoint=server.endpoint(), taste=HOMEWORK, seed=7, **{"arm": "control", **options}
    )


def second_time_good(messages: Messages) -> str:
    return GOOD if len(messages) > 1 else BULLETS


def test_a_session_goes_on_until_a_reply_is_accepted(tmp_path: Path) -> None:
    server = FakeServer(second_time_good, release="r" * 64)
    with RecordFile(tmp_path / "out.jsonl") as out:
        (session,) = a_stream(server).run(TASKS[:1], out)
    assert [reply.accepted for reply in session.replies] == [False, True]
    first = session.replies[0]
    assert (first.complaint, first.right, first.calculations) == ("style", True, 2)
    assert first.marks["bullet"] == 2
    assert (first.release, first.receipt) == ("r" * 64, "receipt-1")
    assert (session.accepted_first, session.accepted) == (False, True)
    assert [len(asked["messages"]) for asked in server.asked] == [1, 3]
    assert server.asked[1]["messages"][1:] == [
        {"role": "assistant", "content": BULLETS},
        {"role": "user", "content": first.reaction},
    ]


def test_the_first_message_is_the_question_and_nothing_else(tmp_path: Path) -> None:
    server = FakeServer(lambda _: GOOD)
    with RecordFile(tmp_path / "out.jsonl") as out:
        a_stream(server).run(TASKS, out)
    assert [asked["messages"] for asked in server.asked] == [
        [{"role": "user", "content": task.question}] for task in TASKS
    ]


def test_nobody_asks_more_than_four_times(tmp_path: Path) -> None:
    server = FakeServer(lambda _: WRONG)
    with RecordFile(tmp_path / "out.jsonl") as out:
        (session,) = a_stream(server).run(TASKS[:1], out)
    assert len(session.replies) == 4
    assert not session.accepted


def test_a_model_may_word_what_the_student_says_and_its_silence_changes_nothing(
    tmp_path: Path,
) -> None:
    server = FakeServer(second_time_good)
    worded = FakeServer(lambda messages: "Hm, not like this." if "- 3" in str(messages) else "")
    with RecordFile(tmp_path / "out.jsonl") as out:
        voice = Voice(endpoint=worded.endpoint())
        (session,) = a_stream(server, voice=voice).run(TASKS[:1], out)
    first, second = session.replies
    assert first.reaction == "Hm, not like this."
    assert server.asked[1]["messages"][-1]["content"] == first.reaction
    assert second.reaction in HOMEWORK.thanks
    assert BULLETS in worded.asked[0]["messages"][1]["content"]


def test_a_closing_call_carries_the_last_reaction_and_wants_one_token(tmp_path: Path) -> None:
    server = FakeServer(lambda _: GOOD)
    with RecordFile(tmp_path / "out.jsonl") as out:
        (session,) = a_stream(server, closing=True).run(TASKS[:1], out)
    assert len(session.replies) == 1
    assert server.asked[1]["max_tokens"] == 1
    assert server.asked[1]["messages"][-1]["content"] == session.replies[0].reaction


def test_a_tag_stands_for_one_attempt_at_one_session(tmp_path: Path) -> None:
    server = FakeServer(second_time_good)
    for name in ("a", "b"):
        with RecordFile(tmp_path / name) as out:
            a_stream(server).run(TASKS[:2], out)
    tags = [headers["x-reef-tag-session"] for headers in server.headers]
    assert [tags.count(tag) for tag in dict.fromkeys(tags)] == [2, 2, 2, 2]
    assert tags[0].startswith("control-7-001-")


def test_two_arms_of_a_seed_ask_the_same_with_the_same_seeds(tmp_path: Path) -> None:
    servers = [FakeServer(second_time_good), FakeServer(second_time_good)]
    for server, arm in zip(servers, ("control", "update"), strict=True):
        with RecordFile(tmp_path / arm) as out:
            a_stream(server, arm=arm).run(TASKS, out)
    assert servers[0].asked == servers[1].asked


def test_an_interrupted_run_goes_on_where_it_stood(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    server = FakeServer(lambda messages: GOOD if "in 3" not in messages[0]["content"] else BULLETS)
    waited: list[int] = []

    def interrupt(session: Session) -> None:
        waited.append(session.session)
        if session.session == 2 and len(waited) == 2:
            raise KeyboardInterrupt

    with RecordFile(path) as out, pytest.raises(KeyboardInterrupt):
        a_stream(server).run(TASKS, out, interrupt)
    path.write_bytes(path.read_bytes() + b'{"record":"session","arm":"con')
    with RecordFile(path) as out:
        sessions = a_stream(server).run(TASKS, out, interrupt)
    assert [session.session for session in sessions] == [1, 2, 3, 4, 5]
    # Whoever waits is asked again for the session that was interrupted.
    assert waited == [1, 2, 2, 3, 4, 5]
    assert len([asked for asked in server.asked if len(asked["messages"]) == 1]) == 5
    with RecordFile(path) as out:
        assert a_stream(server).run(TASKS, out, interrupt) == sessions
    assert len(waited) == 6


def test_the_memory_is_shown_from_the_next_session_on(tmp_path: Path) -> None:
    server = FakeServer(second_time_good)
    memory = Memory(tmp_path / "memory.md")
    with RecordFile(tmp_path / "out.jsonl") as out:
        sessions = a_stream(server, arm="memory", memory=memory).run(TASKS[:2], out)
    roles = [[message["role"] for message in asked["messages"]] for asked in server.asked]
    assert roles[:2] == [["user"], ["user", "assistant", "user"]]
    assert roles[2] == ["system", "user"]
    assert sessions[0].replies[0].reaction in server.asked[2]["messages"][0]["content"]


def test_a_release_may_come_from_whoever_knows_it(tmp_path: Path) -> None:
    with RecordFile(tmp_path / "out.jsonl") as out:
        (session,) = a_stream(FakeServer(lambda _: GOOD), release_of=lambda: "told").run(
            TASKS[:1], out
        )
    assert session.replies[0].release == "told"


def test_an_evaluation_asks_each_task_once_as_a_side_call() -> None:
    server = FakeServer(lambda messages: GOOD if "in 1" in messages[0]["content"] else WRONG)
    found = evaluate(a_stream(server), TASKS, 36)
    assert (found.after, found.count, found.right, found.accepted) == (36, 5, 1, 1)
    assert {headers["x-reef-tag-turn-type"] for headers in server.headers} == {"side"}
    assert len({asked["seed"] for asked in server.asked}) == 5


def test_a_reply_cut_by_the_limit_is_wrong() -> None:
    found = evaluate(a_stream(FakeServer(lambda _: GOOD, finish_reason="length")), TASKS, 0)
    assert (found.right, found.accepted, found.cut) == (0, 0, 5)


def test_a_server_that_is_away_for_a_moment_is_asked_again() -> None:
    server = FakeServer(lambda _: GOOD, refusals=[503, 429, 502])
    endpoint = server.endpoint(headers={"x-reef-scenario": "homework"}, extra={"top_p": 0.9})
    assert endpoint.chat([{"role": "user", "content": "a"}], 3).text == GOOD
    asked = server.asked[0]
    assert (asked["seed"], asked["top_p"], asked["model"]) == (3, 0.9, "policy")
    assert server.headers[0]["x-reef-scenario"] == "homework"


def test_an_endpoint_that_stays_away_is_an_error_and_what_was_held_stays(tmp_path: Path) -> None:
    server = FakeServer(lambda _: GOOD)
    with RecordFile(tmp_path / "out.jsonl") as out:
        a_stream(server).run(TASKS[:2], out)
        server.refusals = [503] * 9
        with pytest.raises(Unavailable):
            a_stream(server).run(TASKS, out)
        assert set(out.sessions("control", 7)) == {1, 2}


def test_an_answer_of_another_protocol_is_an_error() -> None:
    def handle(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"choices": []})

    endpoint = Endpoint("http://endpoint.test", model="m", transport=httpx.MockTransport(handle))
    with pytest.raises(ReefError, match="without a choice"):
        endpoint.chat([{"role": "user", "content": "a"}], 0)


@pytest.mark.parametrize("options", [{"temperature": float("nan")}, {"max_tokens": 0}])
def test_sampling_that_cannot_be_used_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="temperature"):
        FakeServer(lambda _: GOOD).endpoint(**options)


def test_several_served_models_need_a_choice() -> None:
    def handle(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"data": [{"id": "a"}, {"id": "b"}]})

    with pytest.raises(SettingsError, match="--model"):
        Endpoint("http://endpoint.test", transport=httpx.MockTransport(handle))
