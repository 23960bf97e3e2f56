"""Nodes that ask for witnesses, that begin from a floor, and that keep what convicts a log."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from reef_release.drill.attack import Outcome
from reef_release.drill.context import Context
from reef_release.drill.errors import GotThrough
from reef_release.drill.lying import (
    attack_on_node,
    document,
    honest,
    outcome,
    refused,
    target,
)
from reef_release.node.evidence import read_evidence
from reef_release.node.opening import floor_of
from reef_release.signing.keys import Role
from reef_release.signing.note import sign_checkpoint
from reef_release.signing.witness import WitnessSigner

__all__ = ["ATTACKS"]


def _witnesses(context: Context) -> tuple[Path, list[WitnessSigner]]:
    """Three witnesses, two of which must cosign, and the file that lists them."""
    folder = context.directory / "witnesses"
    if "witnesses" not in context.kept:
        folder.mkdir()
        names = ("one.test/w", "two.test/w", "three.test/w")
        context.kept["witnesses"] = [
            WitnessSigner.create(name, folder / f"{index}.pem") for index, name in enumerate(names)
        ]
        lines = [signer.vkey for signer in context.kept["witnesses"]]
        (folder / "list").write_text("\n".join(lines) + "\n")
    return folder / "list", context.kept["witnesses"]


def _unwitnessed(context: Context) -> Outcome:
    """No cosignature; one of two; and one by a witness that nobody listed."""
    listed, (one, two, _) = _witnesses(context)
    stranger = WitnessSigner.create("four.test/w", context.directory / "stranger.pem")
    now_s = int(time.time())
    seen = []
    for signers in ((), (one,), (one, stranger)):
        base = honest(context)
        note = base.checkpoint + "".join(each.cosign(base.checkpoint, now_s) for each in signers)
        with target(context, witnesses=listed) as held:
            held.lie(document(context, base=base, checkpoint=note))
            seen.append(refused(held, "quorum", context.serving()))
    base = honest(context)
    note = base.checkpoint + "".join(each.cosign(base.checkpoint, now_s) for each in (one, two))
    with target(context, witnesses=listed, fresh=True) as held:
        held.lie(document(context, base=base, checkpoint=note))
        serves = held.node.step()
        if serves.release_id != context.serving():
            raise GotThrough("Two witnesses are not enough.", reasons=serves.reasons)
    return Outcome(seen=tuple(seen), twin="with two of three cosignatures a new node loads it")


def _convicted(context: Context) -> Outcome:
    """Two trees of one size by the log key; the file that the node keeps convicts the log."""
    with target(context) as held:
        size = held.node.memory.checkpoint_size
        fork = sign_checkpoint(context.log_origin, size, bytes(32), context.key(Role.LOG))
        held.lie(document(context, checkpoint=fork))
        seen = refused(held, "checkpoint-fork", context.serving())
        kept = list((held.state / "evidence").iterdir())
        if not kept:
            raise GotThrough("The node kept no evidence of the two trees.")
        found = read_evidence(kept[0], context.anchor)
        if (found.kind, found.proven) != ("checkpoint-fork", True):
            raise GotThrough(f"The evidence shows {found.kind}, proven: {found.proven}.")
    return outcome(context, seen)


def _floored(context: Context) -> Outcome:
    """A new node, handed a document from before what another node has seen."""
    base = honest(context)
    with target(context) as held:
        old = document(context, base=base, serial=held.node.memory.serial - 1)
        floor = context.directory / "floor.json"
        floor.write_bytes(msgspec.json.encode(floor_of(held.node.memory)))
    with target(context, fresh=True, floor=floor) as held:
        held.lie(old)
        seen = refused(held, "serial-lower")
    with target(context, fresh=True) as held:
        held.lie(old)
        serves = held.node.step()
        if serves.release_id != context.serving():
            raise GotThrough("The old document is no good anyway.", reasons=serves.reasons)
    return Outcome(seen=(seen,), twin="a new node without a floor, which cannot know, loads it")


ATTACKS = (
    attack_on_node(
        "new-node-below-its-floor",
        (28,),
        "a new node handed an old document that has not expired; its floor says what came since",
        _floored,
        "serial-lower",
    ),
    attack_on_node(
        "document-without-witnesses",
        (34,),
        "a checkpoint that no witness, too few, or a stranger has cosigned",
        _unwitnessed,
        "quorum",
    ),
    attack_on_node(
        "two-trees-kept-as-evidence",
        (34,),
        "two trees of one size by the stolen log key; what the node keeps proves it to anybody",
        _convicted,
        "checkpoint-fork",
    ),
)
