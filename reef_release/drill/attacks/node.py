"""Lies to a node: documents, checkpoints, proofs, roots, files, and an engine that is no help."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import httpx
import msgspec

from reef_release.artifacts.collector import collect
from reef_release.drill.attack import Access, Attack, Outcome, Seen, Stop
from reef_release.drill.context import WEIGHTS, Context
from reef_release.drill.errors import GotThrough
from reef_release.drill.lying import document, honest, refused, target, truthful
from reef_release.node.engine import Engine, EngineHealth, LoadedFiles, LoadedFoundation, OnDisk
from reef_release.signing.keyring import PRIVATE_NAME
from reef_release.signing.keys import PublicKey, Role, SigningKey, create_key, load_key
from reef_release.signing.note import sign_checkpoint
from reef_release.signing.root import create_root, open_root
from reef_release.tokens import TokenRole

__all__ = ["ATTACKS"]

_NEEDS = frozenset({Access.ENGINE, Access.KEYS})
_REFUSED = ("node.refused",)
_MAX_SERIAL = 2**53 - 1
_DAY = timedelta(days=1)
_TEN_YEARS = timedelta(days=3650)


def _outcome(context: Context, *seen: Seen) -> Outcome:
    return Outcome(seen=seen, twin=truthful(context))


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


# Files and engines


class _Meddling(Engine):
    """An engine with somebody beside it: `before_load` runs after the node's last look."""

    def __init__(self, inner: Engine, *, overwrites: bool = False, keeps: bool = False) -> None:
        self._inner = inner
        self._overwrites = overwrites
        self._keeps = keeps

    def load(self, release: OnDisk, foundation: OnDisk | None = None) -> LoadedFiles:
        if self._keeps:
            # It says that it has read the files, and goes on with the weights that it had.
            below = None
            if foundation is not None:
                below = LoadedFoundation(
                    release_id=foundation.release_id, files=dict(foundation.files)
                )
            return LoadedFiles(
                release_id=release.release_id, files=dict(release.files), foundation=below
            )
        if self._overwrites:
            with (release.directory / WEIGHTS).open("r+b") as file:
                file.seek(-1, 2)
                last = file.read(1)
                file.seek(-1, 2)
                file.write(bytes([last[0] ^ 1]))
        return self._inner.load(release, foundation)

    def score(self, prompt_token_ids: Sequence[int], token_ids: Sequence[int]) -> list[float]:
        return self._inner.score(prompt_token_ids, token_ids)

    def health(self) -> EngineHealth:
        return self._inner.health()


def _overwritten(context: Context) -> Outcome:
    engine = _Meddling(context.stack.idle_engine(), overwrites=True)
    with target(context, fresh=True, engine=engine) as held:
        seen = refused(held, "digest-mismatch")
    return _outcome(context, seen)


def _other_weights(context: Context) -> Outcome:
    inner = context.stack.idle_engine()
    origin = context.stack.model("origin")
    files = {file.path: file.sha256 for file in collect(origin)}
    inner.load(OnDisk(directory=origin, release_id="ab" * 32, files=files))
    with target(context, fresh=True, engine=_Meddling(inner, keeps=True)) as held:
        seen = refused(held, "canary")
    return _outcome(context, seen)


def _downloads(context: Context) -> Outcome:
    """A file that does not end, and the rest of another file after a broken connection."""
    path = f"/files/{WEIGHTS}"
    size = len(context.served_files()[WEIGHTS])

    def endless(_request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=itertools.repeat(bytes(65536)))

    def other_rest(request: httpx.Request) -> httpx.Response:
        if request.headers.get("range") is None:
            return httpx.Response(200, content=context.served_files()[WEIGHTS][:10])
        span = f"bytes 10-{size - 1}/{size}"
        return httpx.Response(206, content=bytes(size - 10), headers={"content-range": span})

    seen = []
    for answer, code in ((endless, "bad-answer"), (other_rest, "digest-mismatch")):
        with target(context, fresh=True) as held:
            held.answers[path] = answer
            seen.append(refused(held, code))
    return _outcome(context, *seen)


# Documents


def _told(context: Context, code: str, serves: str | None = "served", **changes: Any) -> Seen:
    """That a node which is handed this document refuses it for the reason *code*."""
    with target(context) as held:
        held.lie(document(context, **changes))
        return refused(held, code, context.serving() if serves else None)


def _replayed(context: Context) -> Outcome:
    with target(context) as held:
        seen = held.node.memory.serial - 1
    return _outcome(context, _told(context, "serial-lower", serial=seen))


def _two_bodies(context: Context) -> Outcome:
    with target(context) as held:
        memory = held.node.memory
        other = document(context, serial=memory.serial, gate_digest="ab" * 32)
        held.lie(other)
        seen = refused(held, "serial-equivocation", context.serving())
        kept = list((held.state / "evidence").iterdir())
        if not kept or other.decode() not in msgspec.json.decode(kept[0].read_bytes())["received"]:
            raise GotThrough("The node kept no evidence of the two documents.")
    return _outcome(context, seen)


def _expired(context: Context) -> Outcome:
    now = datetime.now(UTC)
    times: dict[str, Any] = {
        "issued_at": _text(now - timedelta(seconds=120)),
        "expires_at": _text(now),
    }
    return _outcome(context, _told(context, "expired", **times))


def _clocks(context: Context) -> Outcome:
    """A day behind, with an old document under a new serial; and ten years ahead."""
    now = datetime.now(UTC)
    old: dict[str, Any] = {
        "issued_at": _text(now - _DAY),
        "expires_at": _text(now - _DAY + timedelta(seconds=60)),
    }
    seen = []
    with target(context, clock=lambda: datetime.now(UTC) - _DAY) as held:
        held.lie(document(context, **old))
        seen.append(refused(held, "expired", context.serving()))
    with target(context, clock=lambda: datetime.now(UTC) + _TEN_YEARS) as held:
        seen.append(refused(held, "expired", context.serving()))
    return _outcome(context, *seen)


def _poisoned(context: Context) -> Outcome:
    """The highest serial there is, by the stolen key; then a root with another pointer key."""
    with target(context) as held:
        held.lie(document(context, serial=_MAX_SERIAL))
        poisoned = held.node.step()
        if poisoned.release_id != context.serving():
            raise GotThrough("The node moved.")
        held.answers.clear()
        seen = refused(held, "serial-lower", context.serving())
        pointer = create_key(Role.POINTER)
        root = _root(context, 2, {Role.POINTER: pointer})
        held.answers["/reef/trust/root/2"] = partial(_said, root)
        held.lie(document(context, key=pointer, root_version=2, serial=honest(context).serial))
        healed = held.node.step()
        if healed.reasons or healed.release_id != context.serving():
            raise GotThrough("The new root did not heal the node.", reasons=healed.reasons)
    return Outcome(seen=(seen,), twin=f"after root 2 the node goes on, at serial {healed.serial}")


def _old_bundle(context: Context) -> Outcome:
    """The newest document, with the signature over the release before."""
    releases = context.client(TokenRole.AUDIT).releases(context.scenario)
    old = next(each.release_id for each in releases if each.release_id != context.serving())
    bundle = context.client(TokenRole.SERVE).bundle(context.scenario, old)
    with target(context, fresh=True) as held:
        held.answers["/bundle"] = lambda _request: httpx.Response(200, content=bundle)
        seen = refused(held, "other-release")
    return _outcome(context, seen)


def _by_other_keys(context: Context) -> Outcome:
    """A document signed by keys of the service's that are no pointer keys, and by a stranger's."""
    seen = []
    for key in (
        load_key(context.stack.keys / Role.LOG / PRIVATE_NAME, Role.POINTER),
        load_key(context.stack.keys / Role.GATE / PRIVATE_NAME, Role.POINTER),
        create_key(Role.POINTER),
    ):
        seen.append(_told(context, "no-trusted-key", key=key))
    return _outcome(context, *seen)


# Checkpoints and proofs


def _tree(note: str) -> tuple[int, bytes]:
    """Size and root in a note."""
    lines = note.split("\n")
    return int(lines[1]), base64.b64decode(lines[2])


def _forks(context: Context) -> Outcome:
    """By the stolen log key: a smaller tree, another of the same size, and one that forgets."""
    key, origin = context.key(Role.LOG), context.log_origin
    with target(context) as held:
        size = held.node.memory.checkpoint_size
    smaller = sign_checkpoint(origin, size - 1, bytes(32), key)
    other = sign_checkpoint(origin, size, bytes(32), key)
    seen = [
        _told(context, "checkpoint-smaller", checkpoint=smaller),
        _told(context, "checkpoint-fork", checkpoint=other),
    ]
    newer, _ = _tree(context.client(TokenRole.AUDIT).checkpoint())
    longer = sign_checkpoint(origin, newer, bytes(32), key)
    seen.append(_told(context, "inconsistent-log", checkpoint=longer))
    return _outcome(context, *seen)


def _own_tree(context: Context) -> Outcome:
    """Proofs that hold in a tree of the attacker's, and its checkpoint by keys of its own."""
    with target(context, fresh=True) as held:
        held.answers["/proof/inclusion"] = _lone_leaf
        seen = [refused(held, "not-included")]
    size, root = _tree(honest(context).checkpoint)
    own = sign_checkpoint(context.log_origin, size, root, create_key(Role.LOG))
    elsewhere = sign_checkpoint("elsewhere.test/log", size, root, context.key(Role.LOG))
    seen += [
        _told(context, "no-trusted-key", checkpoint=own),
        _told(context, "origin", checkpoint=elsewhere),
    ]
    return _outcome(context, *seen)


def _lone_leaf(request: httpx.Request) -> httpx.Response:
    """A proof in a tree of one event, which needs no hashes."""
    position, size = (int(request.url.params[name]) for name in ("position", "size"))
    view = {
        "position": position,
        "size": size,
        "leaf_hash": "00" * 32,
        "proof": [],
        "root": "00" * 32,
    }
    return httpx.Response(200, json=view)


# Roots


def _root_keys(context: Context) -> list[SigningKey]:
    folder = context.stack.keys / Role.ROOT
    return [load_key(each / PRIVATE_NAME, Role.ROOT) for each in sorted(folder.iterdir())]


def _root(
    context: Context,
    version: int,
    keys: dict[Role, SigningKey] | None = None,
    signers: Sequence[SigningKey] | None = None,
) -> str:
    """A root after the anchor; *keys* replace those of a role, *signers* the real root keys."""
    anchor = open_root(context.anchor)
    roots = list(signers) if signers is not None else _root_keys(context)
    roles: dict[Role, Sequence[PublicKey]] = dict(anchor.keys_by_role)
    del roles[Role.ROOT]
    roles |= {role: (key.public,) for role, key in (keys or {}).items()}
    return create_root(
        version=version,
        threshold=anchor.threshold,
        root_keys=[key.public for key in roots],
        role_keys=roles,
        expires=datetime.now(UTC) + _DAY * 30,
        signers=roots,
    )


def _said(text: str, _request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, text=text)


def _roots(context: Context) -> Outcome:
    thieves = [create_key(Role.ROOT) for _ in range(3)]
    one = _root_keys(context)[:1]
    seen = []
    for text, code in (
        (_root(context, 3), "root-version"),
        (_root(context, 2, signers=thieves), "root-threshold"),
        (_root(context, 2, signers=[*one, *thieves[:2]]), "root-threshold"),
    ):
        with target(context) as held:
            held.answers["/reef/trust/root/2"] = partial(_said, text)
            seen.append(refused(held, code, context.serving()))
    return _outcome(context, *seen)


def _attack(
    name: str,
    rows: tuple[int, ...],
    tries: str,
    run: Callable[[Context], Outcome],
    *codes: str,
) -> Attack:
    stops = tuple(Stop(by="node", code=code, events=_REFUSED) for code in codes)
    return Attack(name=name, rows=rows, tries=tries, stops=stops, run=run, needs=_NEEDS)


ATTACKS = (
    _attack(
        "file-overwritten-after-verification",
        (21,),
        "the weights overwritten on the node's disk after they were hashed",
        _overwritten,
        "digest-mismatch",
    ),
    _attack(
        "engine-that-keeps-other-weights",
        (21,),
        "an engine that says it has read the files and computes with others",
        _other_weights,
        "canary",
    ),
    _attack(
        "document-under-another-key",
        (23,),
        "a current document signed by the log's, the gate's, or a stranger's key",
        _by_other_keys,
        "no-trusted-key",
    ),
    _attack(
        "old-document-replayed",
        (28,),
        "a current document with a lower serial",
        _replayed,
        "serial-lower",
    ),
    _attack(
        "two-documents-under-one-serial",
        (29,),
        "the same serial with another body; the node keeps both",
        _two_bodies,
        "serial-equivocation",
    ),
    _attack(
        "expired-document",
        (30,),
        "a current document that has expired",
        _expired,
        "expired",
    ),
    _attack(
        "clock-of-the-node",
        (31,),
        "a node's clock a day behind, with an old document; and ten years ahead",
        _clocks,
        "expired",
    ),
    _attack(
        "highest-serial-by-a-stolen-key",
        (32,),
        "the highest serial by a stolen pointer key; the next root replaces the key",
        _poisoned,
        "serial-lower",
    ),
    _attack(
        "new-document-with-an-old-bundle",
        (33,),
        "the newest document with the weights signature of the release before",
        _old_bundle,
        "other-release",
    ),
    _attack(
        "checkpoints-that-disagree",
        (34,),
        "by the stolen log key: a smaller tree, another of the same size, one without the past",
        _forks,
        "checkpoint-smaller",
        "checkpoint-fork",
        "inconsistent-log",
    ),
    _attack(
        "tree-of-the-attackers-own",
        (35,),
        "proofs in a tree of one's own, and checkpoints by another key or of another log",
        _own_tree,
        "not-included",
        "no-trusted-key",
        "origin",
    ),
    _attack(
        "roots-out-of-order",
        (38,),
        "a trust root 3 in the place of 2, and a root 2 that the new keys alone signed",
        _roots,
        "root-version",
        "root-threshold",
    ),
    _attack(
        "downloads-of-other-bytes",
        (41,),
        "a file that does not end, and the rest of another file",
        _downloads,
        "bad-answer",
        "digest-mismatch",
    ),
)
