"""What a hostile service can hand out, and what a trainer does with it: nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from reef_release.errors import Refused
from tests.unit.trainer.worker.fakes import Class, lease

OUTSIDE = "../../../outside"


@pytest.mark.parametrize(
    "change",
    [
        {"batch_id": OUTSIDE},
        {"batch_id": "/tmp/outside"},
        {"batch_id": "b" * 33},
        {"batch_id": "b" * 32 + "\n"},
        {"lease_id": OUTSIDE},
        {"lease_id": lease(1).upper() + "A"},
        {"release_id": OUTSIDE},
        {"releases": ["a" * 64, OUTSIDE]},
        {"lease_s": 0.0},
        {"lease_s": -1.0},
        {"lease_s": 604_801.0},
        {"lease_s": float("nan")},
        {"scenario": "another"},
        {"channel": "another"},
    ],
)
def test_a_batch_that_is_not_of_its_form_is_refused_before_anything_is_written(
    change: dict[str, Any], tmp_path: Path
) -> None:
    school = Class(tmp_path / "school")
    school.run()
    school.traffic.form()
    real, before = school.client.claim, sorted(tmp_path.rglob("*"))

    def hostile(*given: Any) -> Any:
        batch = real(*given)
        assert batch is not None
        return msgspec.structs.replace(batch, **change)

    school.client.claim = hostile  # type: ignore[method-assign]
    with pytest.raises(Refused, match="no batch") as refused:
        school.run()
    assert refused.value.next_step
    assert sorted(tmp_path.rglob("*")) == before
    assert (school.kept().job, school.train.calls) == (None, [])
