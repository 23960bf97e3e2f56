"""What shows that a service told two stories: read by whoever was not there.

Nothing in the file is believed but the signatures, and those only from the trust root on that
the reader has from elsewhere. Two documents of one serial, or two trees of one size, are proof
by themselves: honest keys never sign both. A tree that a service did not show to continue
another one is not: the missing proof may be asked for elsewhere, and if nobody has it, the two
tree heads are the evidence.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from reef_release.domain.canonical import sha256_hex
from reef_release.domain.merkle import verify_consistency
from reef_release.errors import SettingsError
from reef_release.node.trusted import Memory, Opened, Trusted, refused
from reef_release.node.vault import Evidence

__all__ = ["Contradiction", "read_evidence"]


class Contradiction(msgspec.Struct, frozen=True, kw_only=True):
    """What two signed documents show. `proven`: it needs no word of whoever kept the file.

    `kind` is one of the codes with which a node refuses; sizes are of the two signed trees.
    """

    kind: str
    proven: bool
    found: str
    origin: str
    serials: tuple[int, int]
    sizes: tuple[int, int]
    roots: tuple[str, str]


def read_evidence(path: Path, anchor: str) -> Contradiction:
    """The contradiction in the file *path*, from the trust root *anchor* on.

    Raises `SettingsError` when it cannot be read, `SignatureRejected` when a signature in it
    does not hold, `Refused` when the two documents agree.
    """
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=Evidence)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"{path} is no evidence file: {error}.",
            next_step="Give a file from the `evidence` directory of a node.",
        ) from error
    if kept.accepted is None:
        raise refused("no-contradiction", "there is one document only, so nothing contradicts it")
    trusted = Trusted(
        anchor=anchor,
        successors=kept.roots,
        memory=Memory(
            anchor=sha256_hex(anchor.encode()), scenario=kept.scenario, channel=kept.channel
        ),
        origin=kept.origin,
    )
    first, second = kept.accepted.encode("utf-8"), kept.received.encode("utf-8")
    one, two = trusted.reopen(first), trusted.reopen(second)
    kind, proven, found = _difference(one, two, kept.proof)
    return Contradiction(
        kind=kind,
        proven=proven,
        found=found,
        origin=kept.origin,
        serials=(one.document.serial, two.document.serial),
        sizes=(one.checkpoint.size, two.checkpoint.size),
        roots=(one.checkpoint.root.hex(), two.checkpoint.root.hex()),
    )


def _difference(one: Opened, two: Opened, proof: list[str]) -> tuple[str, bool, str]:
    old, new = one.checkpoint, two.checkpoint
    if old.size == new.size and old.root != new.root:
        return (
            "checkpoint-fork",
            True,
            f"a log key signed two different trees of {old.size} events",
        )
    if one.document.serial == two.document.serial and one.digest != two.digest:
        return (
            "serial-equivocation",
            True,
            f"a pointer key signed two different documents of serial {one.document.serial}",
        )
    try:
        hashes = [bytes.fromhex(each) for each in proof]
    except ValueError:
        hashes = []
    if old.size < new.size and not verify_consistency(
        old.size, new.size, hashes, old.root, new.root
    ):
        return (
            "inconsistent-log",
            False,
            f"the service did not show that its tree of {new.size} events continues that of "
            f"{old.size}; both are signed, and a proof from {old.size} to {new.size} exists "
            "unless the log was rewritten: ask the service, witnesses and auditors for it",
        )
    raise refused("no-contradiction", "the two documents do not contradict each other")
