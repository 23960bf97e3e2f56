"""A LoRA adapter on a promoted release: admitted, gated, promoted, gated against, audited."""

from __future__ import annotations

from pathlib import Path

import pytest

from reef_release.audit.export import export
from reef_release.audit.http_source import ClientSource
from reef_release.cli.audit import replay_with_weights
from reef_release.client import ReefClient
from reef_release.errors import Refused
from reef_release.tokens import TokenRole
from tests.adapters import make_adapter
from tests.integration.api.server import ServerProcess
from tests.integration.gate.conftest import BY_ANSWER, School
from trainer.tiny.shipped import BETTER, ORIGIN


@pytest.fixture(scope="module")
def school(server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> School:
    """A scenario that asks for right answers alone and serves the origin."""
    school = School(
        site=server.site,
        url=server.url,
        scenario="adapters",
        models=tmp_path_factory.mktemp("models"),
        standard=BY_ANSWER,
    )
    school.create()
    school.promote(school.gate(ORIGIN))
    return school


def test_an_adapter_that_names_another_base_is_refused(school: School, tmp_path: Path) -> None:
    make_adapter(ORIGIN, tmp_path / "adapter", named="someone/else")
    with pytest.raises(Refused) as refused:
        school.submit(tmp_path / "adapter", kind="lora", foundation=school.serving)
    assert [reason.code for reason in refused.value.reasons] == ["wrong-foundation"]


def test_an_adapter_goes_all_the_way_and_is_gated_against(school: School, tmp_path: Path) -> None:
    origin = school.serving
    make_adapter(ORIGIN, tmp_path / "adapter", named=origin)
    adapter = school.gate(tmp_path / "adapter", kind="lora", foundation=origin)
    assert adapter.status == "passed"
    school.promote(adapter)

    make_adapter(ORIGIN, tmp_path / "noise", size=3.0)
    noise = school.gate(tmp_path / "noise", kind="lora", foundation=origin)
    assert noise.status in {"failed", "errored"}
    assert noise.base == school.serving == adapter.candidate_id

    better = school.gate(BETTER)
    assert (better.status, better.base) == ("passed", adapter.candidate_id)
    trials = school.events("gate.trial", gate_id=better.gates[-1].gate_id, side="incumbent")
    assert all(trial["error"] is None for trial in trials)
    assert any(trial["verdict"]["passed"] for trial in trials)

    with ReefClient(school.url, school.site.token(TokenRole.AUDIT)) as client:
        export(ClientSource(client), tmp_path / "export", include_weights=True)
    report = replay_with_weights(tmp_path / "export", school.site.anchor, None)
    assert [str(problem) for problem in report.problems] == []
    assert report.weights is not None
    assert report.weights.release_count >= 4
