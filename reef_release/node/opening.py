"""From what a node is told and what it remembers to what it trusts.

A node that starts for the first time remembers nothing, so whoever stands between it and the
service may show it any old state that some clock still believes. A *floor* that another node
has printed (`reef-release node floor`), brought by another way than the service, ends that: the
new node begins where the other one stood and goes on from there.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from reef_release.errors import SettingsError
from reef_release.node.config import NodeConfig
from reef_release.node.trusted import Memory, Trusted
from reef_release.node.vault import Vault
from reef_release.signing.witness import quorum_of, read_witnesses

__all__ = ["floor_of", "open_trusted", "require_state"]


def open_trusted(config: NodeConfig, vault: Vault) -> Trusted:
    """The chain and the memory in *vault*, begun from the floor if there is no memory yet.

    Raises `SettingsError` when something cannot be read or does not fit, and
    `SignatureRejected` when the chain of roots is broken.
    """
    anchor = config.anchor_text()
    memory = vault.memory(anchor, config.scenario, config.channel)
    if config.floor is not None and memory.is_new:
        memory = _read_floor(config.floor, memory)
    listed = read_witnesses(config.witnesses) if config.witnesses else ()
    if config.witness_quorum is not None and not listed:
        raise SettingsError(
            "A quorum of witnesses is asked for, and no witnesses are named.",
            next_step="Give the file of witnesses with --witnesses.",
        )
    return Trusted(
        anchor=anchor,
        successors=vault.successors(),
        memory=memory,
        origin=config.origin,
        witnesses=[each.key for each in listed],
        quorum=quorum_of(len(listed), config.witness_quorum),
    )


def require_state(config: NodeConfig) -> None:
    """Raise `SettingsError` unless a node has run in the directory of *config*."""
    if not config.state.is_dir():
        raise SettingsError(
            f"No node has run in {config.state}.",
            next_step="Give the directory that the node was started with (--state).",
        )


def floor_of(memory: Memory) -> Memory:
    """What a new node may begin from: all of *memory* but the age of its last document.

    Raises `SettingsError` for the memory of a node that has seen nothing.
    """
    if memory.is_new:
        raise SettingsError(
            "This node has not accepted any document yet, so there is nothing to begin from.",
            next_step="Take the floor of a node that has served this channel.",
        )
    return msgspec.structs.replace(memory, expires_at="")


def _read_floor(path: Path, new: Memory) -> Memory:
    try:
        floor = msgspec.json.decode(path.read_bytes(), type=Memory)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"The floor {path} cannot be read: {error}.",
            next_step="Print one with `reef-release node floor --json` where a node runs.",
        ) from error
    if (floor.anchor, floor.scenario, floor.channel) != (new.anchor, new.scenario, new.channel):
        raise SettingsError(
            f"The floor {path} is of {floor.channel} of {floor.scenario}, or of another trust "
            "root.",
            next_step="Take the floor of a node that serves the same channel.",
        )
    return floor_of(floor)
