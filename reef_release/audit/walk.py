"""One pass over an export: its form, its trust, its tree, and (when asked) its whole fold.

Trust is followed in any case: roots, keys and checkpoints are folded with the domain's own
rules, since without them no signature means anything. With *fold* every event is folded. After
an event that breaks the log's form the fold stops where it is, and the pass goes on without.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from reef_release.audit.erasures import Erasures
from reef_release.audit.folder import ExportFolder, Line
from reef_release.audit.history import History
from reef_release.audit.layout import CHECKPOINT, Manifest
from reef_release.audit.references import References
from reef_release.audit.report import Head, Problems
from reef_release.audit.structure import Structure
from reef_release.domain import events as ev
from reef_release.domain.effects import EFFECTS
from reef_release.domain.events import Envelope, Event, EventData
from reef_release.domain.fold import Fold
from reef_release.domain.merkle import MerkleTree, leaf_hash
from reef_release.domain.reasons import Reason
from reef_release.domain.state import State, Violation
from reef_release.errors import BadRequest, InvalidEvent, ReefError
from reef_release.projections.replay import ReplayChecks

__all__ = ["Walk", "violation_problem"]

_TRUST = (ev.RootRotated, ev.KeyAdded, ev.KeyRevoked, ev.CheckpointPublished)


def violation_problem(violation: Violation, reason: Reason) -> tuple[str, str]:
    """Code and message of the problem that a pass notes for *reason*."""
    return reason.code, f"The {violation.type} breaks a rule and has no effect: {_ended(reason)}"


class Walk:
    """The pass over *folder*, against the trust root version 1 in *anchor*."""

    def __init__(
        self,
        folder: ExportFolder,
        manifest: Manifest | None,
        anchor: str,
        problems: Problems,
        *,
        fold: bool,
    ) -> None:
        self.folder = folder
        self.problems = problems
        self.checks = ReplayChecks(anchor, folder.blobs)
        self.structure = Structure(problems)
        self.erasures = Erasures()
        self.history = History()
        self.count = 0
        self.folded = 0
        self.roots: dict[int, str] = {}
        self.trial_positions: dict[str, int] = {}
        self._fold = Fold(self.checks)
        self._replaying = self._folding = fold
        self._violations = 0
        self.with_weights = manifest is not None and manifest.weights
        self._references = References(weights=self.with_weights)
        self.absent: dict[str, bool] = {}
        """The blobs that are missing; False where an event that counts names them."""
        self.known: set[str] = set()
        self.trust: list[str] = []

    @property
    def state(self) -> State:
        """What the events so far say; of trust alone when nothing is folded."""
        return self._fold.state

    @property
    def valid_erasures(self) -> Collection[str] | None:
        """The digests of erasures that the rules allow; None when not all events were folded."""
        return self.state.erased.keys() if self._folding else None

    def resume(self, tree: MerkleTree, trust: Sequence[str], known: Sequence[str]) -> None:
        """Go on behind the first events, of which *tree* is known, without reading them.

        *trust* are their root and key events and the last published checkpoint (stored bytes),
        which are checked again from the anchor on; *known* are digests of blobs that were there.
        Raises `InvalidEvent`, and `BadRequest` when one of them does not stand.
        """
        self.count, self.state.tree = tree.size, tree
        for text in trust:
            envelope = ev.decode_envelope(text.encode("utf-8"))
            data = ev.decode_data(envelope.type, envelope.schema_version, bytes(envelope.data))
            reasons = self._fold.reasons(envelope.scenario, envelope.stream, data)
            if reasons or not isinstance(data, _TRUST):
                raise BadRequest(f"Its {data.TYPE} does not stand: {reasons}.")
            EFFECTS[type(data)](self.state, self.checks, envelope, data)
        self.trust, self.known = list(trust), set(known)
        self.erasures.kept |= self.known

    def run(self) -> None:
        """Read everything once, or all that came after `resume`."""
        for line in self.folder.lines(self.problems, self.count):
            event = self.structure.check(line)
            if self._folding and (line.fault or not self._apply(line, event)):
                self._stop(line)
            if not self._folding:
                if event is not None:
                    self._follow_trust(line, event.envelope, event.data)
                self.state.tree.append(leaf_hash(line.body))
            if event is not None:
                self._need(line, event)
                self.erasures.follow(event)
            self.count += 1
        self.structure.finish()

    def _apply(self, line: Line, decoded: Event | None) -> bool:
        """Fold the event; its violations become problems. False when it breaks the log's form."""
        try:
            event = self._fold.apply(line.body, decoded)
        except InvalidEvent:
            return False  # `Structure` has said why
        if event is not None:
            self.history.follow(event)
        for violation in self.state.violations[self._violations :]:
            for reason in violation.reasons:
                code, message = violation_problem(violation, reason)
                self.problems.add(line.where, code, message, violation.position)
        self._violations = len(self.state.violations)
        self.folded += 1
        return True

    def _stop(self, line: Line) -> None:
        self._folding = False
        message = "The replay stops before this event, since nothing after it can be trusted."
        self.problems.add(line.where, "replay-stopped", message, line.number)

    def _follow_trust(self, line: Line, envelope: Envelope, data: EventData) -> None:
        """Fold roots, keys and checkpoints; of other events check what is signed."""
        if isinstance(data, _TRUST):
            reasons = self._fold.reasons(envelope.scenario, envelope.stream, data)
            for reason in reasons:
                message = f"The {data.TYPE} breaks a rule and has no effect: {_ended(reason)}"
                self.problems.add(line.where, reason.code, message, line.number)
            if not reasons:
                EFFECTS[type(data)](self.state, self.checks, envelope, data)
                self.trust.append(line.body.decode("utf-8"))
            return
        try:
            fault = self._signed_otherwise(data)
        except ReefError as error:
            self.problems.add_error(line.where, error, line.number)
            return
        if fault:
            self.problems.add(line.where, "signature", fault, line.number)

    def _signed_otherwise(self, data: EventData) -> str:
        """What the signature in *data* says against it; "" if it fits or there is none."""
        state = self.state
        match data:
            case ev.ScenarioCreated() | ev.PolicyChanged():
                digest, _, _ = self.checks.policy(data.policy, state.active_keys("policy"))
                if digest != data.policy_digest:
                    return f"The signed policy has the digest {digest}."
            case ev.DecisionPosted():
                keys = state.active_keys("gate")
                _, _, decision = self.checks.decision(data.attestation, keys)
                said = (decision.gate_id, decision.candidate_id, f"gate.{decision.outcome}")
                if said != (data.gate_id, data.candidate_id, data.TYPE):
                    return "The signed decision is of another gate, candidate or outcome."
            case ev.ReleaseSigned():
                keys = state.active_keys("release")
                key_id = self.checks.bundle(data.bundle, data.release_id, keys)
                if key_id != data.key_id:
                    return f"The bundle is signed by the key {key_id}."
        return ""

    def _need(self, line: Line, event: Event) -> None:
        """Note what the event says of files, and check that the export carries them."""
        match event.data:
            case ev.RootRotated(version=version, metadata=metadata):
                self.roots.setdefault(version, metadata)
            case ev.GateTrial(body=str(body)) if self._replaying:
                self.trial_positions.setdefault(body, line.number)
        violations = self.state.violations
        void = bool(violations) and violations[-1].position == line.number
        for reference in self._references.of(event.envelope.scenario, event.data):
            digest = reference.digest
            self.erasures.kept.add(digest)
            if digest in self.known:
                continue
            if self.folder.blobs.exists_sync(digest):
                self.known.add(digest)
                continue
            if digest not in self.absent:
                message = f"The blob is missing: {reference.what} of this {event.data.TYPE}."
                self.problems.add(f"blobs/{digest}", "blob-missing", message, line.number)
            self.absent[digest] = void and self.absent.get(digest, True)

    def check_head(self, note: str | None, claimed: Manifest | None) -> Head | None:
        """Compare the events with the signed checkpoint of the export; call it after `run`."""
        if note is None:
            return None
        try:
            origin, size, root = self.checks.checkpoint(note, self.state.active_keys("log"))
        except ReefError as error:
            self.problems.add_error(CHECKPOINT, error)
            return None
        published = self.state.checkpoints
        if published and published[-1].origin != origin:
            message = f"It is of {origin!r}; the log publishes as {published[-1].origin!r}."
            self.problems.add(CHECKPOINT, "origin", message)
        if claimed is not None and (claimed.origin, claimed.size) != (origin, size):
            message = "The manifest names another origin or size than the checkpoint."
            self.problems.add("manifest.json", "manifest", message)
        if size > self.count:
            message = f"It covers {size} events and the export has {self.count}."
            self.problems.add(CHECKPOINT, "events-missing", message, self.count)
        elif size < self.count:
            message = f"It covers {size} events; nobody vouches for the {self.count - size} after."
            self.problems.add(CHECKPOINT, "events-beyond-checkpoint", message, size)
        if size <= self.count and self.state.tree.root(size).hex() != root:
            good = published[-1].size if published else 0
            message = f"The events from {good} on are not those that were signed."
            self.problems.add(CHECKPOINT, "root", message, good)
        return Head(origin=origin, size=size, root=root)

    def check_earlier(self, note: str, where: str, head: Head | None) -> None:
        """Compare the events with a checkpoint that the auditor kept from an earlier time."""
        keys = [key.ref for key in self.state.keys.values() if key.ref.role == "log"]
        try:
            origin, size, root = self.checks.checkpoint(note, keys)
        except ReefError as error:
            self.problems.add_error(where, error)
            return
        if head is not None and origin != head.origin:
            message = f"It is of the log {origin!r}, the export of {head.origin!r}."
            self.problems.add(where, "origin", message)
        if size > self.count:
            message = f"The log had {size} events then and has {self.count} now: it has shrunk."
            self.problems.add(where, "shrunk", message, self.count)
        elif self.state.tree.root(size).hex() != root:
            message = f"The first {size} events are not those that were signed then."
            self.problems.add(where, "rewritten", message)


def _ended(reason: Reason) -> str:
    """The reason as the end of a sentence; some are sentences themselves."""
    return f"{str(reason).removesuffix('.')}."
