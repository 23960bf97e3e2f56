"""A second checker of audit exports, written from docs/reference/export-format.md alone.

Two files lie beside it: `check_log.py` (files, form, tree, keys, signatures) and `check_rules.py`
(draws, verdicts, rules). All need Python and `cryptography` alone and share no line with
reef-release. What breaks a rule is told and has no effect; broken form ends the replay.

Not checked: names of streams; model files against what candidates list; what candidates come from
and why they are refused; copies of weights, foundations; a policy's numbers; retired suites; odds
and evidence in decisions; witnesses; events of other kinds; whether the weights give these replies.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

from check_log import MAX_LINE, Folder, Log, words_of
from check_rules import Gate, Record, canonical, need, pay, sha, tasks_wanted

POLICY, IN_TOTO = "application/vnd.reef-release.policy+json", "application/vnd.in-toto+json"

MAX_TOLD = 50


class Replay(Log):
    """The log with what follows from it: policies, candidates, gates, releases by scenario."""

    def __init__(self, anchor: str) -> None:
        super().__init__(anchor)
        self.scenarios, self.moves = dict[str, Any](), list[Any]()
        self.judged, self.unjudged, self.others = Counter[str](), Counter[str](), Counter[str]()

    def apply(self, e: Any, d: Any, position: int) -> None:
        """Let an event have its effect; what may not have it is `Wrong`."""
        new = Record(policies=[], undrawn=[], rewarded=[], candidates={}, gates={}, moves={})
        new.schema, new.held, new.drawn, new.spent = None, False, 0, Fraction(0)
        s, family = self.scenarios.setdefault(e.scenario, new), e.type.partition(".")[0]
        of_trust = family in ("root", "key", "checkpoint")
        need(trust_alone_is_of_no_scenario=(e.scenario == "_") == of_trust)
        known = {"scenario": self.on_scenario, "policy": self.on_policy, "gate": self.on_gate}
        known |= {"candidate": self.on_candidate, "release": self.on_release}
        if of_trust:
            super().apply(e, d, position)
            for each in self.scenarios.values() if family == "checkpoint" else ():
                self.draws(each, d.size)
        elif family in known and e.type != "gate.claimed":
            known[family](e, d, s, position)
        else:
            self.others[e.type] += 1

    def draws(self, s: Any, size: int) -> None:
        """A checkpoint over *size* events draws, and has pay, every candidate that it covers."""
        while s.undrawn and s.undrawn[0].admitted < size:
            c = s.undrawn.pop(0)
            p = [each for each in s.policies if each.position < size][-1]
            moves = [each for each in s.moves.get(c.channel, []) if each[0] < size]
            c.drawn = p.digest, moves[-1][1] if moves else None
            if moves:
                c.share = self.pay(s, p, sum(each < size for each in s.rewarded))

    def pay(self, s: Any, p: Any, promotions: int) -> Any:
        s.drawn += 1
        if not p.doc.get("budget"):
            return None
        share, s.spent = pay(p.doc["budget"], s.drawn, promotions, s.spent)
        return share

    def on_scenario(self, e: Any, d: Any, s: Any, position: int) -> None:
        if e.type in ("scenario.held", "scenario.resumed"):
            held = e.type == "scenario.held"
            need(it_was_created_and_is_held_or_not=s.policies and s.held != held)
            s.held = held
        else:
            need(the_scenario_is_created_once=not s.policies)
            self.on_policy(e, d, s, position)

    def on_policy(self, e: Any, d: Any, s: Any, position: int) -> None:
        payload, key = self.dsse(d.policy, POLICY, "policy")
        doc, digest = canonical(payload), sha(payload).hex()
        need(policy_digest=(d.policy_digest, digest), name=(doc["name"], e.scenario))
        need(the_scenario_was_created=s.policies or e.type == "scenario.created")
        need(the_version_grows=all(doc["version"] > each.doc["version"] for each in s.policies))
        for part in (doc["standard"], doc["bootstrap"]):
            need(each_part_has_an_objective_verifier="answer@1" in part["verifiers"])
        schema = s.schema or d.schema
        self.blob(schema)
        suite = self.blob(doc["suite"])
        tasks = sum(bool(line.strip()) for line in suite.split(b"\n"))
        wanted = [tasks_wanted(doc[each]["rule"]) for each in ("standard", "bootstrap")]
        need(the_suite_is_long_enough=tasks >= max(wanted))
        s.schema = schema
        s.policies.append(Record(doc=doc, digest=digest, key=key, position=position, suite=suite))

    def on_candidate(self, e: Any, d: Any, s: Any, position: int) -> None:
        c = s.candidates.get(d.candidate_id)
        if e.type == "candidate.submitted":
            need(the_candidate_is_new=not c)
            new = Record(channel=d.channel, status="", gates=[], signed=None, promoted=False)
            new.revoked = new.release_revoked = False
            s.candidates[d.candidate_id] = new
            return
        need(the_candidate_was_submitted=c)
        if e.type == "candidate.revoked":
            need(it_was_not_revoked_before=not c.revoked)
            c.revoked = True
            return
        need(it_was_not_decided_before=not c.status)
        admitted = e.type == "candidate.admitted"
        need(schema=(d.schema if admitted else s.schema, s.schema))
        c.status, c.admitted, c.drawn, c.share = e.type, position, (), None
        if admitted:
            s.undrawn.append(c)
        else:
            self.others[e.type] += 1

    def nothing_revoked(self, c: Any) -> bool:
        """Whether neither candidate nor release is revoked, nor a key on which they rest."""
        gate = c.signed
        keys = [c.key, gate.key, gate.policy.key] if gate else []
        revoked = c.revoked or c.release_revoked
        return not revoked and not any(self.keys[each].revoked for each in keys)

    def on_gate(self, e: Any, d: Any, s: Any, position: int) -> None:
        if e.type == "gate.opened":
            self.open(d, s, position)
            return
        gate = s.gates.get(d.gate_id)
        need(the_gate_was_opened=gate)
        need(the_gate_is_not_decided=not gate.outcome)
        if e.type == "gate.trial":
            gate.take(d, self.blob(d.body) if d.body else None)
            self.judged.update(gate.judged)
            self.unjudged.update(gate.unjudged)
        elif e.type == "gate.stale":
            moved = s.moves.get(gate.d.channel, [(-1,)])[-1][0]
            need(the_channel_serves_another_since_the_gate_opened=moved > gate.position)
            need(pointer_position=(d.pointer_position, moved))
            gate.outcome = "stale"
        else:
            self.decide(e, d, gate, e.type.removeprefix("gate."))

    def open(self, d: Any, s: Any, position: int) -> None:
        c, p, moves = s.candidates.get(d.candidate_id), s.policies[-1], s.moves.get(d.channel, [])
        moved, base = moves[-1] if moves else (-1, None)
        need(the_candidate_was_admitted=c and c.status == "candidate.admitted")
        need(nothing_is_revoked=self.nothing_revoked(c) and not self.keys[p.key].revoked)
        need(channel=(d.channel, c.channel), the_gate_is_new=d.gate_id not in s.gates)
        others = [gate for gate in s.gates.values() if gate.d.channel == d.channel]
        need(no_gate_of_the_channel_is_open=all(gate.outcome for gate in others))
        for old in c.gates:
            late = old.outcome == "passed" and moved > old.position and not c.promoted
            need(no_gate_decided_on_it_before=late or old.outcome in ("errored", "stale"))
            need(policy_of_its_gates=(p.digest, old.d.policy_digest))
        need(it_had_fewer_gates_than_max_attempts=len(c.gates) < p.doc["max_attempts"])
        draw = next((each for each in self.checkpoints if each.size > c.admitted), None)
        need(a_checkpoint_covers_the_admission=draw)
        seed = sha(bytes.fromhex(f"{draw.root}{d.candidate_id}{p.digest}")).hex() if draw else ""
        need(base=(d.base, base), phase=(d.phase, "standard" if moves else "bootstrap"))
        need(policy=(d.policy_digest, p.digest), suite=(d.suite, p.doc["suite"]))
        need(checkpoint=(d.checkpoint_position, draw and draw.position), seed=(d.seed, seed))
        budget = base and p.doc.get("budget")
        need(
            policy_and_base_of_the_draw=not budget
            or (c.drawn, (p.digest, base))[0] == (p.digest, base)
        )
        share = c.share if budget else None
        if base and c.gates:
            again = self.pay(s, p, share["promotions"] if share else 0)
            share = share and again
        gate = Gate(d, p.doc, p.suite, share)
        gate.candidate, gate.policy, gate.position = c, p, position
        s.gates[d.gate_id] = gate
        c.gates.append(gate)

    def decide(self, e: Any, d: Any, gate: Any, outcome: str) -> None:
        need(the_outcome_is_due=outcome in (gate.due(), "errored"))
        if outcome == "passed":
            self.blob(d.canary)
        payload, key = self.dsse(d.attestation, IN_TOTO, "gate")
        statement = canonical(payload)
        predicate = statement["predicate"]
        said = predicate["urn:reef-release:gate:v1"]
        said["candidate_id"] = statement["subject"][0]["digest"]["sha256"]
        said["policy_digest"] = predicate["policy"]["digest"]["sha256"]
        event = {name: value for name, value in e.data.items() if name != "attestation"}
        right = {"outcome": outcome, "scenario": e.scenario} | gate.facts() | vars(gate.d) | event
        for name, value in right.items():
            need(**{f"{name} in the signed decision": (said.get(name, "nothing"), value)})
        result = "PASSED" if outcome == "passed" else "FAILED"
        need(verification_result=(predicate["verificationResult"], result))
        gate.outcome, gate.key = outcome, key

    def on_release(self, e: Any, d: Any, s: Any, position: int) -> None:
        c = s.candidates.get(d.release_id)
        need(the_candidate_was_submitted=c)
        if e.type == "release.revoked":
            need(the_release_was_signed=c.signed, and_not_revoked_before=not c.release_revoked)
            c.release_revoked = True
            return
        if e.type == "release.rolled_back":
            moves = s.moves.get(d.channel, [])
            need(it_was_served_before=any(each[1] == d.release_id for each in moves))
            need(another_is_served_now=moves[-1][1] != d.release_id)
            need(there_is_a_reason=d.reason.strip(), nothing_is_revoked=self.nothing_revoked(c))
            self.move(e, d, s, position)
            return
        gate = s.gates.get(d.gate_id)
        need(its_gate_passed=gate and gate.outcome == "passed" and gate.candidate is c)
        moved = s.moves.get(gate.d.channel, [(-1,)])[-1][0] > gate.position
        if e.type == "release.signed":
            bundle = json.loads(self.blob(d.bundle))
            payload, key = self.dsse(bundle["dsseEnvelope"], IN_TOTO, "release")
            need(release_of_the_bundle=(sha(payload).hex(), d.release_id), key_id=(d.key_id, key))
            need(this_gate_is_the_last_of_the_candidate=c.gates[-1] is gate)
            need(nothing_is_revoked=self.nothing_revoked(c))
            need(it_was_not_signed_for_this_gate=c.signed is not gate, nor_promoted=not c.promoted)
            c.signed, c.key = gate, key
        elif e.type == "release.approved":
            need(there_is_a_reason=d.reason.strip(), nothing_is_revoked=self.nothing_revoked(c))
            need(it_was_not_promoted_yet=not c.promoted, nothing_moved_since_its_gate=not moved)
            gate.approvals.add(e.actor)
        elif e.type == "release.promoted":
            need(base=(d.base, gate.d.base), channel=(d.channel, gate.d.channel))
            need(no_other_was_served_since_the_gate_opened=not moved)
            need(the_weights_were_signed_for_this_gate=c.signed is gate)
            need(enough_people_approved=len(gate.approvals) >= gate.doc.get("approvals", 0))
            need(the_scenario_is_not_held=not s.held, nothing_is_revoked=self.nothing_revoked(c))
            c.promoted = True
            s.rewarded += [position] * (gate.share is not None)
            self.move(e, d, s, position)

    def move(self, e: Any, d: Any, s: Any, position: int) -> None:
        s.moves.setdefault(d.channel, []).append((position, d.release_id))
        self.moves.append((position, e.type, e.scenario, d.channel, d.release_id, e.actor))


def result_of(replay: Replay) -> dict[str, Any]:
    """All that is printed."""
    not_checked = (__doc__ or "").partition("Not checked: ")[2]
    return {
        "trust_anchor": sha(replay.anchor.encode()).hex(),
        "checkpoint": replay.head,
        "events": len(replay.leaves),
        "files": sum(len(each.sizes) for each in replay.folders),
        "promotions": replay.moves,
        "judged": replay.judged.total(),
        "unjudged": replay.unjudged.total(),
        "unjudged_by_verifier": replay.unjudged,
        "only_counted": replay.others,
        "not_checked": " ".join(not_checked.split()),
        "problems": replay.problems,
        "problem_count": replay.problem_count,
    }


def tell(result: dict[str, Any]) -> list[str]:
    """The same for people, line by line; what comes from the export cannot steer a terminal."""
    head = result["checkpoint"]
    lines = [f"Rests on the trust root with the SHA-256 {result['trust_anchor']}, which you gave."]
    lines += [f"Read {result['events']} events and {result['files']} files."]
    lines += [f"Checkpoint: {head['origin']}, {head['size']}, {head['root']}"] if head else []
    for position, kind, scenario, channel, release, actor in result["promotions"]:
        lines.append(f"{position}: {kind} of {release[:12]} in {scenario}/{channel} by {actor}")
    by = ", ".join(f"{count} of {name}" for name, count in result["unjudged_by_verifier"].items())
    lines += [f"Judged again: {result['judged']} verdicts."]
    lines += [f"Taken as recorded, since their replies are not plain: {by}."] if by else []
    kinds = result["only_counted"].most_common(MAX_TOLD)
    others = ", ".join(f"{count} {name}" for name, count in sorted(kinds))
    lines += [f"Only counted, with form and place: {others}."] if others else []
    lines += [f"Not checked: {result['not_checked']}"]
    for each in result["problems"][:MAX_TOLD]:
        where = "" if each["position"] is None else f"position {each['position']}, "
        lines.append(f"PROBLEM {where}{each['place']}: {each['problem']}.")
    count = result["problem_count"]
    lines += ["All of them: --json. Most follow from the first."] if count > MAX_TOLD else []
    lines += [f"{count} problems." if count else "Good: no problem was found in what was checked."]
    return ["".join(c if c.isprintable() else ascii(c)[1:-1] for c in line) for line in lines]


def main(arguments: list[str] | None = None) -> int:
    epilog = "Exit status: 0 nothing wrong was found, 1 problems were, 2 it could not be checked."
    words = "Check an audit export again, and say what does not hold in it."
    parser = argparse.ArgumentParser("check_export.py", description=words, epilog=epilog)
    parser.add_argument(
        "export", type=Path, nargs="+", help="folder; of incremental ones all, the oldest first"
    )
    parser.add_argument(
        "--root", type=Path, required=True, help="trust root 1, not had from the service"
    )
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    given = parser.parse_args(arguments)
    try:
        folders = [Folder(each) for each in given.export]
    except OSError as error:
        parser.error(f"{error.filename}: {error.strerror}; give the folder of an export")
    try:
        small = given.root.is_file() and given.root.stat().st_size < MAX_LINE
        need(it_is_a_file_of_less_than_64_KiB=small)
        replay = Replay(given.root.read_bytes().decode())
    except Exception as error:
        parser.error(f"{given.root} is no trust root: {words_of(error)}; give root.json")
    for folder in folders:
        replay.read(folder)
    result = result_of(replay)
    print(json.dumps(result, indent=1) if given.json else "\n".join(tell(result)))
    return 1 if replay.problem_count else 0


if __name__ == "__main__":
    raise SystemExit(main())
