"""Design §3 once more, as statements about a list of events; shares no code with the fold.

`Oracle` sees what the fold let through, event by event, and says for each whether it may stand
there, by looking back at the events before it. It knows no state, only history; it re-reads
replies, replays draws and rebuilds tree heads by the definitions, naively.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Fact", "Oracle", "SignerOf"]

SignerOf = Callable[[Any], tuple[str, Any]]
"""From a signed envelope: the id of the key that stands on it, and the payload."""

POINTER = ("release.promoted", "release.rolled_back")
OBJECTIVE = frozenset({"answer@1"})


@dataclass(frozen=True)
class Fact:
    """One event that the fold let through."""

    position: int
    scenario: str
    stream: str
    type: str
    data: Any
    actor: str = ""


class Oracle:
    """*bodies* are the stored bytes of the whole log, violations included.

    *read_body* gives the JSON of a trial's record, *read_suite* the lines of a suite,
    *signer_of* opens envelopes, *bundle_of* gives the signing key and the weights of a bundle,
    *listed_in* the (role, public key) pairs of a root's metadata.
    """

    def __init__(
        self,
        bodies: list[bytes],
        read_body: Callable[[str], Any],
        read_suite: Callable[[str], list[Any]],
        signer_of: SignerOf,
        bundle_of: Callable[[str], tuple[str, str]],
        listed_in: Callable[[str], set[tuple[str, str]]],
    ) -> None:
        self._bodies = bodies
        self._read_body = read_body
        self._read_suite = read_suite
        self._signer_of = signer_of
        self._bundle_of = bundle_of
        self._listed_in = listed_in
        self.history: list[Fact] = []
        self.slots = 6

    def saw(self, fact: Fact) -> None:
        """Assert that *fact* may follow the history, then add it."""
        judge = {
            "key.added": self._key_added,
            "checkpoint.published": self._checkpoint,
            "scenario.created": self._policy,
            "policy.changed": self._policy,
            "gate.opened": self._gate_opened,
            "gate.trial": self._trial,
            "gate.passed": self._passed,
            "release.signed": self._signed,
            "release.promoted": self._promoted,
            "release.rolled_back": self._rolled_back,
        }.get(fact.type)
        if judge is not None:
            judge(fact)
        self.history.append(fact)

    def moves(self, scenario: str, channel: str) -> list[tuple[int, str]]:
        """(position, release) of each move of the pointer."""
        return [
            (fact.position, fact.data.release_id)
            for fact in self._of(*POINTER, scenario=scenario)
            if fact.data.channel == channel
        ]

    # §3, statement by statement

    def _promoted(self, fact: Fact) -> None:
        data, scenario = fact.data, fact.scenario
        # 1. A gate.passed for the same scenario, channel, candidate and base, not used before.
        passes = [
            each
            for each in self._of("gate.passed", scenario=scenario)
            if each.data.gate_id == data.gate_id
        ]
        assert len(passes) == 1, "a promotion without a pass, or with two"
        (passing,) = passes
        assert (passing.data.candidate_id, passing.data.base, passing.data.channel) == (
            data.release_id,
            data.base,
            data.channel,
        ), "the pass was for something else"
        used = [
            each
            for each in self._of("release.promoted", scenario=scenario)
            if each.data.gate_id == data.gate_id
        ]
        assert not used, "a pass was used twice"
        # 3. No pointer event since the gate was opened.
        opened = self._opened(fact.scenario, data.gate_id)
        assert not [
            position
            for position, _ in self.moves(scenario, data.channel)
            if position > opened.position
        ], "the gate was stale"
        served = self.moves(scenario, data.channel)
        assert (served[-1][1] if served else None) == data.base, "the base was not served"
        # 4. Nothing revoked, nothing held.
        self._nothing_revoked(scenario, data.release_id, data.gate_id)
        standing = [
            each.type for each in self._of("scenario.held", "scenario.resumed", scenario=scenario)
        ]
        assert standing[-1:] != ["scenario.held"], "the scenario was held"

    def _rolled_back(self, fact: Fact) -> None:
        data = fact.data
        earlier = [
            each
            for each in self._of("release.promoted", scenario=fact.scenario)
            if (each.data.release_id, each.data.channel) == (data.release_id, data.channel)
        ]
        assert earlier, "a rollback to what was never promoted"
        assert self.moves(fact.scenario, data.channel)[-1][1] != data.release_id
        self._nothing_revoked(fact.scenario, data.release_id, earlier[-1].data.gate_id)

    def _key_added(self, fact: Fact) -> None:
        *_, root = self._of("root.rotated", scenario="_")
        assert (fact.data.role, fact.data.public_key) in self._listed_in(root.data.metadata)

    def _checkpoint(self, fact: Fact) -> None:
        note = fact.data.note
        self._counts(self._signer_of(note)[0], "log", fact.position)
        assert 0 < fact.data.size <= fact.position

    def _policy(self, fact: Fact) -> None:
        # 6. The policy is signed by the policy key and contains an objective verifier.
        key_id, document = self._signer_of(fact.data.policy)
        self._counts(key_id, "policy", fact.position)
        assert document["name"] == fact.scenario
        for part in ("standard", "bootstrap"):
            assert OBJECTIVE & set(document[part]["verifiers"]), "no objective verifier"

    def _gate_opened(self, fact: Fact) -> None:
        # The base is always the release served when the gate opens; its tasks follow from the log.
        data = fact.data
        served = self.moves(fact.scenario, data.channel)
        assert data.base == (served[-1][1] if served else None), "the base is not served"
        assert not [
            each
            for each in self._of("gate.opened", scenario=fact.scenario)
            if each.data.gate_id == data.gate_id
        ], "a gate opens once"
        self._policy_at(fact.scenario, fact)
        self._drawn_by_the_log(fact.scenario, fact)

    def _passed(self, fact: Fact) -> None:
        data, scenario = fact.data, fact.scenario
        opened = self._opened(scenario, data.gate_id)
        assert (opened.data.candidate_id, opened.data.base, opened.data.channel) == (
            data.candidate_id,
            data.base,
            data.channel,
        )
        ends = [
            each
            for each in self._of(
                "gate.passed",
                "gate.failed",
                "gate.inconclusive",
                "gate.errored",
                "gate.stale",
                scenario=scenario,
            )
            if each.data.gate_id == data.gate_id
        ]
        assert not ends, "a gate ended twice"
        key_id, decision = self._signer_of(data.attestation)
        self._counts(key_id, "gate", fact.position)
        assert decision["outcome"] == "passed"
        assert decision["gate_id"] == data.gate_id
        # 2. It follows from the trials by the policy in force when the gate opened.
        policy = self._policy_at(scenario, opened)
        part = policy["standard" if opened.data.base else "bootstrap"]
        self._rule_holds(scenario, opened, part)

    def _rule_holds(self, scenario: str, opened: Fact, part: Any) -> None:
        word = self._word(scenario, opened)
        k, most = part["rule"]["k"], part["rule"]["max_failures"]
        found = re.search(re.escape("+" * k), word)
        assert found is not None, f"{word} holds no run of {k}"
        assert word[: found.start()].count("-") < most, f"{word} had failed before"

    def _trial(self, fact: Fact) -> None:
        data = fact.data
        opened = self._opened(fact.scenario, data.gate_id)
        assert not self._ended(fact.scenario, data.gate_id), "a late trial"
        if data.verdict is None:
            return
        body = self._read_body(data.body)
        task = self._tasks(opened)[data.slot]
        assert data.task_id == body["task_id"] == task["id"], "a task that was not drawn"
        sides = {"candidate": opened.data.candidate_id, "incumbent": opened.data.base}
        assert body["release_id"] == sides[data.side], "a reply of other weights"
        assert body["finish_reason"] == "stop", "a reply cut short was graded"
        (number,) = re.findall(r"-?\d+", body["reply"])
        assert data.verdict.passed == (int(number) == int(task["answer"])), "a lying verdict"

    def _signed(self, fact: Fact) -> None:
        data = fact.data
        # 5. The weights signature is over exactly that id, and after the pass.
        key_id, signed_id = self._bundle_of(data.bundle)
        assert (signed_id, key_id) == (data.release_id, data.key_id), "other weights were signed"
        self._counts(key_id, "release", fact.position)
        passes = [
            each.data.candidate_id
            for each in self._of("gate.passed", scenario=fact.scenario)
            if each.data.gate_id == data.gate_id
        ]
        assert passes == [data.release_id], "signed before its gate passed"
        wanted, found = self._quorum(fact.scenario, data.gate_id, fact.position)
        assert wanted == 1 or found >= wanted, "signed before as many workers passed it"

    # What the statements rest on

    def _of(self, *types: str, scenario: str) -> Iterator[Fact]:
        return (fact for fact in self.history if fact.type in types and fact.scenario == scenario)

    def _opened(self, scenario: str, gate_id: str) -> Fact:
        found = [
            fact
            for fact in self._of("gate.opened", scenario=scenario)
            if fact.data.gate_id == gate_id
        ]
        assert len(found) == 1, "a gate opens once"
        return found[0]

    def _ended(self, scenario: str, gate_id: str) -> bool:
        return any(
            fact.type not in ("gate.opened", "gate.trial") and fact.data.gate_id == gate_id
            for fact in self.history
            if fact.scenario == scenario and fact.type.startswith("gate.")
        )

    def _policy_at(self, scenario: str, opened: Fact) -> Any:
        """The policy in force at *opened*, which is the one that the gate names."""
        *_, newest = (
            fact
            for fact in self._of("scenario.created", "policy.changed", scenario=scenario)
            if fact.position < opened.position
        )
        _, document = self._signer_of(newest.data.policy)
        assert opened.data.policy_digest == newest.data.policy_digest
        assert opened.data.suite == document["suite"]
        return document

    def _word(self, scenario: str, opened: Fact) -> str:
        """The candidate's trials of slots whose every side has replied, + right and - wrong."""
        sides = ("candidate", "incumbent") if opened.data.base else ("candidate",)
        told: dict[tuple[int, str], bool] = {}
        for fact in self._of("gate.trial", scenario=scenario):
            if fact.data.gate_id == opened.data.gate_id and fact.data.verdict is not None:
                place = (fact.data.slot, fact.data.side)
                assert place not in told, "a trial was run until it passed"
                told[place] = fact.data.verdict.passed
        word = ""
        while all((len(word), side) in told for side in sides):
            word += "+" if told[len(word), "candidate"] else "-"
        return word

    def _tasks(self, opened: Fact) -> list[Any]:
        """The draw, by its definition."""
        left, picked = list(self._read_suite(opened.data.suite)), []
        for index in range(self.slots):
            digest = hashlib.sha256(bytes.fromhex(opened.data.seed) + index.to_bytes(8, "big"))
            picked.append(left.pop(int(digest.hexdigest(), 16) % len(left)))
        return picked

    def _drawn_by_the_log(self, scenario: str, opened: Fact) -> None:
        (admitted,) = (
            fact
            for fact in self._of("candidate.admitted", scenario=scenario)
            if fact.data.candidate_id == opened.data.candidate_id
        )
        covering, *_ = (
            fact
            for fact in self._of("checkpoint.published", scenario="_")
            if fact.data.size > admitted.position
        )
        covered = self._bodies[: covering.data.size]
        assert opened.data.checkpoint_position == covering.position
        root = _root([hashlib.sha256(b"\0" + body).digest() for body in covered])
        parts = root.hex() + opened.data.candidate_id + opened.data.policy_digest
        assert opened.data.seed == hashlib.sha256(bytes.fromhex(parts)).hexdigest()

    def _nothing_revoked(self, scenario: str, release_id: str, gate_id: str) -> None:
        for fact in self._of("candidate.revoked", "release.revoked", scenario=scenario):
            subject = getattr(fact.data, "candidate_id", None) or fact.data.release_id
            assert subject != release_id, f"revoked at {fact.position}"
        signed = [
            fact.data
            for fact in self._of("release.signed", scenario=scenario)
            if (fact.data.release_id, fact.data.gate_id) == (release_id, gate_id)
        ]
        assert signed, "no weights signature for this gate"
        now = len(self._bodies)
        (submitted,) = (
            fact.data
            for fact in self._of("candidate.submitted", scenario=scenario)
            if fact.data.candidate_id == release_id
        )
        if submitted.foundation is not None:
            *_, below = (
                fact.data
                for fact in self._of("release.promoted", scenario=scenario)
                if fact.data.release_id == submitted.foundation
            )
            self._nothing_revoked(scenario, below.release_id, below.gate_id)
        self._counts(signed[-1].key_id, "release", now)
        wanted, found = self._quorum(scenario, gate_id, now)
        assert found >= wanted, "a gate key behind it was revoked, or too few workers passed it"
        opened = self._opened(scenario, gate_id)
        *_, policy = (
            fact
            for fact in self._of("scenario.created", "policy.changed", scenario=scenario)
            if fact.position < opened.position
        )
        self._counts(self._signer_of(policy.data.policy)[0], "policy", now)

    def _quorum(self, scenario: str, gate_id: str, now: int) -> tuple[int, int]:
        """How many workers the gate's policy asks for, and how many whose keys count passed it.

        Together with it count passes of its draw with no move of the pointer between them. Who
        shares a key or an actor with another, however indirectly, is no other worker.
        """
        last = self._opened(scenario, gate_id)
        wanted = self._policy_at(scenario, last).get("gate_quorum", 1)
        moved = [position for position, _ in self.moves(scenario, last.data.channel)]
        signed = []
        for fact in self._of("gate.passed", scenario=scenario):
            opened = self._opened(scenario, fact.data.gate_id)
            mine = fact.data.gate_id == gate_id
            same = (opened.data.candidate_id, opened.data.base, opened.data.seed) == (
                last.data.candidate_id,
                last.data.base,
                last.data.seed,
            )
            beside = same and opened.position < last.position and wanted > 1
            if any(opened.position < position < last.position for position in moved):
                beside = False
            key_id = self._signer_of(fact.data.attestation)[0]
            if (mine or beside) and self._is_good(key_id, "gate", now):
                signed.append((key_id, fact.actor))
        groups = list(range(len(signed)))
        for _ in signed:
            for one, (key_id, actor) in enumerate(signed):
                for two, other in enumerate(signed):
                    if key_id == other[0] or actor == other[1]:
                        groups[one] = groups[two] = min(groups[one], groups[two])
        return wanted, len(set(groups))

    def _is_good(self, key_id: str, role: str, position: int) -> bool:
        try:
            self._counts(key_id, role, position)
        except AssertionError:
            return False
        return True

    def _counts(self, key_id: str, role: str, position: int) -> None:
        """The key was added for *role* before *position*, and neither revoked nor dropped."""
        counts, pem = False, ""
        for fact in self._of("key.added", "key.revoked", "root.rotated", scenario="_"):
            if fact.position >= position:
                break
            if fact.type == "root.rotated":
                counts = counts and json.dumps(pem)[1:-1] in fact.data.metadata
            elif fact.data.key_id == key_id:
                counts = fact.type == "key.added" and fact.data.role == role
                pem = getattr(fact.data, "public_key", pem)
        assert counts, f"{key_id[:12]} is no {role} key at {position}"


def _root(leaves: list[bytes]) -> bytes:
    """MTH of RFC 6962 §2.1, as it is written there."""
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + _root(leaves[:split]) + _root(leaves[split:])).digest()
