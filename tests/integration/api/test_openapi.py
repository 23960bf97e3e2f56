"""The API describes itself."""

from __future__ import annotations

from typing import Any

import pytest

from reef_release.traffic_wire import InteractionRequest
from tests.integration.api.story import Story

pytestmark = pytest.mark.anyio

S = "/reef/scenarios/{scenario}"
ROUTES = {
    "/reef/scenarios": "get post",
    S: "get",
    f"{S}/account": "get",
    f"{S}/policy": "put",
    f"{S}/rollback": "post",
    f"{S}/hold": "post",
    f"{S}/resume": "post",
    f"{S}/current": "get",
    f"{S}/candidates": "get post",
    f"{S}/candidates/{{candidate_id}}": "get",
    f"{S}/candidates/{{candidate_id}}/account": "get",
    f"{S}/candidates/{{candidate_id}}/revoke": "post",
    f"{S}/gates/claim": "post",
    f"{S}/gates/{{gate_id}}/trials": "post",
    f"{S}/gates/{{gate_id}}/decision": "post",
    f"{S}/releases": "get",
    f"{S}/releases/{{release_id}}": "get",
    f"{S}/releases/{{release_id}}/bundle": "get post",
    f"{S}/releases/{{release_id}}/attestation": "get",
    f"{S}/releases/{{release_id}}/files/{{path}}": "get",
    f"{S}/releases/{{release_id}}/approve": "post",
    f"{S}/releases/{{release_id}}/revoke": "post",
    f"{S}/watch/claim": "post",
    f"{S}/watch/finding": "post",
    f"{S}/watch/trials": "post",
    f"{S}/interactions": "post",
    f"{S}/erasures": "post",
    f"{S}/sessions": "get",
    f"{S}/sessions/{{session_id}}": "get",
    f"{S}/signal": "get",
    f"{S}/turns/claim": "post",
    f"{S}/turns/{{turn_id}}/judgment": "post",
    f"{S}/judge/probes": "post",
    f"{S}/batches": "get",
    f"{S}/batches/{{batch_id}}": "get",
    f"{S}/batches/{{batch_id}}/events": "post",
    f"{S}/lines/{{line_id}}": "get",
    f"{S}/batches/claim": "post",
    f"{S}/batches/{{batch_id}}/release": "post",
    f"{S}/batches/{{batch_id}}/restore": "post",
    "/v1/chat/completions": "post",
    "/v1/models": "get",
    "/reef/report": "post",
    "/reef/leases/{lease_id}/release": "post",
    "/reef/leases/{lease_id}/renew": "post",
    "/reef/nodes/{node_id}/reports": "post",
    "/reef/events": "get",
    "/reef/events/stream": "get",
    "/reef/log/checkpoint": "get",
    "/reef/log/tile/{tile}": "get",
    "/reef/log/proof": "get",
    "/reef/log/proof/inclusion": "get",
    "/reef/log/proof/consistency": "get",
    "/reef/trust/keys": "get",
    "/reef/trust/keys/{key_id}/revoke": "post",
    "/reef/trust/root": "get put",
    "/reef/trust/root/{version}": "get",
    "/reef/blobs/{digest}": "get head put",
    "/reef/blobs/{digest}/erase": "post",
    "/healthz": "get",
    "/readyz": "get",
    "/metrics": "get",
}


@pytest.fixture
async def document(standing: Story) -> dict[str, Any]:
    response = await standing.http.get("/schema/openapi.json")
    assert response.status_code == 200
    found: dict[str, Any] = response.json()
    return found


async def test_every_route_is_described(document: dict[str, Any]) -> None:
    described = {path: " ".join(sorted(item)) for path, item in document["paths"].items()}
    assert described == ROUTES
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert operation["summary"], (path, method)
            assert operation["description"], (path, method)


async def test_every_error_is_described_as_a_problem(document: dict[str, Any]) -> None:
    problem = document["components"]["schemas"]["Problem"]
    assert set(problem["properties"]) == {
        "type",
        "title",
        "status",
        "detail",
        "next_step",
        "reasons",
    }
    for path, item in document["paths"].items():
        for method, operation in item.items():
            errors = {
                status: response
                for status, response in operation["responses"].items()
                if status.startswith("4") or status == "default"
            }
            assert errors or path in ("/healthz", "/readyz", "/metrics"), (path, method)
            for status, response in errors.items():
                content = response["content"]
                assert set(content) == {"application/problem+json"}, (path, method, status)
                schema = content["application/problem+json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/Problem"}, (path, method, status)


async def test_every_request_with_a_body_describes_it(document: dict[str, Any]) -> None:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            bare = ("/renew", "/resume", "/{lease_id}/release")
            bodiless = method in ("get", "head") or path.endswith(bare)
            assert bodiless or operation["requestBody"]["content"], (path, method)


async def test_an_interaction_is_described_as_json_and_as_json_lines(
    document: dict[str, Any],
) -> None:
    operation = document["paths"][f"{S}/interactions"]["post"]
    content = operation["requestBody"]["content"]
    assert set(content) == {"application/json", "application/x-ndjson"}
    for each in content.values():
        schema = each["schema"]
        assert set(schema["properties"]) == set(InteractionRequest.__struct_fields__)
        assert schema["required"] == ["messages"]
        assert schema["additionalProperties"] is False
        assert all(field["description"] for field in schema["properties"].values())
    (lines,) = operation["responses"]["200"]["content"].items()
    assert lines == (
        "application/x-ndjson",
        {"schema": {"$ref": "#/components/schemas/LineOutcome"}},
    )
    assert "notes" in document["components"]["schemas"]["Receipt"]["properties"]


async def test_parameters_and_the_token_are_described(document: dict[str, Any]) -> None:
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    assert document["security"] == [{"bearer": []}]
    current = document["paths"][f"{S}/current"]["get"]
    assert {parameter["name"] for parameter in current["parameters"]} == {
        "scenario",
        "channel",
        "wait",
    }
    events = document["paths"]["/reef/events"]["get"]
    assert {parameter["name"] for parameter in events["parameters"]} == {
        "after",
        "limit",
        "scenario",
        "type",
    }
    for path in ("/healthz", "/readyz", "/metrics", "/reef/trust/root"):
        assert document["paths"][path]["get"]["security"] == [{}], path


async def test_the_description_is_served_without_anything_from_elsewhere(standing: Story) -> None:
    for path in ("/schema", "/schema/openapi.json"):
        response = await standing.http.get(path)
        assert response.headers["content-type"].startswith("application/vnd.oai.openapi+json")
    for path in ("/schema/swagger", "/schema/redoc", "/schema/elements"):
        assert (await standing.http.get(path)).status_code == 404
