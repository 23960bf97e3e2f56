"""With a lag that is allowed, replies of the release before are trained with those of this one."""

from __future__ import annotations

from pathlib import Path

from tests.databases import Server
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import Site
from tests.integration.gate.conftest import BY_ANSWER, School
from tests.integration.training.classroom import BATCH_SIZE, Classroom, Forker
from trainer.tiny.shipped import ORIGIN


def test_a_batch_of_two_releases_is_trained_from_the_one_that_is_served(
    tmp_path: Path, postgres: Server, forker: Forker
) -> None:
    with postgres.database() as database:
        site = Site(home=tmp_path / "home", database=database)
        (site.home / "reef.toml").write_text(
            f"batch_size = {BATCH_SIZE}\nlease_s = 30\nbatch_max_lag = 1\n"
        )
        with ServerProcess(site) as server:
            school = School(
                site=site,
                url=server.url,
                scenario="lag",
                models=tmp_path / "models",
                standard=BY_ANSWER,
            )
            school.create()
            school.promote(school.gate(ORIGIN))
            train_with_a_lag(Classroom(school=school, root=tmp_path, forker=forker))


def train_with_a_lag(classroom: Classroom) -> None:
    school = classroom.school
    trainer = classroom.trainer("lagging")
    origin = school.serving
    classroom.batch()
    assert trainer.run() == 0, trainer.said
    late = BATCH_SIZE // 2
    classroom.converse(late)
    classroom.gate()
    school.promote(classroom.candidates()[-1])
    served = school.serving
    assert served not in (None, origin)

    # The new weights have moved so little that the origin's replies may pass for theirs.
    classroom.batch(BATCH_SIZE - late)
    formed = school.events("batch.formed")[-1]
    assert formed["release_id"] == served
    assert [sample["release_id"] for sample in formed["samples"]] == [
        *[origin] * late,
        *[served] * (BATCH_SIZE - late),
    ]
    assert trainer.run() == 0, trainer.said
    (started,) = school.events("training.started", batch_id=formed["batch_id"])
    assert started["parent"] == served
    (completed,) = school.events("training.completed", batch_id=formed["batch_id"])
    assert completed["skipped"] == []
    assert completed["steps"] == 2
