from __future__ import annotations

from pathlib import Path

import pytest

from reef_release.errors import Conflict, SettingsError
from trainer.stream.records import RecordFile, Reply, Run, Session, read_records

RUN = Run(arm="control", seed=1, settings={"temperature": "0.7"})


def a_session(number: int, *, accepted: bool = True) -> Session:
    reply = Reply(
        text="It is 18.",
        accepted=accepted,
        complaint=None if accepted else "style",
        reaction="Thanks.",
        right=True,
        calculations=2,
        marks={},
        cut=False,
        release=None,
        receipt=None,
        wall_s=0.1,
    )
    return Session(
        arm="control",
        seed=1,
        session=number,
        tag=f"t{number}",
        task_id="x",
        question="How many?",
        key="18",
        replies=[reply],
        wall_s=0.2,
    )


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    with RecordFile(tmp_path / "new" / "out.jsonl") as out:
        out.begin(RUN)
        out.add(a_session(1))
    assert read_records([tmp_path / "new" / "out.jsonl"]) == [RUN, a_session(1)]


@pytest.mark.parametrize(
    "torn", [b'{"record":"sess', b'{"record":"run","arm":"x\xff', b"{", b"\0\0\0"]
)
def test_a_torn_last_line_is_cut_off_and_its_session_held_again(
    tmp_path: Path, torn: bytes
) -> None:
    path = tmp_path / "out.jsonl"
    with RecordFile(path) as out:
        out.add(a_session(1))
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    assert read_records([path]) == [a_session(1)]
    with RecordFile(path) as out:
        assert path.read_bytes() == whole
        assert set(out.sessions("control", 1)) == {1}
        out.add(a_session(2))
    assert read_records([path]) == [a_session(1), a_session(2)]


def test_the_same_settings_go_on_and_others_are_a_conflict(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    with RecordFile(path) as out:
        out.begin(RUN)
    with RecordFile(path) as out:
        out.begin(RUN)
        out.begin(Run(arm="control", seed=2, settings={"temperature": "1.0"}))
        with pytest.raises(Conflict, match="temperature"):
            out.begin(Run(arm="control", seed=1, settings={"temperature": "1.0"}))
    assert len(read_records([path])) == 2


@pytest.mark.parametrize("content", ["shopping\nlist\n", "one line only", "{}\n", '{"a": 1}'])
def test_another_file_is_refused_and_left_alone(tmp_path: Path, content: str) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(content, "utf-8")
    with pytest.raises(SettingsError, match="that python -m trainer"):
        RecordFile(path)
    assert path.read_text("utf-8") == content
