"""Lies to a node about the log: checkpoints that disagree, and proofs in another tree."""

from __future__ import annotations

import base64

import httpx

from reef_release.drill.attack import Outcome
from reef_release.drill.context import Context
from reef_release.drill.lying import (
    attack_on_node,
    honest,
    outcome,
    refused,
    refused_when_told,
    target,
)
from reef_release.signing.keys import Role, create_key
from reef_release.signing.note import sign_checkpoint
from reef_release.tokens import TokenRole

__all__ = ["ATTACKS"]


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
        refused_when_told(context, "checkpoint-smaller", checkpoint=smaller),
        refused_when_told(context, "checkpoint-fork", checkpoint=other),
    ]
    newer, _ = _tree(context.client(TokenRole.AUDIT).checkpoint())
    longer = sign_checkpoint(origin, newer, bytes(32), key)
    seen.append(refused_when_told(context, "inconsistent-log", checkpoint=longer))
    return outcome(context, *seen)


def _own_tree(context: Context) -> Outcome:
    """Proofs that hold in a tree of the attacker's, and its checkpoint by keys of its own."""
    with target(context, fresh=True) as held:
        held.answers["/proof/inclusion"] = _lone_leaf
        seen = [refused(held, "not-included")]
    size, root = _tree(honest(context).checkpoint)
    own = sign_checkpoint(context.log_origin, size, root, create_key(Role.LOG))
    elsewhere = sign_checkpoint("elsewhere.test/log", size, root, context.key(Role.LOG))
    seen += [
        refused_when_told(context, "no-trusted-key", checkpoint=own),
        refused_when_told(context, "origin", checkpoint=elsewhere),
    ]
    return outcome(context, *seen)


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


ATTACKS = (
    attack_on_node(
        "checkpoints-that-disagree",
        (34,),
        "by the stolen log key: a smaller tree, another of the same size, one without the past",
        _forks,
        "checkpoint-smaller",
        "checkpoint-fork",
        "inconsistent-log",
    ),
    attack_on_node(
        "tree-of-the-attackers-own",
        (35,),
        "proofs in a tree of one's own, and checkpoints by another key or of another log",
        _own_tree,
        "not-included",
        "no-trusted-key",
        "origin",
    ),
)
