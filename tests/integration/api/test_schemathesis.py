"""The OpenAPI document tells the truth: schemathesis asks, and compares each answer with it.

For every operation inputs are made from the document, good and bad ones, each with a token of a
role that the route is for. An answer must be no failure of ours, have a documented status, media
type and form.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import httpx
import pytest
import schemathesis
from anyio.to_thread import run_sync
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from reef_release.tokens import TokenRole
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import SCENARIO

EXAMPLES = int(os.environ.get("REEF_SCHEMA_EXAMPLES", "12"))
CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
ENDLESS = {"/reef/events/stream"}
"""A stream has no end to wait for; it has tests of its own."""


@pytest.mark.anyio
async def test_answers_are_as_the_document_says(running: ServerProcess) -> None:
    story = running.story()
    await story.create_scenario()
    names = {"scenario": SCENARIO, "release_id": await story.release()}
    names["candidate_id"] = (await story.submit())["candidate_id"]
    names["gate_id"] = (await story.claim_soon()).opened.gate_id
    names["node_id"] = "node-1"
    failures = await run_sync(compare, running, names)
    await story.http.aclose()
    assert not failures, "\n\n".join(f"{label}: {why}" for label, why in failures.items())


def compare(running: ServerProcess, names: dict[str, str]) -> dict[str, str]:
    """What is wrong, by operation; half of the inputs name what is there."""
    document = httpx.get(f"{running.url}/schema/openapi.json").json()
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=running.url)
    tokens = {role: running.site.token(role) for role in TokenRole}
    failures: dict[str, str] = {}
    count = 0

    @cache
    def barred(label: str) -> set[TokenRole]:
        return set()

    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path in ENDLESS:
            continue
        count += 1

        @settings(
            max_examples=EXAMPLES,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            for name in names.keys() & (case.path_parameters or {}).keys():
                if name == "scenario" or len(case.path_parameters[name]) % 2:
                    case.path_parameters[name] = names[name]
            if case.query and "wait" in case.query:
                case.query["wait"] = 0
            for role in [each for each in TokenRole if each not in barred(case.operation.label)]:
                answer = case.call(headers={"Authorization": f"Bearer {tokens[role]}"}, timeout=60)
                if answer.status_code != 403:
                    break
                barred(case.operation.label).add(role)
            excluded = []
            if case.operation.path.startswith("/v1/") and answer.status_code == 503:
                excluded = [not_a_server_error]  # No upstream is configured here.
            case.validate_response(answer, checks=CHECKS, excluded_checks=excluded)

        try:
            ask()
        except BaseException as error:
            failures[operation.label] = str(error)[:1500]
    assert count > 50
    return failures
