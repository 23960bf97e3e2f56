"""Ids of events: new ones, and those that follow from what they name."""

from __future__ import annotations

import uuid

from reef_release.ids import derived_uuid7, short_id, uuid7


def test_an_id_is_a_uuid_of_version_7_in_lowercase() -> None:
    for identity in (uuid7(), derived_uuid7(uuid7(), "a")):
        assert uuid.UUID(identity).version == 7
        assert uuid.UUID(identity).variant == uuid.RFC_4122
        assert str(uuid.UUID(identity)) == identity


def test_a_derived_id_follows_from_all_names_and_keeps_the_time() -> None:
    of = uuid7()
    assert derived_uuid7(of, "a", "b") == derived_uuid7(of, "a", "b")
    others = {
        derived_uuid7(of, *names) for names in (("a", "b"), ("ab",), ("a",), ("b", "a"), ())
    } | {derived_uuid7(uuid7(), "a", "b")}
    assert len(others) == 6
    assert derived_uuid7(of, "a")[:13] == of[:13]


def test_ids_made_at_one_time_differ_also_when_they_are_shortened() -> None:
    one, other = uuid7(), uuid7()
    assert short_id(one) == one[-12:] != short_id(other)
    assert short_id("ab" * 32) == "ab" * 6
    assert short_id("node") == "node"
