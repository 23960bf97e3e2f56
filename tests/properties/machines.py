"""The rule's machine on cheap signatures and on real ones, and how to run either."""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from reef_release.errors import SignatureRejected
from reef_release.signing.keys import PublicKey, Role, SigningKey, create_key
from reef_release.signing.note import open_checkpoint
from reef_release.signing.policy import verify_policy
from reef_release.signing.vsa import verify_decision
from reef_release.signing.weights import verify_bundle
from tests.properties.cheap_world import CheapWorld, unverified
from tests.properties.machine import RuleMachine
from tests.properties.oracle import Oracle
from tests.world import ORIGIN, World

__all__ = ["CheapMachine", "RealMachine", "run"]

_LIMIT_BYTES = 1 << 20


def run(
    machine: type[RuleMachine], *, examples: int, commands: int = 100, chosen: bool = True
) -> None:
    """Run *examples* stories of *commands*; the same ones each time unless not *chosen*.

    Nothing is shrunk: a story is long and its last commands tell enough.
    """
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=commands,
            derandomize=chosen,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            print_blob=False,
        ),
    )


def _lines(world: World) -> Any:
    return lambda digest: [
        json.loads(line) for line in world.blobs.read_sync(digest, _LIMIT_BYTES).splitlines()
    ]


def _body(world: World) -> Any:
    return lambda digest: json.loads(world.blobs.read_body_sync(digest, _LIMIT_BYTES))


class CheapMachine(RuleMachine):
    """On signatures that cost nothing."""

    def make_world(self) -> World:
        return CheapWorld()

    def make_key(self, role: Role) -> Any:
        assert isinstance(self.world, CheapWorld)
        return self.world.new_key(role)

    def abused(self, key: Any, role: Role) -> Any | None:
        del role
        return key

    def make_oracle(self, world: World) -> Oracle:
        def opened(envelope: Any) -> tuple[str, Any]:
            envelope = json.loads(envelope) if isinstance(envelope, str) else envelope
            key_id, payload = unverified(envelope)
            return key_id, json.loads(payload)

        def listed_in(metadata: str) -> set[tuple[str, str]]:
            return {(key["role"], key["public_key"]) for key in json.loads(metadata)["keys"]}

        def bundle_of(digest: str) -> tuple[str, str]:
            return unverified(json.loads(world.blobs.read_sync(digest, _LIMIT_BYTES)))

        return Oracle(world.bodies, _body(world), _lines(world), opened, bundle_of, listed_in)


class RealMachine(RuleMachine):
    """On real keys, signatures, files and verifiers."""

    def make_world(self) -> World:
        self.directory = Path(tempfile.mkdtemp(prefix="reef-rule-"))
        return World(self.directory, started=False)

    def teardown(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    def make_key(self, role: Role) -> Any:
        return create_key(role)

    def abused(self, key: Any, role: Role) -> Any | None:
        try:
            return SigningKey(role, key._private)
        except SignatureRejected:
            return None

    def make_oracle(self, world: World) -> Oracle:
        def public(role: Role) -> list[PublicKey]:
            return [key.public for key in self.all_keys if key.role is role]

        def listed_in(metadata: str) -> set[tuple[str, str]]:
            roles = json.loads(metadata)["signed"]["x-reef-roles"]
            return {(role, pem) for role, pems in roles.items() for pem in pems}

        def opened(envelope: Any) -> tuple[str, Any]:
            if isinstance(envelope, str):
                for key in public(Role.LOG):
                    with suppress(SignatureRejected):
                        return key.key_id, open_checkpoint(envelope, ORIGIN, [key])
            if "slsa" in json.dumps(envelope) or "in-toto" in envelope["payloadType"]:
                decision = verify_decision(envelope, public(Role.GATE))
                return decision.key_id, msgspec.to_builtins(decision.decision)
            policy = verify_policy(envelope, public(Role.POLICY))
            return policy.key_id, json.loads(policy.payload)

        def bundle_of(digest: str) -> tuple[str, str]:
            data = world.blobs.read_sync(digest, _LIMIT_BYTES)
            for candidate in world.scenario.candidates:
                try:
                    found = verify_bundle(data, candidate, public(Role.RELEASE))
                except Exception:
                    continue
                return found.key_id, candidate
            raise AssertionError("a bundle over no candidate")

        return Oracle(world.bodies, _body(world), _lines(world), opened, bundle_of, listed_in)
