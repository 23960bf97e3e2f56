"""From judged conversations to a candidate in the log, by a trainer in a process of its own."""

from __future__ import annotations

from tests.integration.training.classroom import Classroom


def test_a_batch_becomes_events_and_a_candidate(classroom: Classroom) -> None:
    classroom.batch()
    trainer = classroom.trainer("one")
    status = trainer.run()
    print(trainer.output.read_text())
    assert status == 0
    events = classroom.school.events
    (started,) = events("training.started")
    assert started["parent"] == classroom.school.serving
    assert [each["step"] for each in events("training.step")] == [1, 2]
    (completed,) = events("training.completed")
    (candidate,) = classroom.candidates()
    assert candidate.candidate_id == completed["weights_id"]
