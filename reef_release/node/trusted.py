"""The rules by which a node moves: values and bytes in, a new memory or a refusal out.

What always holds, whatever the service sends:

- a root is the anchor, or the direct successor of the newest root, signed by both;
- a document counts only if a pointer key of the newest root signed it for this scenario and
  channel, and it has not expired by the node's clock or by the latest time that such a
  document has ever stated (the floor), whichever is later;
- serial, root version, checkpoint size and pointer position never go down; a serial stands
  for one document and a size for one tree, or the service lies to somebody;
- a quorum of the witnesses that the node was told of has cosigned the checkpoint;
- nothing is remembered of a document before its checkpoint continues the one remembered.

No I/O and no clock: time is an argument. A refusal is raised as `Refused` or
`SignatureRejected` and leaves the memory as it was. The order of the steps follows the TUF
client workflow (theupdateframework.github.io/specification §5.3 and §5.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from reef_release.domain.canonical import canonical_json, sha256_hex
from reef_release.domain.merkle import EMPTY_ROOT, verify_consistency
from reef_release.domain.reasons import Reason
from reef_release.errors import Refused
from reef_release.signing import dsse
from reef_release.signing.current import CurrentDocument, verify_current
from reef_release.signing.keys import PublicKey, Role
from reef_release.signing.note import Checkpoint, open_checkpoint
from reef_release.signing.root import TrustRoot, open_root
from reef_release.signing.witness import Cosignature, WitnessKey, verify_cosignatures

__all__ = [
    "EQUIVOCATIONS",
    "LONGEST_LIFETIME",
    "Link",
    "Memory",
    "Opened",
    "Trusted",
    "refused",
]

LONGEST_LIFETIME = timedelta(days=1)
"""A document that lived longer would give no freshness, whoever signed it."""

EQUIVOCATIONS = frozenset({"serial-equivocation", "checkpoint-fork", "inconsistent-log"})
"""Reasons that show that the service tells different stories; what shows it must be kept."""

_CLOCK_SLACK = timedelta(minutes=5)


class Memory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a node must not forget, as one value.

    `anchor` is the SHA-256 of the trust root it started from. Times are in the log's form;
    `time_floor` is the latest `issued_at` ever accepted, never the local clock, so a wrong
    clock does no harm once it is put right. `pointer_position` and `release_id` are those of
    the last pointer event that was proven.
    """

    anchor: str
    scenario: str
    channel: str
    serial: int = -1
    document_digest: str = ""
    expires_at: str = ""
    time_floor: str = ""
    root_version: int = 1
    checkpoint_size: int = 0
    checkpoint_root: str = EMPTY_ROOT.hex()
    pointer_position: int = -1
    release_id: str | None = None

    @property
    def is_new(self) -> bool:
        """Nothing was ever accepted; a root that replaces a pointer key resets the serial alone."""
        return self.serial < 0 and self.checkpoint_size == 0


@dataclass(frozen=True, kw_only=True)
class Link:
    """One verified root of the chain and its text."""

    text: str
    root: TrustRoot


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A document that a pointer key signed, and the tree head that it carries.

    `warnings` do not stand against it, but a person should hear of them.
    """

    document: CurrentDocument
    digest: str
    checkpoint: Checkpoint
    warnings: tuple[Reason, ...] = ()


class Trusted:
    """The chain of roots and the memory of one node."""

    def __init__(
        self,
        *,
        anchor: str,
        successors: Sequence[str],
        memory: Memory,
        origin: str,
        witnesses: Sequence[WitnessKey] = (),
        quorum: int = 0,
    ) -> None:
        """*successors* are the roots after *anchor*, oldest first. *origin* names the log.

        *quorum* of the *witnesses* must have cosigned the checkpoint of a document. Raises
        `SignatureRejected` when the chain is broken.
        """
        self._chain = [Link(text=anchor, root=open_root(anchor))]
        self._origin = origin
        self._witnesses = tuple(witnesses)
        self._quorum = quorum
        self.memory = memory
        for text in successors:
            self._extend(text)

    @property
    def root(self) -> TrustRoot:
        """The newest root."""
        return self._chain[-1].root

    @property
    def chain(self) -> tuple[Link, ...]:
        """All roots, the anchor first."""
        return tuple(self._chain)

    def update_root(self, text: str) -> None:
        """Take the root after the newest one. Raises `SignatureRejected`.

        When a pointer key was taken out, what it vouched for is forgotten: a thief may have
        signed the highest serial and the latest time there are, and no honest document could
        follow those. The log's own state stays, since no pointer key can forge it.
        """
        before = self.root
        self._extend(text)
        kept = {key.key_id for key in self.root.keys_by_role[Role.POINTER]}
        if self.root.version <= self.memory.root_version:
            # What is remembered was accepted under this root or a later one: see `opening`.
            return
        if any(key.key_id not in kept for key in before.keys_by_role[Role.POINTER]):
            self.memory = msgspec.structs.replace(
                self.memory, serial=-1, document_digest="", expires_at="", time_floor=""
            )

    def open_document(self, body: bytes, now: str) -> Opened:
        """The document in *body*, if the node may believe it at the time *now*."""
        opened = self._read(
            body, self.root.keys_by_role[Role.POINTER], self.root.keys_by_role[Role.LOG]
        )
        document, memory = opened.document, self.memory
        self._check_time(document, now)
        self.cosignatures(document, self._quorum)
        if document.root_version > self.root.version:
            raise refused(
                "root-missing",
                f"the document rests on root {document.root_version}, and the service gave "
                f"none after {self.root.version}",
            )
        if document.root_version < memory.root_version:
            raise refused(
                "root-lower",
                f"the document rests on root {document.root_version} after one on "
                f"{memory.root_version}",
            )
        if document.serial < memory.serial:
            raise refused(
                "serial-lower", f"serial {document.serial} after {memory.serial}: a replay"
            )
        if document.serial == memory.serial and opened.digest != memory.document_digest:
            raise refused(
                "serial-equivocation",
                f"two different documents have the serial {document.serial}",
            )
        position = -1 if document.pointer_position is None else document.pointer_position
        if position < memory.pointer_position:
            raise refused(
                "pointer-lower",
                f"the document names the pointer event at {position}, and one at "
                f"{memory.pointer_position} was proven before",
            )
        return Opened(
            document=document,
            digest=opened.digest,
            checkpoint=opened.checkpoint,
            warnings=_clock_warnings(document, now),
        )

    def accept(self, opened: Opened, proof: Sequence[bytes]) -> None:
        """Remember *opened*; *proof* shows that its tree continues the one remembered."""
        memory, new = self.memory, opened.checkpoint
        old_root = bytes.fromhex(memory.checkpoint_root)
        if new.size < memory.checkpoint_size:
            raise refused(
                "checkpoint-smaller",
                f"a checkpoint of {new.size} events after one of {memory.checkpoint_size}",
            )
        if new.size == memory.checkpoint_size and new.root != old_root:
            raise refused("checkpoint-fork", f"two different trees of {new.size} events are signed")
        if not verify_consistency(memory.checkpoint_size, new.size, proof, old_root, new.root):
            raise refused(
                "inconsistent-log",
                f"the tree of {new.size} events is not shown to continue that of "
                f"{memory.checkpoint_size}",
            )
        document = opened.document
        self.memory = msgspec.structs.replace(
            memory,
            serial=document.serial,
            document_digest=opened.digest,
            expires_at=document.expires_at,
            time_floor=max(memory.time_floor, document.issued_at),
            root_version=document.root_version,
            checkpoint_size=new.size,
            checkpoint_root=new.root.hex(),
        )

    def accept_pointer(self, document: CurrentDocument) -> None:
        """Remember the pointer event of *document*, which `grounds.verify` has proven."""
        self.memory = msgspec.structs.replace(
            self.memory,
            pointer_position=document.pointer_position,
            release_id=document.release_id,
        )

    def reopen(self, body: bytes) -> Opened:
        """A document that was accepted once, from the node's own disk: at any time, by any key
        that the chain ever listed. What it names must be proven again."""
        return self._read(body, self._ever_listed(Role.POINTER), self._ever_listed(Role.LOG))

    def cosignatures(self, document: CurrentDocument, quorum: int = 0) -> tuple[Cosignature, ...]:
        """Those of the node's witnesses on the document's checkpoint, at least *quorum*.

        Raises `SignatureRejected`.
        """
        return verify_cosignatures(document.checkpoint, self._witnesses, quorum)

    @property
    def quorum(self) -> tuple[int, int]:
        """How many witnesses must cosign, and of how many."""
        return self._quorum, len(self._witnesses)

    def staleness(self, now: str) -> Reason | None:
        """What a person should hear of the age of the last accepted document."""
        memory = self.memory
        if not memory.expires_at:
            return None
        left = _time(memory.expires_at) - _time(max(now, memory.time_floor))
        if left <= timedelta(0):
            return Reason(
                code="expired",
                message=f"no fresh document since the last one ended at {memory.expires_at}; "
                "look at the service and at this node's clock",
            )
        lifetime = _time(memory.expires_at) - _time(memory.time_floor)
        if left < lifetime / 3:
            return Reason(
                code="expiring",
                message=f"the last document ends at {memory.expires_at} and none follows yet",
            )
        return None

    def _extend(self, text: str) -> None:
        self._chain.append(Link(text=text, root=open_root(text, self._chain[-1].text)))

    def _ever_listed(self, role: Role) -> tuple[PublicKey, ...]:
        found = {key.key_id: key for link in self._chain for key in link.root.keys_by_role[role]}
        return tuple(found.values())

    def _read(
        self, body: bytes, pointer_keys: Sequence[PublicKey], log_keys: Sequence[PublicKey]
    ) -> Opened:
        envelope = dsse.parse_envelope(body, "current document")
        document = verify_current(envelope, pointer_keys).document
        memory = self.memory
        if (document.scenario, document.channel) != (memory.scenario, memory.channel):
            raise refused(
                "other-channel",
                f"the document is for {document.channel} of {document.scenario}, and this node "
                f"serves {memory.channel} of {memory.scenario}",
            )
        return Opened(
            document=document,
            digest=sha256_hex(canonical_json(msgspec.to_builtins(document))),
            checkpoint=open_checkpoint(document.checkpoint, self._origin, log_keys),
        )

    def _check_time(self, document: CurrentDocument, now: str) -> None:
        latest = max(now, self.memory.time_floor)
        if _time(document.expires_at) - _time(document.issued_at) > LONGEST_LIFETIME:
            raise refused("lifetime", "the document would live for more than a day")
        if document.expires_at <= latest:
            raise refused(
                "expired",
                f"the document ended at {document.expires_at}, and it is {latest} by "
                + ("this node's clock" if latest == now else "an earlier document")
                + "; look at the service and at this node's clock",
            )
        if self.root.expires_at <= latest:
            raise refused(
                "root-expired",
                f"the trust root {self.root.version} ended at {self.root.expires_at}; "
                "have the root keys sign the next one",
            )


def refused(code: str, message: str, where: str = "") -> Refused:
    """The refusal to raise."""
    return Refused(
        "The node does not move.",
        next_step="It goes on serving its last good release; see `reef-release node explain`.",
        reasons=[Reason(code=code, message=message, where=where)],
    )


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _clock_warnings(document: CurrentDocument, now: str) -> tuple[Reason, ...]:
    behind = _time(document.issued_at) - _time(now)
    if behind <= _CLOCK_SLACK:
        return ()
    return (
        Reason(
            code="clock-behind",
            message=f"this node's clock is {behind} behind the document; set it, because a node "
            "that starts anew with it would believe old documents",
        ),
    )
