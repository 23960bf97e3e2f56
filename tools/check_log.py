"""Files, form, tree, roots, keys and signatures of an export, for `check_export.py`.

Nothing but regular files inside the folders is read, and none that is large as a whole; what is
looked at of keys and signatures is bounded. It needs Python and `cryptography` alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from check_rules import Record, Wrong, canonical, encode, need, sha
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

MAX_LINE, MAX_FILE = 65_536, 64 * 1024 * 1024  # bytes; longer files are hashed, and never read
MAX_KEYS, MAX_SIGNATURES, MAX_PROBLEMS, SEGMENT = 64, 32, 1000, 10_000
FORM = r"(?a)[T:\d-]{19}\.\d{6}Z [\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}"
TYPES = frozenset(
    re.findall(
        r"[a-z_.]+",
        """
batch.claimed batch.formed batch.released batch.restored body.erased candidate.admitted
candidate.refused candidate.revoked candidate.submitted checkpoint.published gate.claimed
gate.errored gate.failed gate.inconclusive gate.opened gate.passed gate.stale gate.trial
interaction.failed interaction.recorded judge.resumed judge.suspended key.added key.revoked
node.loaded node.refused policy.changed release.approved release.promoted release.revoked
release.rolled_back release.signed report.received root.rotated sample.refused scenario.created
scenario.held scenario.resumed session.expired signal.alarm_cleared signal.alarm_raised
training.completed training.failed training.started training.step turn.bound turn.judged
turn.judging_failed turn.unbound watch.fallen watch.trial""",
    )
)
WHOLE = "make a whole one: reef-release audit export FOLDER, without --since"


class Folder:
    """One folder of an export: its regular files with their sizes, and what else stands there."""

    def __init__(self, path: Path) -> None:
        self.path, self.sizes, self.odd, parts = path, dict[str, int](), list[str](), [""]
        for part in parts:
            for each in os.scandir(path / part):
                name, folder = part + each.name, each.is_dir(follow_symlinks=False)
                if each.is_file(follow_symlinks=False):
                    self.sizes[name] = each.stat(follow_symlinks=False).st_size
                elif folder and name in ("events", "blobs", "trust"):
                    parts.append(f"{name}/")
                else:
                    self.odd.append(name)

    def read(self, name: str) -> bytes:
        """A file of sensible size as a whole."""
        if not 0 <= self.sizes.get(name, -1) <= MAX_FILE:
            raise Wrong(f"expected a regular file of at most {MAX_FILE} bytes, found none")
        return (self.path / name).read_bytes()

    def digest(self, name: str) -> str:
        with (self.path / name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def lines(self, name: str) -> Iterator[bytes]:
        with (self.path / name).open("rb") as file:
            while line := file.readline(MAX_LINE):
                yield line


def words_of(error: Exception) -> str:
    """What went wrong, for whoever reads the result."""
    if isinstance(error, OSError):
        return f"expected a file that can be read, found: {error.strerror}"
    if isinstance(error, (Wrong, AttributeError)):
        return str(error)
    if isinstance(error, KeyError):
        return f"expected a field or entry {error}, found none"
    return f"expected the form that the format page says, found otherwise: {error}"


def verifies(key: Any, signature: bytes, data: bytes) -> bool:
    how = (ec.ECDSA(hashes.SHA256()),) if isinstance(key, ec.EllipticCurvePublicKey) else ()
    try:
        key.verify(signature, data, *how)
    except InvalidSignature:
        return False
    return True


def open_root(text: str, trusted: Any = None) -> Record:
    """The root in *text*, signed by n of m of its own root keys and of those of *trusted*."""
    document = json.loads(text)
    signed, make = document["signed"], ed25519.Ed25519PublicKey.from_public_bytes
    made = {each["keyid"]: bytes.fromhex(each["sig"]) for each in document["signatures"]}
    keys = {name: bytes.fromhex(key["keyval"]["public"]) for name, key in signed["keys"].items()}
    least, version = signed["roles"]["root"]["threshold"], signed["version"]
    need(version_of_the_root=(version, trusted.version + 1 if trusted else version))
    need(there_are_at_most_64_root_keys=len(keys) <= MAX_KEYS)
    root = Record(keys=keys, least=least, version=version, listed=set())
    # TUF's canonical JSON escapes no newline; all else in a root is written as usual.
    data = encode(signed).encode().replace(b"\\n", b"\n")
    for each in (trusted or root, root):
        pairs = {each.keys[name]: made[name] for name in made if name in each.keys}
        good = sum(verifies(make(raw), signature, data) for raw, signature in pairs.items())
        if not good >= each.least > 0:
            who = f"root keys of version {each.version}"
            raise Wrong(f"expected signatures of {each.least} {who}, found {good}")
    for role, pems in signed["x-reef-roles"].items():
        root.listed |= {(role, pem) for pem in pems}
    return root


class Log:
    """The log so far, and the problems: each has a position or none, a place, and words."""

    def __init__(self, anchor: str) -> None:
        self.anchor, self.trusted, self.root = (
            anchor,
            open_root(anchor),
            Record(listed=(), version=0),
        )
        self.keys, self.subtrees, self.versions = (dict[Any, Any]() for _ in range(3))
        self.roots, self.folders = dict[int, str](), list[Folder]()
        self.checkpoints, self.leaves = list[Any](), list[bytes]()
        self.ids, self.time, self.stopped = set[str](), "", False
        self.head: Any = None
        self.problems, self.problem_count = list[dict[str, Any]](), 0

    @contextmanager
    def noting(self, place: str, position: int | None = None) -> Iterator[None]:
        """What goes wrong inside becomes a problem in words."""
        try:
            yield
        except Exception as error:
            self.problem_count += 1
            if self.problem_count <= MAX_PROBLEMS:
                found = {"position": position, "place": place, "problem": words_of(error)[:1000]}
                self.problems.append(found)

    # The folders

    def read(self, folder: Folder) -> None:
        """Read one folder; of several each goes on from the one before it."""
        manifest: Any = None
        with self.noting("manifest.json"):
            manifest = json.loads(folder.read("manifest.json"))
            form = manifest["format"], manifest["format_version"]
            need(format=(form, ("reef-release-export", 1)))
            since = manifest.get("since")
            if since and not self.folders:
                words = f"found one that goes on from event {since['size']}; give those before it"
                raise Wrong(f"expected a whole export, {words} first, the oldest first, or {WHOLE}")
            need(the_checkpoint_that_it_goes_on_from=(since, self.head))
            self.folders.insert(0, folder)
        if folder not in self.folders:
            return
        first = len(self.leaves)
        for name in sorted(each for each in folder.sizes if each.startswith("events/")):
            with self.noting(name, len(self.leaves)):
                self.segment(folder, name, first)
        head: dict[str, Any] = {"size": len(self.leaves)}
        vouched = self.checkpoints[-1].size if self.checkpoints else 0
        with self.noting("checkpoint", vouched):
            head = self.note(folder.read("checkpoint").decode())
            origin = self.checkpoints[-1].origin if self.checkpoints else head["origin"]
            root = self.tree(0, min(head["size"], len(self.leaves))).hex()
            need(origin=(head["origin"], origin), root_over_the_events=(head["root"], root))
            self.head = head
        with self.noting("checkpoint", min(head["size"], len(self.leaves))):
            need(number_of_events_here=(len(self.leaves), head["size"]))
            need(size_in_the_manifest=(manifest["size"], head["size"]))
        with self.noting("manifest.json"):
            self.files(folder, manifest)

    def segment(self, folder: Folder, name: str, first: int) -> None:
        at = len(self.leaves)
        with self.noting(name, at):
            need(name_by_its_first_event=(name, f"events/{at:012}.jsonl"))
            need(the_files_before_have_10000_lines=(at - first) % SEGMENT == 0)
        for line in folder.lines(name):
            if not line.endswith(b"\n"):
                with self.noting("event", len(self.leaves)):
                    raise Wrong(f"expected a line of at most {MAX_LINE} bytes, found no end of it")
                return
            self.take(line[:-1])

    def files(self, folder: Folder, manifest: Any) -> None:
        """All files against the manifest; blobs by their digest, roots by what the log says."""
        listed: dict[str, Any] = {"manifest.json": None, "checkpoint": None}
        for each in manifest["segments"]:
            listed[f"events/{each['first']:012}.jsonl"] = each["size_bytes"], None
        for each in manifest["blobs"]:
            listed[f"blobs/{each['sha256']}"] = each["size_bytes"], each["sha256"]
        for version in manifest["roots"]:
            text = self.roots.get(version, "").encode()
            listed[f"trust/root.{version}.json"] = len(text), sha(text).hex()
        for name in sorted({*listed, *folder.sizes, *folder.odd}):
            with self.noting(name):
                need(it_is_listed_in_the_manifest=name in listed)
                need(it_is_there_as_a_regular_file=name in folder.sizes)
                size, digest = listed[name] or (folder.sizes[name], None)
                need(size_in_bytes=(folder.sizes[name], size))
                need(sha256=(folder.digest(name) if digest else None, digest))
        need(blobs_that_the_service_could_not_give=(manifest["missing"], []))

    def blob(self, digest: str) -> bytes:
        name = f"blobs/{digest}"
        folder = next((each for each in self.folders if name in each.sizes), None)
        need(**{f"the blob {digest} is there": folder})
        data = folder.read(name) if folder else b""
        need(digest_of_the_blob=(sha(data).hex(), digest))
        return data

    # The form of events, and the tree

    def take(self, line: bytes) -> None:
        """The next event: its form and, unless a form was broken before, what it does."""
        position, stopped, e = len(self.leaves), self.stopped, Record(type="event")
        self.leaves.append(sha(b"\0", line))
        with self.noting("event", position):
            self.stopped = True
            e = Record(**canonical(line))
            need(number_of_fields=(len(vars(e)), 12), position=(e.position, position))
            need(**{f"{e.type} is a type of events": e.type in TYPES})
            key = e.scenario, e.stream
            need(version_in_its_stream=(e.version, self.versions.get(key, 0) + 1))
            need(time_does_not_run_backwards=e.recorded_at >= self.time)
            need(time_and_id_have_their_form=re.fullmatch(FORM, f"{e.recorded_at} {e.event_id}"))
            need(no_event_before_has_its_id=e.event_id not in self.ids)
            self.versions[key], self.time, self.stopped = e.version, e.recorded_at, stopped
            self.ids.add(e.event_id)
        if not self.stopped:
            with self.noting(e.type, position):
                self.apply(e, Record(**e.data), position)

    def tree(self, start: int, end: int) -> bytes:
        if end - start < 2:
            return self.leaves[start] if end > start else sha(b"")
        if (start, end) not in self.subtrees:
            middle = start + (1 << (end - start - 1).bit_length() - 1)
            self.subtrees[start, end] = sha(b"\1", self.tree(start, middle), self.tree(middle, end))
        return bytes(self.subtrees[start, end])

    # Signatures

    def signer(self, role: str, made: list[Any], data: bytes) -> str:
        """The key that signed *data*; signatures of keys that do not count do not matter."""
        known = [
            (self.keys[name], each) for name, each in made[:MAX_SIGNATURES] if name in self.keys
        ]
        pairs = [each for each in known if each[0].role == role and not each[0].revoked]
        if not pairs or not all(verifies(key.key, each, data) for key, each in pairs):
            raise Wrong(f"expected the signature of a {role} key that counts here, found none")
        return str(pairs[0][0].id)

    def note(self, note: str) -> dict[str, Any]:
        """Origin, size and root that a log key signed."""
        text, _, lines = note.rpartition("\n\n")
        origin, size, root = text.split("\n")
        logs = [key for key in self.keys.values() if key.role == "log"]
        ids = {sha(f"{origin}\n\1".encode(), k.key.public_bytes_raw())[:4]: k.id for k in logs}
        made = [b64decode(line.split(" ")[2]) for line in lines.splitlines()[:MAX_SIGNATURES]]
        self.signer("log", [(ids.get(each[:4]), each[4:]) for each in made], f"{text}\n".encode())
        return {"origin": origin, "size": int(size), "root": b64decode(root).hex()}

    def dsse(self, envelope: Any, kind: str, role: str) -> tuple[bytes, str]:
        payload, signatures = b64decode(envelope["payload"]), envelope["signatures"]
        need(type_of_the_envelope=(envelope["payloadType"], kind))
        data = b"DSSEv1 %d %b %d %b" % (len(kind), kind.encode(), len(payload), payload)
        made = [(each["keyid"], b64decode(each["sig"])) for each in signatures[:MAX_SIGNATURES]]
        return payload, self.signer(role, made, data)

    # What events of trust do

    def apply(self, e: Any, d: Any, position: int) -> None:
        """Let an event of trust have its effect; one that may not have it raises `Wrong`."""
        {"root": self.on_root, "key": self.on_key}.get(e.type.split(".")[0], self.on_checkpoint)(
            e, d, position
        )

    def on_root(self, e: Any, d: Any, position: int) -> None:
        self.roots.setdefault(d.version, d.metadata)
        need(the_first_root_is_the_trust_anchor=self.root.listed or d.metadata == self.anchor)
        root = open_root(d.metadata, self.root) if self.root.listed else self.trusted
        need(version=(d.version, root.version))
        self.root = root
        for key in self.keys.values():
            key.revoked |= (key.role, key.pem) not in self.root.listed

    def on_key(self, e: Any, d: Any, position: int) -> None:
        if e.type == "key.revoked":
            known = self.keys.get(d.key_id)
            need(the_key_was_added=known and known.role == d.role)
            need(it_was_not_revoked_before=known and not known.revoked)
            self.keys[d.key_id].revoked = True
            return
        need(root_version=(d.root_version, self.root.version))
        need(the_root_in_force_lists_the_key=(d.role, d.public_key) in self.root.listed)
        need(the_key_was_not_added_before=d.key_id not in self.keys)
        key: Any = serialization.load_pem_public_key(d.public_key.encode())
        form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        need(key_id=(d.key_id, sha(key.public_bytes(*form)).hex()))
        added = Record(id=d.key_id, role=d.role, pem=d.public_key, key=key, revoked=False)
        self.keys[d.key_id] = added

    def on_checkpoint(self, e: Any, d: Any, position: int) -> None:
        last = self.checkpoints[-1] if self.checkpoints else Record(origin=d.origin, size=0)
        need(it_covers_more_than_the_last_and_what_stands_before=last.size < d.size <= position)
        right = {"origin": last.origin, "size": d.size, "root": self.tree(0, d.size).hex()}
        need(origin=(d.origin, last.origin), root=(d.root, right["root"]))
        need(signed_note=(self.note(d.note), right))
        self.checkpoints.append(Record(**right, position=position))
