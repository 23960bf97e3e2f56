"""Who may do what: every route, every role; and what stays the auditor's alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

import pytest

from reef_release.api.app import create_app
from reef_release.domain.canonical import sha256_hex
from reef_release.tokens import Principal, TokenRole, Tokens
from reef_release.web.pages import PAGES
from tests.integration.api.story import Problem, Story, model_files

pytestmark = pytest.mark.anyio

ALL = "ingest judge train gate sign serve audit approve operate"
LOG = "audit gate operate serve"
PROOF = f"{LOG} train"
BLOB = "audit gate operate serve sign train"
TRAINING = "train audit operate"
SESSION = "audit ingest judge operate"
CANDIDATE = "approve audit gate operate sign train"
ACCOUNT = "approve audit operate train"
PUBLIC = ""
API = ("/reef", "/v1", "/healthz", "/readyz", "/metrics")
"""Where its paths begin; those of the pages begin otherwise."""
SCENARIO = "/reef/scenarios/{scenario:str}"
S = "/reef/scenarios/homework"
NO_BLOB = "0" * 64


class Route(NamedTuple):
    """A route, a path of it on which nobody changes anything, and who may use it."""

    template: str
    method: str
    path: str
    roles: str


ROUTES = [
    Route("/healthz", "GET", "/healthz", PUBLIC),
    Route("/readyz", "GET", "/readyz", PUBLIC),
    Route("/metrics", "GET", "/metrics", PUBLIC),
    Route("/reef/trust/root", "GET", "/reef/trust/root", PUBLIC),
    Route("/reef/trust/root/{version:int}", "GET", "/reef/trust/root/1", PUBLIC),
    Route("/reef/trust/root", "PUT", "/reef/trust/root", "operate"),
    Route("/reef/trust/keys", "GET", "/reef/trust/keys", ALL),
    Route(
        "/reef/trust/keys/{key_id:str}/revoke", "POST", "/reef/trust/keys/none/revoke", "operate"
    ),
    Route("/reef/scenarios", "GET", "/reef/scenarios", ALL),
    Route("/reef/scenarios", "POST", "/reef/scenarios", "operate"),
    Route("/reef/scenarios/{scenario:str}", "GET", S, ALL),
    Route(f"{SCENARIO}/account", "GET", f"{S}/account", ACCOUNT),
    Route(
        f"{SCENARIO}/candidates/{{candidate_id:str}}/account",
        "GET",
        f"{S}/candidates/nobody/account",
        ACCOUNT,
    ),
    Route("/reef/scenarios/{scenario:str}/policy", "PUT", f"{S}/policy", "operate"),
    Route("/reef/scenarios/{scenario:str}/rollback", "POST", f"{S}/rollback", "operate"),
    Route("/reef/scenarios/{scenario:str}/hold", "POST", f"{S}/hold", "operate"),
    Route("/reef/scenarios/{scenario:str}/resume", "POST", f"{S}/resume", "operate"),
    Route("/reef/scenarios/{scenario:str}/current", "GET", f"{S}/current", ALL),
    Route("/reef/scenarios/{scenario:str}/candidates", "GET", f"{S}/candidates", CANDIDATE),
    Route("/reef/scenarios/{scenario:str}/candidates", "POST", f"{S}/candidates", "train operate"),
    Route(
        "/reef/scenarios/{scenario:str}/candidates/{candidate_id:str}",
        "GET",
        f"{S}/candidates/nobody",
        CANDIDATE,
    ),
    Route(
        "/reef/scenarios/{scenario:str}/candidates/{candidate_id:str}/revoke",
        "POST",
        f"{S}/candidates/nobody/revoke",
        "operate",
    ),
    Route(
        "/reef/scenarios/{scenario:str}/batches/{batch_id:str}/restore",
        "POST",
        f"{S}/batches/none/restore",
        "operate",
    ),
    Route("/reef/scenarios/{scenario:str}/gates/claim", "POST", f"{S}/gates/claim", "gate"),
    Route(
        "/reef/scenarios/{scenario:str}/gates/{gate_id:str}/trials",
        "POST",
        f"{S}/gates/none/trials",
        "gate",
    ),
    Route(
        "/reef/scenarios/{scenario:str}/gates/{gate_id:str}/decision",
        "POST",
        f"{S}/gates/none/decision",
        "gate",
    ),
    Route("/reef/leases/{lease_id:str}/release", "POST", "/reef/leases/none/release", "gate"),
    Route(
        "/reef/leases/{lease_id:str}/renew", "POST", "/reef/leases/none/renew", "gate judge train"
    ),
    Route("/reef/scenarios/{scenario:str}/releases", "GET", f"{S}/releases", BLOB),
    Route(
        "/reef/scenarios/{scenario:str}/releases/{release_id:str}",
        "GET",
        f"{S}/releases/none",
        BLOB,
    ),
    Route(
        "/reef/scenarios/{scenario:str}/releases/{release_id:str}/bundle",
        "GET",
        f"{S}/releases/none/bundle",
        BLOB,
    ),
    Route(
        "/reef/scenarios/{scenario:str}/releases/{release_id:str}/bundle",
        "POST",
        f"{S}/releases/none/bundle",
        "sign",
    ),
    Route(
        "/reef/scenarios/{scenario:str}/releases/{release_id:str}/attestation",
        "GET",
        f"{S}/releases/none/attestation",
        BLOB,
    ),
    Route(
        "/reef/scenarios/{scenario:str}/releases/{release_id:str}/files/{path:str}",
        "GET",
        f"{S}/releases/none/files/config.json",
        BLOB,
    ),
    Route(
        "/reef/scenarios/{scenario:str}/releases/{release_id:str}/revoke",
        "POST",
        f"{S}/releases/none/revoke",
        "operate",
    ),
    Route(
        f"{SCENARIO}/releases/{{release_id:str}}/approve",
        "POST",
        f"{S}/releases/none/approve",
        "approve operate",
    ),
    Route(f"{SCENARIO}/watch/claim", "POST", f"{S}/watch/claim", "gate"),
    Route(f"{SCENARIO}/watch/trials", "POST", f"{S}/watch/trials", "gate"),
    Route(f"{SCENARIO}/watch/finding", "POST", f"{S}/watch/finding", "gate"),
    Route("/reef/nodes/{node_id:str}/reports", "POST", "/reef/nodes/n1/reports", "serve"),
    Route(f"{SCENARIO}/interactions", "POST", f"{S}/interactions", "ingest"),
    Route(f"{SCENARIO}/turns/claim", "POST", f"{S}/turns/claim", "judge"),
    Route(
        f"{SCENARIO}/turns/{{turn_id:str}}/judgment", "POST", f"{S}/turns/none/judgment", "judge"
    ),
    Route(f"{SCENARIO}/judge/probes", "POST", f"{S}/judge/probes", "judge"),
    Route(f"{SCENARIO}/batches", "GET", f"{S}/batches", TRAINING),
    Route(f"{SCENARIO}/batches/{{batch_id:str}}", "GET", f"{S}/batches/none", TRAINING),
    Route(f"{SCENARIO}/lines/{{line_id:str}}", "GET", f"{S}/lines/none", TRAINING),
    Route(
        f"{SCENARIO}/batches/{{batch_id:str}}/events", "POST", f"{S}/batches/none/events", "train"
    ),
    Route(f"{SCENARIO}/batches/claim", "POST", f"{S}/batches/claim", "train"),
    Route(
        f"{SCENARIO}/batches/{{batch_id:str}}/release", "POST", f"{S}/batches/none/release", "train"
    ),
    Route("/reef/report", "POST", "/reef/report", "ingest"),
    Route("/v1/chat/completions", "POST", "/v1/chat/completions", "ingest"),
    Route("/v1/models", "GET", "/v1/models", "ingest"),
    Route(f"{SCENARIO}/signal", "GET", f"{S}/signal", ALL),
    Route(f"{SCENARIO}/sessions", "GET", f"{S}/sessions", SESSION),
    Route(f"{SCENARIO}/sessions/{{session_id:str}}", "GET", f"{S}/sessions/none", SESSION),
    Route("/reef/events", "GET", "/reef/events", LOG),
    Route("/reef/events/stream", "GET", "/reef/events/stream?after=no-number", LOG),
    Route("/reef/log/checkpoint", "GET", "/reef/log/checkpoint", LOG),
    Route("/reef/log/tile/{tile:path}", "GET", "/reef/log/tile/0/000.p/1", LOG),
    Route("/reef/log/proof", "GET", "/reef/log/proof?position=0", PROOF),
    Route("/reef/log/proof/inclusion", "GET", "/reef/log/proof/inclusion?position=0", PROOF),
    Route("/reef/log/proof/consistency", "GET", "/reef/log/proof/consistency?from=1", PROOF),
    Route("/reef/blobs/{digest:str}", "GET", f"/reef/blobs/{NO_BLOB}", BLOB),
    Route("/reef/blobs/{digest:str}", "HEAD", f"/reef/blobs/{NO_BLOB}", BLOB),
    Route("/reef/blobs/{digest:str}", "PUT", "/reef/blobs/no-digest", "train gate operate"),
    Route("/reef/blobs/{digest:str}/erase", "POST", f"/reef/blobs/{NO_BLOB}/erase", "operate"),
    Route("/reef/scenarios/{scenario:str}/erasures", "POST", f"{S}/erasures", "operate"),
]
ids = [f"{route.method} {route.template}" for route in ROUTES]


async def test_the_table_of_roles_has_every_route(standing: Story) -> None:
    assert standing.service is not None
    app = create_app(standing.service, PAGES)
    served = {
        (route.path, method)
        for route in app.routes
        for method in getattr(route, "methods", ())
        if method != "OPTIONS" and route.path.startswith(API)
    }
    assert {(route.template, route.method) for route in ROUTES} == served


@pytest.mark.parametrize("route", ROUTES, ids=ids)
async def test_a_route_admits_the_roles_it_names_and_no_other(
    standing: Story, route: Route
) -> None:
    content = b"{}" if route.method in ("POST", "PUT") else None
    answers = {
        str(role): (await standing.ask(role, route.method, route.path, content=content)).status_code
        for role in TokenRole
    }
    admitted = {role for role, status in answers.items() if status not in (401, 403)}
    assert admitted == set((route.roles or ALL).split()), answers
    # No upstream is set here, and that is what the one forwarding route without a body says.
    away = {503} if route.path == "/v1/models" else set()
    assert all(status < 500 or status in away for status in answers.values())

    without = await standing.ask(None, route.method, route.path, content=content)
    if route.roles:
        assert without.status_code == 401
        assert without.headers["www-authenticate"] == "Bearer"
        if route.method != "HEAD" and route.roles != ALL:
            said = without.json()["next_step"]
            assert "Use a token of role" in said
            assert set(route.roles.split()) <= set(said.rstrip(".").split()), said
    else:
        assert without.status_code == 200


@pytest.mark.parametrize("route", [each for each in ROUTES if S in each.path])
async def test_a_token_of_another_scenario_is_refused_wherever_the_path_names_one(
    standing: Story, route: Route
) -> None:
    role = route.roles.split()[-1]
    content = b"{}" if route.method in ("POST", "PUT") else None
    for scenario, refused in (("other", True), ("homework", False)):
        token = standing.site.token(role, scenario)
        headers = {"Authorization": f"Bearer {token}"}
        response = await standing.ask(
            None, route.method, route.path, headers=headers, content=content
        )
        assert (response.status_code == 403) is refused, response.text


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR"])
async def test_the_scheme_is_known_in_any_case(standing: Story, scheme: str) -> None:
    headers = {"Authorization": f"{scheme} {standing.site.token('audit')}"}
    assert (await standing.ask(None, "GET", "/reef/events", headers=headers)).status_code == 200


def upper(token: str) -> str:
    return token.upper()


def of_other_secret(token: str) -> str:
    del token
    principal = Principal(name="mallory", role=TokenRole.AUDIT)
    return Tokens(b"another secret").issue(principal)


def with_other_claims(token: str) -> str:
    mac = token.rpartition(".")[2]
    claims = Tokens(b"x").issue(Principal(name="mallory", role=TokenRole.OPERATE))
    return claims.rpartition(".")[0] + "." + mac


@pytest.mark.parametrize(
    "spoil",
    [
        upper,
        of_other_secret,
        with_other_claims,
        lambda token: token[:-1],
        lambda token: token + "A",
        lambda token: token.removeprefix("reef_"),
        lambda token: token.partition(".")[0],
        lambda token: token + " " + token,
        lambda token: "",
        lambda token: "reef_.",
        lambda token: "\xff\xfe",
        lambda token: "reef_" + "A" * 5000,
    ],
)
async def test_a_wrong_token_stays_401(standing: Story, spoil: Callable[[str], str]) -> None:
    token = spoil(standing.site.token("audit")).encode("latin-1")
    headers = {b"Authorization": b"Bearer " + token}
    response = await standing.http.get("/reef/events", headers=headers)
    assert response.status_code == 401
    assert response.json()["type"] == "urn:reef-release:problem:unauthorized"


@pytest.mark.parametrize("header", ["Basic abc", "Bearer", "reef_abc", "Token {}", "Bearer{}"])
async def test_a_token_in_another_scheme_is_no_token(standing: Story, header: str) -> None:
    headers = {"Authorization": header.format(standing.site.token("audit"))}
    response = await standing.ask(None, "GET", "/reef/events", headers=headers)
    assert response.status_code == 401


# Tokens for one scenario, where the path names none


async def test_a_token_for_one_scenario_lists_that_one_alone(story: Story) -> None:
    other = Story(site=story.site, http=story.http, scenario="other")
    await other.create_scenario()
    seen = {}
    for scenario in (None, "homework", "other", "third"):
        headers = {"Authorization": f"Bearer {story.site.token('audit', scenario)}"}
        view = (await story.ask(None, "GET", "/reef/scenarios", headers=headers)).json()
        seen[scenario] = [each["name"] for each in view["scenarios"]]
    assert seen == {
        None: ["homework", "other"],
        "homework": ["homework"],
        "other": ["other"],
        "third": [],
    }


async def test_a_token_for_one_scenario_reads_its_events_and_the_global_ones(story: Story) -> None:
    other = Story(site=story.site, http=story.http, scenario="other")
    await other.create_scenario()
    headers = {"Authorization": f"Bearer {story.site.token('serve', 'homework')}"}

    async def scenarios(**params: str) -> set[str]:
        response = await story.ask(None, "GET", "/reef/events", headers=headers, params=params)
        assert response.status_code == 200, response.text
        return {event["scenario"] for event in response.json()["events"]}

    assert await scenarios() == {"homework"}
    assert await scenarios(scenario="homework") == {"homework"}
    assert await scenarios(scenario="_") == {"_"}
    for path in ("/reef/events?scenario=other", "/reef/events/stream?scenario=other"):
        response = await story.ask(None, "GET", path, headers=headers)
        assert response.status_code == 403
    tile = await story.ask(None, "GET", "/reef/log/tile/entries/000.p/1", headers=headers)
    assert tile.status_code == 403
    tile = await story.ask(None, "GET", "/reef/log/tile/0/000.p/1", headers=headers)
    assert tile.status_code == 200


async def test_a_token_for_one_scenario_creates_and_reports_in_that_one_alone(story: Story) -> None:
    for scenario, status in (("fresh", 403), ("homework", 409)):
        headers = {"Authorization": f"Bearer {story.site.token('operate', 'homework')}"}
        schema = await story.put_blob(story.site.model_schema())
        body = {"name": scenario, "schema": schema, "policy": story.signed_policy()}
        response = await story.ask(None, "POST", "/reef/scenarios", headers=headers, json=body)
        assert response.status_code == status, response.text
    report = {"channel": "stable", "release_id": None, "reasons": [{"code": "x", "message": "y"}]}
    for scenario, status in (("other", 403), ("homework", 201)):
        headers = {"Authorization": f"Bearer {story.site.token('serve', scenario)}"}
        response = await story.ask(
            None,
            "POST",
            "/reef/nodes/n1/reports",
            headers=headers,
            json={**report, "scenario": "homework"},
        )
        assert response.status_code == status, response.text


# What the gate keeps


def blob(digest: str) -> str:
    return f"/reef/blobs/{digest}"


async def test_suites_and_replies_are_the_auditors_alone(standing: Story) -> None:
    suite = sha256_hex(standing.suite)
    trials = await standing.events(type="gate.trial")
    secret = [suite, *(trial["data"]["body"] for trial in trials)]
    assert len(secret) > 2
    for digest in secret:
        for role in TokenRole:
            response = await standing.ask(role, "GET", blob(digest))
            assert (response.status_code == 200) is (role is TokenRole.AUDIT), role
            ranged = await standing.ask(role, "GET", blob(digest), headers={"Range": "bytes=0-9"})
            assert (ranged.status_code == 206) is (role is TokenRole.AUDIT), role
    weights = (await standing.get("audit", standing.path("candidates")))["candidates"][0]["files"]
    for role in BLOB.split():
        assert (await standing.ask(role, "GET", blob(weights[0]["sha256"]))).status_code == 200


async def test_an_auditor_of_one_scenario_reads_the_gate_material_of_that_one_alone(
    standing: Story,
) -> None:
    suite = sha256_hex(standing.suite)
    for scenario, status in (("homework", 200), ("other", 403), (None, 200)):
        headers = {"Authorization": f"Bearer {standing.site.token('audit', scenario)}"}
        response = await standing.ask(None, "GET", blob(suite), headers=headers)
        assert response.status_code == status, scenario


async def test_weights_are_for_tokens_of_their_scenario(standing: Story) -> None:
    files = (await standing.get("audit", standing.path("candidates")))["candidates"][0]["files"]
    for scenario, status in (("homework", 200), ("other", 403), (None, 200)):
        headers = {"Authorization": f"Bearer {standing.site.token('serve', scenario)}"}
        response = await standing.ask(None, "GET", blob(files[0]["sha256"]), headers=headers)
        assert response.status_code == status, scenario


async def test_what_no_event_names_is_not_served_to_its_uploader_either(standing: Story) -> None:
    digest = await standing.put_blob(b"a stray blob", "train")
    assert (await standing.ask("train", "GET", blob(digest))).status_code == 403
    assert (await standing.ask("audit", "GET", blob(digest))).status_code == 200


async def test_a_candidate_that_lists_the_suite_among_its_files_is_refused(story: Story) -> None:
    files = {**model_files(1), "README.md": story.suite}
    manifest = await story.manifest(files)
    with pytest.raises(Problem) as refused:
        await story.post("operate", story.path("candidates"), manifest)
    assert refused.value.codes == ["secret-blob"]
    assert await story.events(type="candidate.submitted") == []

    manifest = await story.manifest({**model_files(1), "README.md": b"a model of mine"})
    view = await story.post("operate", story.path("candidates"), manifest)
    assert view["status"] == "admitted"


async def test_a_suite_stays_closed_when_a_candidate_listed_it_before_it_was_one(
    story: Story,
) -> None:
    suite = story.suite + b"\n"
    files = {**model_files(1), "README.md": suite}
    candidate = await story.submit(files)
    digest = sha256_hex(suite)
    assert (await story.ask("train", "GET", blob(digest))).status_code == 200

    body = {"policy": story.signed_policy(suite=digest), "reason": "another suite"}
    response = await story.ask("operate", "PUT", story.path("policy"), json=body)
    assert response.status_code == 200, response.text
    assert (await story.ask("train", "GET", blob(digest))).status_code == 403

    story.suite = suite
    await story.gate()
    identity = candidate["candidate_id"]
    await story.sign(identity)
    for path, status in (("README.md", 403), ("config.json", 200)):
        route = story.path("releases", identity, "files", path)
        assert (await story.ask("serve", "GET", route)).status_code == status


async def test_neither_events_nor_assignments_carry_answers_and_events_no_questions(
    standing: Story,
) -> None:
    events = json.dumps(await standing.events())
    claimed = await standing.ask(
        "gate", "POST", standing.path("gates", "claim"), json={"worker": "gate-1"}
    )
    assert claimed.status_code == 200
    assert "What is 7 + 2?" in standing.suite.decode()
    questions = [json.loads(line)["question"] for line in standing.suite.splitlines()]
    canary = "What is 2 + 2?"  # the policy itself names it
    assert not [text for text in questions if text in events and text != canary]
    assert "The answer is" not in events
    tasks = claimed.json()["tasks"]
    assert tasks
    assert all(task.keys() == {"slot", "task_id", "question", "sampling_seed"} for task in tasks)
    assert '"answer"' not in claimed.text
