"""A node under attack: a real one, on the idle engine, with a liar between it and the service.

The liar passes requests on and answers some itself; with stolen keys it signs what it likes. What
the node refuses it reports to the service, so that it stands in the log.
"""

from __future__ import annotations

import base64
import itertools
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import msgspec

from reef_release.client import ReefClient
from reef_release.client.transport import Retry
from reef_release.domain.canonical import canonical_json
from reef_release.drill.attack import Access, Attack, Outcome, Seen, Stop
from reef_release.drill.context import CHANNEL, Context
from reef_release.drill.errors import GotThrough
from reef_release.node.config import NodeConfig
from reef_release.node.engine import Engine
from reef_release.node.node import Node, Standing
from reef_release.node.vault import Vault
from reef_release.signing.current import CurrentDocument, sign_current
from reef_release.signing.keys import Role, SigningKey
from reef_release.tokens import TokenRole

__all__ = [
    "Answer",
    "Target",
    "attack_on_node",
    "document",
    "honest",
    "outcome",
    "refused",
    "refused_when_told",
    "target",
    "truthful",
    "untaken",
]

Answer = Callable[[httpx.Request], httpx.Response]
_NUMBERS = itertools.count(1)
_NODE = "drill-node"


class _Between(httpx.BaseTransport):
    """Answers requests whose path ends like a key of *answers*; the others reach the service."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self._answers = answers
        self._network = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        for ending, answer in self._answers.items():
            if request.url.path.endswith(ending):
                return answer(request)
        return self._network.handle_request(request)

    def close(self) -> None:
        self._network.close()


@dataclass(frozen=True, kw_only=True)
class Target:
    """A node under attack. *answers* may be changed while it runs."""

    context: Context
    scenario: str
    node: Node
    node_id: str
    state: Path
    answers: dict[str, Answer]

    def lie(self, body: bytes) -> None:
        """Hand out *body* as the current document from now on."""
        self.answers["/current"] = lambda _request: httpx.Response(200, content=body)


@contextmanager
def target(
    context: Context,
    *,
    scenario: str | None = None,
    fresh: bool = False,
    engine: Engine | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    witnesses: Path | None = None,
    floor: Path | None = None,
) -> Iterator[Target]:
    """A node that serves what is served, or a *fresh* one that has loaded nothing yet.

    *witnesses* and *floor* are as in `NodeConfig`.
    """
    scenario = scenario or context.scenario
    state = context.directory / "nodes" / str(next(_NUMBERS))
    state.parent.mkdir(exist_ok=True)
    if not fresh:
        shutil.copytree(_seed(context, scenario), state)
    served_by = engine or context.idle_engine()
    with _node(context, scenario, state, served_by, clock, witnesses, floor) as made:
        yield made
    shutil.rmtree(state)


@contextmanager
def _node(
    context: Context,
    scenario: str,
    state: Path,
    engine: Engine,
    clock: Callable[[], datetime],
    witnesses: Path | None = None,
    floor: Path | None = None,
) -> Iterator[Target]:
    anchor = context.directory / "root.json"
    anchor.write_text(context.anchor, "utf-8")
    answers: dict[str, Answer] = {}
    node_id = f"{_NODE}-{state.name}"
    token = context.token(TokenRole.SERVE)
    config = NodeConfig(
        url=context.url,
        scenario=scenario,
        node_id=node_id,
        anchor=anchor,
        origin=context.log_origin,
        state=state,
        token=token,
        witnesses=witnesses,
        floor=floor,
    )
    # One more attempt is enough: a liar lies again.
    retry = Retry(attempts=2, sleep=lambda _seconds: None)
    transport = _Between(answers)
    with (
        ReefClient(context.url, token, retry=retry, transport=transport) as client,
        closing(Vault(state)) as vault,
    ):
        vault.lock()
        yield Target(
            context=context,
            scenario=scenario,
            node=Node(config, client, engine, vault, clock),
            node_id=node_id,
            state=state,
            answers=answers,
        )


def _seed(context: Context, scenario: str) -> Path:
    """The directory of a node that has loaded what is served, told the truth."""
    kept = context.kept.get(f"node/{scenario}")
    if kept is not None and kept[0] == context.serving(scenario):
        return Path(kept[1])
    state = context.directory / "nodes" / f"seed-{next(_NUMBERS)}"
    state.parent.mkdir(exist_ok=True)
    engine = context.idle_engine()
    with _node(context, scenario, state, engine, lambda: datetime.now(UTC)) as made:
        serves = _told(made.node.step())
    context.kept[f"node/{scenario}"] = (serves, str(state))
    return state


def _told(standing: Standing) -> str:
    """The release that a node serves which nothing stood against. Raises `GotThrough`."""
    if standing.reasons or standing.release_id is None:
        raise GotThrough("A node that is told the truth does not move.", reasons=standing.reasons)
    return standing.release_id


def refused(held: Target, code: str, serves: str | None = None) -> Seen:
    """That the node refuses for the reason *code*, goes on with *serves*, and says so.

    *serves* is the release that is served, unless it is a fresh node, which serves nothing.
    """
    before = held.context.head()
    standing = held.node.step()
    codes = {reason.code: reason for reason in standing.reasons}
    if code not in codes:
        told = ", ".join(sorted(codes)) or "nothing"
        raise GotThrough(f"The node had {told} against it, and not {code}.")
    if standing.release_id != serves:
        raise GotThrough(f"The node serves {standing.release_id} now, not {serves}.")
    event = "node.refused"
    position = held.context.event(event, after=before, scenario=held.scenario, node_id=held.node_id)
    return Seen(by="node", code=code, event=event, position=position, words=str(codes[code]))


def untaken(held: Target, code: str, serves: str | None = None) -> Seen:
    """As `refused`, and of the document nothing may be remembered.

    A node says of an old document that it took also that it has expired; that is no refusal.
    """
    before = held.node.memory
    seen = refused(held, code, serves)
    if held.node.memory != before:
        raise GotThrough(f"The node has {code} against the document, and took it.")
    return seen


def truthful(context: Context, scenario: str | None = None) -> str:
    """What became of the twin: a node in the same place that is told the truth."""
    with target(context, scenario=scenario) as held:
        serves = _told(held.node.step())
    return f"told the truth, the node serves {serves[:12]}"


def honest(context: Context, scenario: str | None = None) -> CurrentDocument:
    """The current document that the service hands out now."""
    client = context.client(TokenRole.SERVE)
    body = client.current(scenario or context.scenario, CHANNEL).document or b""
    payload = base64.b64decode(msgspec.json.decode(body)["payload"])
    return msgspec.json.decode(payload, type=CurrentDocument)


def document(
    context: Context,
    *,
    base: CurrentDocument | None = None,
    key: SigningKey | None = None,
    **changes: Any,
) -> bytes:
    """A document with *changes*, signed by the stolen pointer key or another one."""
    base = base or honest(context)
    changed = msgspec.structs.replace(base, **({"serial": base.serial + 1} | changes))
    return canonical_json(sign_current(changed, key or context.key(Role.POINTER)))


def refused_when_told(context: Context, code: str, **changes: Any) -> Seen:
    """That a node which is handed a document with *changes* refuses it for the reason *code*."""
    with target(context) as held:
        held.lie(document(context, **changes))
        return refused(held, code, context.serving())


def outcome(context: Context, *seen: Seen) -> Outcome:
    """What was seen, with a node that is told the truth as the twin."""
    return Outcome(seen=seen, twin=truthful(context))


def attack_on_node(
    name: str,
    rows: tuple[int, ...],
    tries: str,
    run: Callable[[Context], Outcome],
    *codes: str,
) -> Attack:
    """An attack that a node must refuse for each of the reasons *codes*."""
    stops = tuple(Stop(by="node", code=code, events=("node.refused",)) for code in codes)
    needs = frozenset({Access.ENGINE, Access.KEYS})
    return Attack(name=name, rows=rows, tries=tries, stops=stops, run=run, needs=needs)
