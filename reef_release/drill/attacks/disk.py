"""Bytes that change on the service's side: in its store, on the way to it, under a signature."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx

from reef_release.client.errors import error_from
from reef_release.domain.canonical import sha256_hex
from reef_release.domain.events import FileEntry
from reef_release.drill.attack import Access, Attack, Outcome, Stop, stopped
from reef_release.drill.context import WEIGHTS, Context
from reef_release.drill.errors import GotThrough
from reef_release.drill.lying import refused, target, truthful
from reef_release.signing.keys import Role
from reef_release.signing.weights import sign_bundle
from reef_release.tokens import TokenRole

__all__ = ["ATTACKS"]


def _weights(context: Context) -> FileEntry:
    """The weights file of the release served."""
    release = context.client(TokenRole.SERVE).release(context.scenario, context.serving() or "")
    return next(file for file in release.files if file.path == WEIGHTS)


def _uploaded(context: Context) -> Outcome:
    """Other bytes under the digest of the promoted weights, and under one that nobody has."""
    client = context.client(TokenRole.AUDIT)
    entry = _weights(context)
    other = b"other bytes"
    _put(context, entry.sha256, other)
    kept = client.read_blob(entry.sha256, entry.size_bytes)
    if sha256_hex(kept) != entry.sha256:
        raise GotThrough("The stored weights are other ones now.")
    seen = stopped(
        context, partial(_put, context, "ab" * 32, other), "blob store", "digest-mismatch"
    )
    own = _put(context, sha256_hex(other), other)
    return Outcome(seen=(seen,), twin=f"under their own digest: status {own}")


def _put(context: Context, digest: str, content: bytes) -> int:
    answer = httpx.put(
        f"{context.url}/reef/blobs/{digest}",
        content=content,
        headers={"Authorization": f"Bearer {context.token(TokenRole.TRAIN)}"},
        timeout=60,
    )
    if answer.status_code >= 400:
        raise error_from(answer.status_code, answer.content)
    return answer.status_code


def _signed_otherwise(context: Context) -> Outcome:
    """The release key's own signature, over files of which one is another."""
    served = context.serving() or ""
    files = {
        file.path: file.sha256
        for file in context.client(TokenRole.AUDIT).release(context.scenario, served).files
    }
    bundle = sign_bundle(files | {WEIGHTS: "ab" * 32}, context.key(Role.RELEASE))
    signer = context.client(TokenRole.SIGN)
    seen = stopped(
        context,
        partial(signer.post_bundle, context.scenario, served, bundle),
        "service",
        "other-release",
    )
    position = context.event("release.signed", release_id=served)
    return Outcome(seen=(seen,), twin=f"signed over its own files at {position}")


def _altered(context: Context) -> Outcome:
    """One bit of the promoted weights in the service's store, and a node without a past."""
    entry = _weights(context)
    with _one_bit_flipped(context, entry.sha256):
        reader = context.client(TokenRole.AUDIT)
        read = partial(reader.read_blob, entry.sha256, entry.size_bytes)
        seen = [stopped(context, read, "blob store", "unavailable")]
        if "peer closed connection" not in seen[0].words:
            raise GotThrough(f"The service did not break off: {seen[0].words}")
        with target(context, fresh=True) as held:
            seen.append(refused(held, "unavailable"))
    read()
    return Outcome(seen=tuple(seen), twin=truthful(context))


@contextmanager
def _one_bit_flipped(context: Context, digest: str) -> Iterator[None]:
    [path] = [each for each in context.stack.blobs.rglob("*") if _name(each) == digest]
    good, mode = path.read_bytes(), path.stat().st_mode
    path.chmod(0o600)
    try:
        path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        yield
    finally:
        path.write_bytes(good)
        path.chmod(mode)


def _name(path: Path) -> str:
    """The digest that a file in the store is kept under: its first two digits are a directory."""
    return path.parent.name + path.name


ATTACKS = (
    Attack(
        name="other-bytes-under-a-digest",
        rows=(20,),
        tries="other bytes uploaded under the digest of promoted weights, and under a wrong one",
        stops=(Stop(by="blob store", code="digest-mismatch"),),
        run=_uploaded,
        roles=frozenset({TokenRole.AUDIT, TokenRole.SERVE, TokenRole.TRAIN}),
        quick=True,
    ),
    Attack(
        name="signature-over-changed-bytes",
        rows=(20,),
        tries="the release key's signature over files of which one changed after the gate",
        stops=(Stop(by="service", code="other-release"),),
        run=_signed_otherwise,
        needs=frozenset({Access.KEYS}),
    ),
    Attack(
        name="weights-altered-in-the-store",
        rows=(20, 21),
        tries="a bit of the promoted weights flipped on the service's own disk",
        stops=(
            Stop(by="blob store", code="unavailable"),
            Stop(by="node", code="unavailable", events=("node.refused",)),
        ),
        run=_altered,
        needs=frozenset({Access.DISK, Access.ENGINE}),
    ),
)
