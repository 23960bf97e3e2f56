"""What may be offered to the log at all."""

from __future__ import annotations

from typing import Any

import pytest

from reef_release.errors import BadRequest
from reef_release.log import NewEvent

SOUND: dict[str, Any] = {
    "event_id": "01900000-0000-7000-8000-000000000000",
    "scenario": "homework",
    "stream": "scenario",
    "type": "scenario.held",
    "schema_version": 1,
    "actor": "operate:anna",
    "causation_id": None,
    "correlation_id": None,
    "data": b'{"reason":"odd answers"}',
    "expected_version": None,
}


def test_a_sound_event_is_taken() -> None:
    assert NewEvent(**SOUND).data == SOUND["data"]
    assert NewEvent(**SOUND | {"expected_version": 0, "causation_id": "x"}).expected_version == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"event_id": "7"},
        {"event_id": "B7D5E1F0-0000-7000-8000-000000000000"},
        {"scenario": "schöne-neue"},
        {"actor": "a\0b"},
        {"schema_version": 0},
        {"schema_version": 2**31},
        {"expected_version": -1},
        {"data": b'{"a":"\xff"}'},
        {"data": b'{"a":"\0"}'},
        {"data": b"x" * 64_001},
    ],
)
def test_what_could_not_travel_to_the_database_is_refused_at_once(fields: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        NewEvent(**SOUND | fields)
