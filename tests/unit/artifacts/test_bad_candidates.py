"""Every attack on a candidate's files: its twin is admitted, and one named check stops it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reef_release.artifacts.admission import Admission
from reef_release.artifacts.bad_candidates import BAD_CANDIDATES, BadCandidate, twin
from reef_release.artifacts.directory_store import DirectoryBlobStore
from reef_release.artifacts.spoiling import Files
from reef_release.domain.canonical import canonical_json

Admit = Callable[..., Admission]


@pytest.mark.parametrize("bad", BAD_CANDIDATES, ids=lambda bad: bad.name)
def test_the_twin_is_admitted_and_the_attack_is_refused_by_the_check_that_is_named(
    bad: BadCandidate, admit_files: Admit, model: Files, foundation: str
) -> None:
    kind = "lora" if bad.form == "adapter" else "full"
    good = twin(bad.form, model, foundation)
    assert admit_files(good, kind=kind).reasons == ()

    refused = admit_files(bad.spoil(good), kind=kind)

    assert bad.code in {reason.code for reason in refused.reasons}
    assert not refused.admitted


def test_every_attack_has_its_own_name() -> None:
    names = [bad.name for bad in BAD_CANDIDATES]
    assert len(set(names)) == len(names)


def test_all_reasons_are_given_at_once_and_can_stand_in_an_event(
    admit_files: Admit, model: Files, foundation: str
) -> None:
    files = dict(model)
    wanted = set()
    for bad in BAD_CANDIDATES:
        if bad.name in {
            "trailing-byte",
            "tensor-renamed",
            "python-file",
            "pickle-beside-the-weights",
            "auto-map-in-config",
            "chat-template-changed",
            "end-token-swapped-in-generation-config",
            "name-in-decomposed-unicode",
        }:
            files = bad.spoil(files)
            wanted.add(bad.code)

    reasons = admit_files(files).reasons

    assert wanted <= {reason.code for reason in reasons}
    assert canonical_json(
        [{"code": each.code, "message": each.message, "where": each.where} for each in reasons]
    )


def test_a_refusal_leaves_nothing_behind(
    admit_files: Admit, model: Files, store: DirectoryBlobStore
) -> None:
    def listing() -> set[Path]:
        return set(store.root.rglob("*"))

    spoilt: dict[str, Any] = {**model, "x.zip": b"PK\x03\x04"}
    admit_files(spoilt)
    before = listing()
    assert not admit_files(spoilt).admitted
    assert listing() == before


def test_a_refused_candidate_names_the_place_and_the_way_out(
    admit_files: Admit, model: Files
) -> None:
    [bad] = [each for each in BAD_CANDIDATES if each.name == "trailing-byte"]
    [reason] = admit_files(bad.spoil(dict(model))).reasons
    assert str(reason) == (
        "trailing-bytes: 1 bytes follow the last tensor; remove them [model.safetensors]"
    )
