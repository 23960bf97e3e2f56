from __future__ import annotations

from pathlib import Path

import pytest

from reef_release.errors import SettingsError
from trainer.stream.memory import PLACEMENTS, Memory, with_memory

MESSAGES = [
    {"role": "user", "content": "How many?"},
    {"role": "assistant", "content": "18"},
    {"role": "user", "content": "Hmm."},
]


def test_notes_are_dated_by_session_and_written_once(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "memory.md")
    assert memory.add(3, "No lists.")
    assert memory.add(4, "Show  the\nwork.")
    assert not memory.add(5, "no LISTS")
    assert not memory.add(5, "  ")
    assert memory.markdown() == (
        "# What the user said about earlier replies\n\n"
        "- session 3: No lists.\n- session 4: Show the work.\n"
    )
    assert Memory(tmp_path / "memory.md").notes() == ["No lists.", "Show the work."]


def test_the_oldest_notes_leave_when_there_are_too_many(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "memory.md", max_notes=3)
    for session in range(1, 8):
        memory.add(session, f"note {session}")
    assert memory.notes() == ["note 5", "note 6", "note 7"]


def test_the_file_never_grows_beyond_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "memory.md"
    memory = Memory(path, max_notes=1000, max_bytes=2000)
    for session in range(1, 60):
        memory.add(session, f"{session} " + "ü" * 2000)
        assert path.stat().st_size <= 2000
    assert memory.notes()[-1].startswith("59 ")


def test_what_a_user_wrote_into_the_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "memory.md"
    path.write_text("# Mine\nI like cats.\n- session 1: old\n", "utf-8")
    memory = Memory(path, max_notes=1)
    memory.add(2, "new")
    assert path.read_text("utf-8") == "# Mine\nI like cats.\n- session 2: new\n"


def test_a_file_without_room_for_a_note_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "memory.md"
    path.write_text("x" * 3000 + "\n", "utf-8")
    with pytest.raises(SettingsError, match="no room"):
        Memory(path, max_bytes=2000).add(1, "note")
    assert path.read_text("utf-8") == "x" * 3000 + "\n"


@pytest.mark.parametrize("bounds", [{"max_notes": 0}, {"max_bytes": 10}])
def test_bounds_that_hold_nothing_are_refused(tmp_path: Path, bounds: dict[str, int]) -> None:
    with pytest.raises(SettingsError, match="holds nothing"):
        Memory(tmp_path / "memory.md", **bounds)


def test_an_empty_memory_changes_no_prompt(tmp_path: Path) -> None:
    for placement in PLACEMENTS:
        assert with_memory(MESSAGES, Memory(tmp_path / "none.md"), placement) == MESSAGES


def test_every_placement_shows_the_notes_and_leaves_the_conversation_alone(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "memory.md")
    memory.add(1, "No lists.")
    markdown = memory.markdown().strip()
    before = [dict(message) for message in MESSAGES]
    system = with_memory(MESSAGES, memory, "system")
    assert system == [{"role": "system", "content": markdown}, *MESSAGES]
    assert with_memory(MESSAGES, memory, "prefix")[0]["content"] == f"{markdown}\n\nHow many?"
    assert with_memory(MESSAGES, memory, "suffix")[-1]["content"] == f"Hmm.\n\n{markdown}"
    hinted = with_memory(MESSAGES, memory, "hint")[-1]["content"]
    assert hinted == "Hmm.\n[user's hint / instruction]\nNo lists."
    assert before == MESSAGES
