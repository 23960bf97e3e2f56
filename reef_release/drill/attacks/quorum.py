"""One lying gate worker where the policy asks for two: also under a second token or key."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import httpx

from reef_release.audit.replay import replay
from reef_release.client import ReefClient
from reef_release.domain.canonical import sha256_hex
from reef_release.domain.events import ReleasePromoted, ReleaseSigned
from reef_release.drill.attack import Access, Attack, Outcome, Seen, Stop, stopped
from reef_release.drill.context import CHANNEL, Context
from reef_release.drill.errors import GotThrough
from reef_release.drill.exports import exported
from reef_release.drill.gating import (
    WORKER,
    GateInHand,
    claimed,
    gate_in_hand,
    rejected,
    served_passed,
)
from reef_release.drill.lying import document, honest, refused, target
from reef_release.drill.sql import append
from reef_release.drill.stage import fresh, stage
from reef_release.signing.keys import Role, create_key
from reef_release.signing.weights import sign_bundle
from reef_release.tokens import TOKEN_SECRET, Principal, TokenRole, Tokens, load_secret

__all__ = ["ATTACKS"]

_STAGE = "drill-quorum"
_SECOND = "gate-2"


def _run(context: Context) -> Outcome:
    """Made-up right replies, twice; then a release of them by all other keys there are."""
    name = stage(context, _STAGE, origin=False, gate_quorum=2, max_attempts=3)
    files = fresh(context, "better")
    digests = {path: sha256_hex(content) for path, content in files.items()}
    bundle = sign_bundle(digests, context.key(Role.RELEASE))
    with gate_in_hand(context, files, scenario=name, role=TokenRole.OPERATE) as held:
        signer = context.client(TokenRole.SIGN)
        sign = partial(signer.post_bundle, name, held.candidate, bundle)
        _make_up(held)
        held.decide()
        seen = [stopped(context, sign, "service", "too-few-workers")]
        _none_for(held.client, name, WORKER, None)
        with _second_token(context) as second:
            _none_for(second, name, _SECOND, context.key(Role.GATE).key_id)
            # Who keeps quiet about his key gets the gate, and has to sign in the end.
            again = claimed(context, name, second, _SECOND)
            _make_up(again)
            own_key = again.decision(key=create_key(Role.GATE))
            seen += rejected(again, {"a key of his own": own_key}, "no-trusted-key")
            again.decide()
        stopped(context, sign, "service", "too-few-workers")
        position = _forged(context, again, bundle)
        seen.append(_without_effect(context, name, position))
        seen.append(_audited(context, position))
        seen.append(_shown(context, again, bundle, position))
    return Outcome(seen=tuple(seen), twin=served_passed(context))


def _make_up(held: GateInHand) -> None:
    """Right replies to all tasks, which no weights gave. Raises `GotThrough` if that is no pass."""
    while held.due is not None:
        held.post(held.trial(f"The answer is {held.answer(held.due)}."))
    if held.gate.verdict_due() != "passed":
        raise GotThrough("The made-up replies did not pass, so nothing is shown.")


def _none_for(client: ReefClient, scenario: str, worker: str, key_id: str | None) -> None:
    """That the service gives this worker no gate. Raises `GotThrough`."""
    if client.claim_gate(scenario, worker, key_id) is not None:
        raise GotThrough(f"{worker} was given the candidate that its own key or token passed.")


@contextmanager
def _second_token(context: Context) -> Iterator[ReefClient]:
    """Another gate worker's token, in the same hands."""
    tokens = Tokens(load_secret(context.stack.keys / TOKEN_SECRET))
    token = tokens.issue(Principal(name=_SECOND, role=TokenRole.GATE))
    with ReefClient(context.url, token, timeout_s=120) as client:
        yield client


def _forged(context: Context, held: GateInHand, bundle: bytes) -> int:
    """Signature and promotion past the service; where the promotion stands."""
    signed = ReleaseSigned(
        release_id=held.candidate,
        gate_id=held.gate_id,
        key_id=context.key(Role.RELEASE).key_id,
        bundle=sha256_hex(bundle),
    )
    promoted = ReleasePromoted(
        release_id=held.candidate, gate_id=held.gate_id, base=None, channel=CHANNEL
    )
    return append(context, held.scenario, signed, promoted)[-1]


def _without_effect(context: Context, name: str, position: int) -> Seen:
    context.until(partial(context.view, name), lambda view: view.position >= position)
    if (serves := context.serving(name)) is not None:
        raise GotThrough(f"The passes of one worker were enough: {serves} is served.")
    return Seen(by="fold", code="no-effect", event="release.promoted", position=position)


def _audited(context: Context, position: int) -> Seen:
    with exported(context) as folder:
        report = replay(folder, context.anchor)
    found = {each.code for each in report.problems if each.position == position}
    if "too-few-workers" not in found:
        raise GotThrough(f"The audit says {sorted(found)} of the promotion, not too-few-workers.")
    return Seen(by="audit", code="too-few-workers", event="release.promoted", position=position)


def _shown(context: Context, held: GateInHand, bundle: bytes, position: int) -> Seen:
    """That a node refuses the promotion when the stolen pointer key signs a document for it."""
    newest = context.until(
        partial(honest, context), lambda found: int(found.checkpoint.split("\n")[1]) > position
    )
    attestation = json.loads(
        context.client(TokenRole.AUDIT).attestation(held.scenario, held.candidate)
    )
    with target(context, scenario=held.scenario, fresh=True) as node:
        node.answers["/bundle"] = lambda _request: httpx.Response(200, content=bundle)
        node.lie(
            document(
                context,
                base=newest,
                scenario=held.scenario,
                release_id=held.candidate,
                pointer_position=position,
                gate_digest=sha256_hex(base64.b64decode(attestation["payload"])),
            )
        )
        return refused(node, "too-few-workers")


ATTACKS = (
    Attack(
        name="one-gate-worker-of-two",
        rows=(56, 57),
        tries="right replies that the candidate never gave, by one gate worker where the policy "
        "asks for two: again by the same token, by a second token, by a key that no root lists; "
        "then signed and promoted by SQL, and told to a node",
        stops=(
            Stop(by="service", code="too-few-workers"),
            Stop(by="service", code="no-trusted-key"),
            Stop(by="fold", code="no-effect", events=("release.promoted",)),
            Stop(by="audit", code="too-few-workers", events=("release.promoted",)),
            Stop(by="node", code="too-few-workers", events=("node.refused",)),
        ),
        run=_run,
        roles=frozenset({TokenRole.AUDIT, TokenRole.OPERATE, TokenRole.SERVE, TokenRole.SIGN}),
        needs=frozenset(
            {Access.DATABASE, Access.ENGINE, Access.KEYS, Access.MODELS, Access.PROCESSES}
        ),
    ),
)
