"""Tokens where they do not belong, and what they must not read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial

from reef_release import wire
from reef_release.artifacts.blobs import SALT_BYTES
from reef_release.client import ReefClient
from reef_release.domain.canonical import canonical_json, sha256_hex
from reef_release.domain.events import FileEntry
from reef_release.drill.attack import Access, Attack, Outcome, Seen, Stop, stopped
from reef_release.drill.context import Context
from reef_release.drill.errors import GotThrough
from reef_release.tokens import TokenRole
from reef_release.traffic_wire import InteractionRequest

__all__ = ["ATTACKS"]

_NOBODY = "ab" * 32
_REASON = "an attempt of the drill"
_ANSWERS: tuple[TokenRole, ...] = tuple(role for role in TokenRole if role != TokenRole.AUDIT)
"""Everybody but the auditor must not see the suite."""

_Request = Callable[[ReefClient], object]


def _requests(scenario: str) -> Mapping[str, tuple[TokenRole, _Request]]:
    """What only gate worker, signer, node, auditor and operator may ask for."""
    trial = wire.TrialRequest(slot=0, side="candidate", attempt=0, task_id="x", error="crashed")
    report = wire.NodeReport(scenario=scenario, channel="stable", release_id=None)
    policy = wire.ScenarioRequest(name="mine", schema=_NOBODY, policy={})
    return {
        "claim a gate": (TokenRole.GATE, lambda each: each.claim_gate(scenario, "me")),
        "post a trial": (TokenRole.GATE, lambda each: each.post_trial(scenario, "x", trial)),
        "post a decision": (
            TokenRole.GATE,
            lambda each: each.post_decision(
                scenario, "x", wire.DecisionRequest(attestation={}, canary=None)
            ),
        ),
        "hand in a signature": (
            TokenRole.SIGN,
            lambda each: each.post_bundle(scenario, _NOBODY, b"{}"),
        ),
        "report for a node": (TokenRole.SERVE, lambda each: each.report("me", report)),
        "read trials": (TokenRole.AUDIT, lambda each: each.events(type="gate.trial")),
        "read the checkpoint": (TokenRole.AUDIT, lambda each: each.checkpoint()),
        "create a scenario": (TokenRole.OPERATE, lambda each: each.create_scenario(policy)),
        "change the policy": (
            TokenRole.OPERATE,
            lambda each: each.change_policy(scenario, {}, _REASON),
        ),
        "roll back": (
            TokenRole.OPERATE,
            lambda each: each.roll_back(scenario, _NOBODY, _REASON),
        ),
        "hold": (TokenRole.OPERATE, lambda each: each.hold(scenario, _REASON)),
        "resume": (TokenRole.OPERATE, lambda each: each.resume(scenario, _REASON)),
        "revoke a release": (
            TokenRole.OPERATE,
            lambda each: each.revoke_release(scenario, _NOBODY, _REASON),
        ),
        "revoke a candidate": (
            TokenRole.OPERATE,
            lambda each: each.revoke_candidate(scenario, _NOBODY, _REASON),
        ),
    }


def _all_of(
    context: Context, attempts: Mapping[str, Callable[[], object]], code: str
) -> tuple[Seen, ...]:
    """Every attempt must end with *code* at the API; otherwise the first that did not is named."""
    seen = []
    for words, act in attempts.items():
        try:
            seen.append(stopped(context, act, "api", code))
        except GotThrough as error:
            raise GotThrough(f"{words}: {error.detail}") from error
    return tuple(seen)


def _trainer(context: Context) -> Outcome:
    client = context.client(TokenRole.TRAIN)
    requests = _requests(context.scenario)
    seen = _all_of(
        context,
        {words: partial(ask, client) for words, (_, ask) in requests.items()},
        "forbidden",
    )
    context.client(TokenRole.AUDIT).checkpoint()
    return Outcome(seen=seen, twin=f"{len(requests)} requests; the auditor reads the checkpoint")


def _another_scenario(context: Context) -> Outcome:
    elsewhere = context.client(TokenRole.GATE, "elsewhere")
    requests = _requests(context.scenario)
    gates = {
        words: partial(ask, elsewhere)
        for words, (role, ask) in requests.items()
        if role is TokenRole.GATE
    }
    seen = _all_of(context, gates, "forbidden")
    own = context.client(TokenRole.GATE, context.scenario)
    return Outcome(seen=seen, twin=f"its own token sees {own.scenario(context.scenario).name}")


def _altered(context: Context) -> Outcome:
    """A trainer's token that says operate, and one with another signature."""
    token = context.token(TokenRole.TRAIN)
    claims, _, mac = token.removeprefix("reef_").partition(".")
    swapped = "A" if mac[0] != "A" else "B"
    others = {
        "another signature": f"reef_{claims}.{swapped}{mac[1:]}",
        "without signature": f"reef_{claims}.",
        "another role": f"reef_{claims[:-4]}AAAA.{mac}",
        "no token": "",
    }
    with ExitStack() as closing:
        attempts = {}
        for words, other in others.items():
            client = closing.enter_context(ReefClient(context.url, other or None))
            attempts[words] = partial(client.scenario, context.scenario)
        seen = _all_of(context, attempts, "unauthorized")
    view = context.client(TokenRole.TRAIN).scenario(context.scenario)
    return Outcome(seen=seen, twin=f"the token itself sees {view.name}")


def _suite(context: Context) -> Outcome:
    digest = str(context.view().policy["suite"])
    attempts: dict[str, Callable[[], object]] = {}
    for role in _ANSWERS:
        if context.has(role):
            client = context.client(role)
            attempts[f"{role} reads the suite"] = partial(client.read_blob, digest, 1 << 26)
    for role in (TokenRole.INGEST, TokenRole.TRAIN, TokenRole.JUDGE):
        if context.has(role):
            client = context.client(role)
            attempts[f"{role} reads trials"] = partial(client.events, type="gate.trial")
            attempts[f"{role} reads the log"] = client.events
    seen = _all_of(context, attempts, "forbidden")
    suite = context.client(TokenRole.AUDIT).read_blob(digest, 1 << 26)
    listed = wire.CandidateManifest(
        files=[
            FileEntry(path="config.json", sha256=digest, size_bytes=len(suite)),
        ],
        base=context.serving(),
        parent=context.serving(),
    )
    trainer = context.client(TokenRole.TRAIN)
    seen += (
        stopped(context, lambda: trainer.submit(context.scenario, listed), "api", "secret-blob"),
    )
    return Outcome(seen=seen, twin=f"the auditor reads {len(suite)} bytes of it")


def _guessed(context: Context) -> Outcome:
    """Two calls with the same short text: neither digest is one that follows from the text."""
    client = context.client(TokenRole.INGEST)
    words = [{"role": "user", "content": "yes"}]
    positions = [
        client.record(
            context.scenario,
            InteractionRequest(messages=words, reply={"role": "assistant", "content": "no"}),
        ).position
        for _ in range(2)
    ]
    digests = []
    for position in positions:
        event = context.at(position)
        digests.append(str(getattr(event.data, "body", "")) if event else "")
    auditor = context.client(TokenRole.AUDIT)
    blob = auditor.read_blob(digests[0], 1 << 20)
    body = blob[SALT_BYTES:]
    guesses = ("yes", '"yes"', json.dumps(words), json.dumps({"messages": words}))
    guessed = {sha256_hex(each.encode()) for each in guesses} | {
        sha256_hex(canonical_json(words)),
        sha256_hex(body),
    }
    if digests[0] == digests[1] or set(digests) & guessed:
        raise GotThrough("The digest in the log follows from the text.")
    if hashlib.sha256(blob).hexdigest() != digests[0]:
        raise GotThrough("The stored body has another digest than the log says.")
    seen = Seen(by="salt", code="unguessable", event="interaction.recorded", position=positions[0])
    return Outcome(seen=(seen,), twin="with its salt, the body has the digest in the log")


_READ = frozenset({TokenRole.AUDIT, TokenRole.TRAIN})
_FORBIDDEN = (Stop(by="api", code="forbidden"),)

ATTACKS = (
    Attack(
        name="trainer-on-the-routes-of-others",
        rows=(50,),
        tries="a trainer's token on every route of gate worker, signer, node, auditor and operator",
        stops=_FORBIDDEN,
        run=_trainer,
        roles=_READ,
        quick=True,
    ),
    Attack(
        name="gate-token-of-another-scenario",
        rows=(50,),
        tries="a gate token that is for another scenario",
        stops=_FORBIDDEN,
        run=_another_scenario,
        needs=frozenset({Access.KEYS}),
    ),
    Attack(
        name="altered-token",
        rows=(50,),
        tries="a token with another role, another signature, and none",
        stops=(Stop(by="api", code="unauthorized"),),
        run=_altered,
        roles=_READ,
        quick=True,
    ),
    Attack(
        name="suite-by-every-route",
        rows=(61,),
        tries="reading the suite as a blob, in the log, and as a file of one's own candidate",
        stops=(Stop(by="api", code="forbidden"), Stop(by="api", code="secret-blob")),
        run=_suite,
        roles=_READ,
        quick=True,
    ),
    Attack(
        name="text-guessed-from-its-digest",
        rows=(62,),
        tries="finding out by its digest in the log whether a user wrote `yes`",
        stops=(Stop(by="salt", code="unguessable", events=("interaction.recorded",)),),
        run=_guessed,
        needs=frozenset({Access.TRAFFIC}),
    ),
)
