"""The project's own client and signer against a real server: every method, once, in one story."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import pytest

from reef_release import wire
from reef_release.client import ReefClient
from reef_release.domain.canonical import parse_json
from reef_release.domain.merkle import leaf_hash, verify_consistency, verify_inclusion
from reef_release.errors import Conflict, Forbidden, NotFound, Refused, Unauthorized
from reef_release.signer.run import Signer
from reef_release.signing.keys import Role
from reef_release.signing.note import open_checkpoint
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import Site, known_gate, model_files


class Roles:
    """A client per role."""

    def __init__(self, site: Site, url: str) -> None:
        self.site = site
        self.url = url

    def __getitem__(self, role: str) -> ReefClient:
        return ReefClient(self.url, self.site.token(role))


def directory(path: Path, number: int) -> Path:
    path.mkdir()
    for name, content in model_files(number).items():
        (path / name).write_bytes(content)
    return path


def test_a_release_by_the_client_alone(running: ServerProcess, tmp_path: Path) -> None:
    site = running.site
    clients = Roles(site, running.url)
    story = running.story()  # for its documents and replies, not for its requests
    with clients["operate"] as operator:
        schema = operator.put_blob(site.model_schema())
        operator.put_blob(story.suite)
        request = wire.ScenarioRequest(
            name=story.scenario, schema=schema, policy=story.signed_policy()
        )
        view = operator.create_scenario(request)
        assert view.name == story.scenario
        assert [each.name for each in operator.scenarios()] == [story.scenario]
        files = operator.upload_directory(directory(tmp_path / "model", 1))
        assert operator.upload_directory(tmp_path / "model") == files
        manifest = wire.CandidateManifest(files=files)
        candidate = operator.submit(story.scenario, manifest)
        assert candidate.status == "admitted"
        assert operator.submit(story.scenario, manifest) == msgspec.structs.replace(
            candidate, position=operator.candidate(story.scenario, candidate.candidate_id).position
        )

    identity = candidate.candidate_id
    with clients["gate"] as worker:
        assignment = None
        while assignment is None:
            assignment = worker.claim_gate(story.scenario, "gate-1")
        worker.renew_lease(assignment.lease_id)
        due = assignment.due
        gate = None
        while due is not None:
            body = msgspec.convert(story.trial(assignment, due, "+"), wire.TrialRequest)
            due = worker.post_trial(story.scenario, assignment.opened.gate_id, body).due
        again = worker.claim_gate(story.scenario, "gate-1")
        assert again is not None
        gate = known_gate(again)
        canary = worker.put_blob(story.canary())
        decision = story.signed_decision(gate, "passed", canary)
        posted = worker.post_decision(story.scenario, assignment.opened.gate_id, decision)
        assert posted.outcome == "passed"
        with pytest.raises(Conflict):
            worker.post_decision(story.scenario, assignment.opened.gate_id, decision)

    with clients["sign"] as client:
        assert Signer(client, site.key(Role.RELEASE), site.anchor).round() == 1
        assert Signer(client, site.key(Role.RELEASE), site.anchor).round() == 0

    with clients["serve"] as node:
        current = None
        while current is None:
            try:
                current = node.current(story.scenario, wait_s=20)
            except NotFound:
                continue
        assert current.document is not None
        assert node.current(story.scenario, etag=current.etag).document is None
        release = node.release(story.scenario, identity)
        assert [each.release_id for each in node.releases(story.scenario)] == [identity]
        for file in release.files:
            target = tmp_path / f"got-{file.path}"
            node.download_release_file(story.scenario, identity, file, target)
            assert hashlib.sha256(target.read_bytes()).hexdigest() == file.sha256
            node.download_blob(file.sha256, file.size_bytes, tmp_path / f"blob-{file.path}")
        assert parse_json(node.bundle(story.scenario, identity))
        assert parse_json(node.attestation(story.scenario, identity))
        assert node.read_blob(canary, 10_000) == story.canary()
        report = wire.NodeReport(
            scenario=story.scenario,
            channel="stable",
            release_id=identity,
            serial=1,
            canary_difference="0",
        )
        written = node.report("node-1", report)
        with pytest.raises(Forbidden):
            node.read_blob(hashlib.sha256(story.suite).hexdigest(), 10_000)

    with clients["audit"] as auditor:
        page = auditor.events()
        assert page.next_after >= written.position
        checkpoint = auditor.checkpoint()
        key = site.key(Role.LOG).public
        size, root = open_checkpoint(checkpoint, checkpoint.partition("\n")[0], [key])
        inclusion = auditor.inclusion(3, size)
        proof = [bytes.fromhex(each) for each in inclusion.proof]
        assert verify_inclusion(leaf_hash(page.events[3]), 3, size, proof, root)
        consistency = auditor.consistency(size, size)
        assert verify_consistency(
            size, size, list(map(bytes.fromhex, consistency.proof)), root, root
        )
        assert auditor.trust_root() == auditor.trust_root(1) == site.anchor
        assert auditor.candidates(story.scenario, status="promoted")[0].candidate_id == identity
        assert auditor.read_blob(hashlib.sha256(story.suite).hexdigest(), 10_000) == story.suite
        with pytest.raises(Forbidden):
            auditor.hold(story.scenario, "I may not")
        assert auditor.health()
        assert auditor.ready()

    with clients["operate"] as operator:
        assert operator.hold(story.scenario, "a look").position > written.position
        assert operator.resume(story.scenario, "fine").event_id
        operator.change_policy(story.scenario, story.signed_policy(), "the same again")
        with pytest.raises(Refused) as refused:
            operator.roll_back(story.scenario, "0" * 64, "there is none")
        assert refused.value.reasons[0].code == "never-promoted"
        operator.revoke_release(story.scenario, identity, "the end")
        operator.revoke_candidate(story.scenario, identity, "the end")
        assert operator.scenario(story.scenario).channels["stable"].release_id == identity
        with pytest.raises(NotFound):
            operator.scenario("homewrok")
    with ReefClient(running.url, "reef_x.y") as stranger, pytest.raises(Unauthorized):
        stranger.scenarios()
