"""A second checker of audit exports: one file, written from docs/reference/export-format.md alone.

What breaks a rule is told and has no effect; broken form ends the replay. Exit status: 0 good, 1
problems, 2 it was not checked. Not checked: parts made with --since, policies with a gate_quorum or
metrics (problems); manifests, copies of roots; streams, ids, types; where candidates come from;
model files, foundations; numbers and suites of policies; holds and keys ended twice; approvals too
late; odds, evidence; witnesses. Replies that are not plain count as "unjudged".
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from base64 import b64decode
from collections import Counter, defaultdict
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace as Record
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

MAX_LINE, MAX_FILE, MAX_SIGNED = 65_536, 64 * 1024 * 1024, 64  # bytes, bytes, signatures
# A plain reply: clauses of common words and one equation each, and at the end the claim.
N, MARK = r"(?:0|[1-9]\d{0,8})", r"(?m:^(?:\d\. |- |\*\*Step \d:\*\* ))?"
WORDS = "(?:(?i:first|then|after|next|now|we|i|so|that|and|start|with|have|get|know) )*"
OTHER = "(?:as|equ|ex|gi|gro|gue|hal|has|is|it|less|ma|min|no|one|per|pl|sco|this|tim|un|was|yes)"
UNIT = rf"(?: (?!{OTHER}|\w*(?:ths|zen|dred|ten|sand|lion|arter|ird|pair|akh|ore))[a-z]{{2,}}s)?"
SAYS = r"(?:[Ss]o )?[Tt]he answer is|[Ss]o it is|(?m:^)(?:(?:\*\*)?Final answer:(?:\*\*)?|A:)"
PLAIN = rf"(?a)(?:{MARK}{WORDS}{N} [-+*/] {N} = {N}{UNIT}(?:[.,] |\.?\n))*(?:{SAYS}) ({N}){UNIT}\.?"
encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


def need(there: Any = None, **right: Any) -> None:
    """Names are the words of a finding: of values *there*, of pairs of what is and must be."""
    for name, each in right.items():
        pair = each if isinstance(each, tuple) else (bool(each), True)
        found, expected = pair if there is None else (there.get(name), each)
        if found != expected:
            words = (json.dumps(value, default=str)[:300] for value in (expected, found))
            raise ValueError("{}: expected {}, found {}".format(name.replace("_", " "), *words))


def sha(*data: bytes) -> bytes:
    return hashlib.sha256(b"".join(data)).digest()


class Replay:
    def __init__(self, folder: Path, anchor: str) -> None:
        self.folder, self.anchor, self.root = folder.resolve(True), anchor, self.open_root(anchor)
        self.keys, self.subtrees, self.seen, self.scenarios = (dict[Any, Any]() for _ in range(4))
        self.checkpoints, self.leaves, self.moves, self.problems = (list[Any]() for _ in range(4))
        self.count, self.time, self.going = Counter[str](), "", True

    def attempt(self, place: str, position: int | None, act: Any, *given: Any) -> None:
        try:
            act(*given)
        except Exception as error:
            name = error.args[0] if isinstance(error, KeyError) else getattr(error, "name", "")
            words = f"expected a field {name}, found none" if name else str(error) or repr(error)
            self.problems.append({"position": position, "place": place, "problem": words})

    def read(self, folder: str, name: str) -> bytes:
        path = self.folder / folder / name
        small = path.resolve() == path and path.is_file() and path.stat().st_size <= MAX_FILE
        need(**{f"{name} is a regular file of at most {MAX_FILE} bytes": small})
        data = path.read_bytes()
        need(sha256=(sha(data).hex() if folder == "blobs" else name, name))
        return data

    def tree(self, start: int, end: int) -> Any:
        if end - start < 2:
            return self.leaves[start] if end > start else sha(b"")
        if (start, end) not in self.subtrees:
            middle = start + (1 << (end - start - 1).bit_length() - 1)
            self.subtrees[start, end] = sha(b"\1", self.tree(start, middle), self.tree(middle, end))
        return self.subtrees[start, end]

    def signer(self, keys: Any, role: str, made: Any, data: bytes, least: int = 1) -> Any:
        keys, found = {n: k for n, k in keys.items() if k.role == role and not k.revoked}, {}
        for key, each in [(keys[name], each) for name, each in made if name in keys][:MAX_SIGNED]:
            with suppress(Exception):
                key.key.verify(each, data, *[ec.ECDSA(hashes.SHA256())] * (role == "release"))
                found[key.key_id] = key
        need(**{f"enough {role} keys that count here signed it": len(found) >= least > 0})
        return found[min(found)]

    def open_root(self, text: str, before: Any = None) -> Record:
        document = json.loads(text)
        signed, make = document["signed"], ed25519.Ed25519PublicKey.from_public_bytes
        made = {each["keyid"]: bytes.fromhex(each["sig"]) for each in document["signatures"]}
        root = Record(version=signed["version"], rule=signed["roles"]["root"], keys={})
        for name, key in signed["keys"].items():
            raw = bytes.fromhex(key["keyval"]["public"])
            root.keys[name] = Record(role="root", key_id=raw, key=make(raw), revoked=False)
        root.listed = {(role, pem) for role, pems in signed["x-reef-roles"].items() for pem in pems}
        need(version=(root.version, before.version + 1 if before else root.version))
        data = encode(signed).encode().replace(b"\\n", b"\n")  # as TUF has it: no newline escaped
        for each in (before or root, root):
            self.signer(each.keys, "root", made.items(), data, each.rule["threshold"])
        return root

    def note(self, note: str) -> dict[str, Any]:
        text, _, lines = note.rpartition("\n\n")
        origin, size, root = text.split("\n")
        made = [(k, b64decode(x.split(" ")[2])[4:]) for k in self.keys for x in lines.splitlines()]
        self.signer(self.keys, "log", made, f"{text}\n".encode())
        return {"origin": origin, "size": int(size), "root": b64decode(root).hex()}

    def dsse(self, envelope: Any, role: str, of: str = "in-toto") -> tuple[Any, str, Any]:
        payload, kind = b64decode(envelope["payload"]), f"application/vnd.{of}+json"
        data = b"DSSEv1 %d %b %d %b" % (len(kind), kind.encode(), len(payload), payload)
        made = [(each["keyid"], b64decode(each["sig"])) for each in envelope["signatures"]]
        need(envelope, payloadType=kind)
        return json.loads(payload), sha(payload).hex(), self.signer(self.keys, role, made, data)

    def apply(self, e: Any) -> None:
        new = Record(policies=[], undrawn=[], rewarded=[], candidates={}, gates={}, held=False)
        new.moves, new.draws, new.spent = defaultdict(lambda: [(-1, None)]), 0, Fraction(0)
        d, s, kind = Record(**e.data), self.scenarios.setdefault(e.scenario, new), e.type
        c = s.candidates.get(getattr(d, "candidate_id", getattr(d, "release_id", None)))
        g, key = s.gates.get(getattr(d, "gate_id", 0)), self.keys.get(getattr(d, "key_id", 0))
        moves = s.moves[getattr(d, "channel", g and g.d.channel)]
        passed = g and g.outcome == "passed" and g.c is c
        stands = not any(each.revoked for each in c.rests) if c else None
        if kind == "root.rotated":
            need(the_first_root_is_the_one_given=self.keys or d.metadata == self.anchor)
            self.root = self.open_root(d.metadata, self.root if self.keys else None)
            for each in self.keys.values():
                each.revoked |= (each.role, each.public_key) not in self.root.listed
        elif kind == "key.added":
            need(it_is_new=not key, it_is_listed=(d.role, d.public_key) in self.root.listed)
            key = serialization.load_pem_public_key(d.public_key.encode())
            need(vars(d), key_id=sha(b64decode("".join(d.public_key.splitlines()[1:-1]))).hex())
            self.keys[d.key_id] = Record(**vars(d), key=key, revoked=False)
        elif kind in ("key.revoked", "candidate.revoked", "release.revoked"):
            what: Any = c if kind == "candidate.revoked" or (c and c.signed) else key
            what.revoked = True
        elif kind == "checkpoint.published":
            last = self.checkpoints[-1] if self.checkpoints else Record(origin=d.origin, size=0)
            need(it_covers_more_than_the_last=last.size < d.size <= e.position)
            need(vars(d), **self.note(d.note))
            need(origin=(d.origin, last.origin), root=(d.root, self.tree(0, d.size).hex()))
            self.checkpoints.append(Record(**vars(d), position=e.position))
            for s in self.scenarios.values():
                while s.undrawn and s.undrawn[0].at < d.size:
                    c = s.undrawn.pop(0)
                    p = [each for each in s.policies if each.position < d.size][-1]
                    base = [each[1] for each in s.moves[c.channel] if each[0] < d.size][-1]
                    count, c.drawn = sum(each < d.size for each in s.rewarded), (p.digest, base)
                    c.share = self.pay(s, p.doc, count) if base else None
        elif kind in ("scenario.created", "policy.changed"):
            need(it_is_created_first_and_once=bool(s.policies) == (kind == "policy.changed"))
            doc, digest, key = self.dsse(d.policy, "policy", "reef-release.policy")
            need(policy_digest=(d.policy_digest, digest), name=(doc["name"], e.scenario))
            need(its_version_grows=all(doc["version"] > each.doc["version"] for each in s.policies))
            need(answer_1=all("answer@1" in doc[x]["verifiers"] for x in ("standard", "bootstrap")))
            s.schema = s.schema if s.policies else d.schema
            need(suite=self.read("blobs", doc["suite"]), schema=self.read("blobs", s.schema))
            s.policies.append(Record(doc=doc, digest=digest, key=key, position=e.position))
        elif kind in ("scenario.held", "scenario.resumed"):
            s.held = kind == "scenario.held"
        elif kind == "candidate.submitted":
            need(the_candidate_is_new=not c, the_scenario_was_created=s.policies)
            c = Record(channel=d.channel, gates=[], at=0, signed=None, promoted=False)
            s.candidates[d.candidate_id], c.rests, c.revoked = c, [c], False
        elif kind == "candidate.admitted":
            need(it_was_not_admitted_before=not c.at, schema=(d.schema, s.schema))
            c.at, s.undrawn = e.position, [*s.undrawn, c]
        elif kind == "gate.opened":
            need(the_candidate_was_admitted=c and c.at, nothing_is_revoked=stands, it_is_new=not g)
            self.open(e, d, s, c)
        elif kind == "gate.trial":
            self.trial(d, g)
        elif kind == "gate.stale":
            need(it_is_open=not g.outcome, the_pointer_moved=moves[-1][0] > g.position)
            g.outcome = g.due = "stale"
        elif kind in ("gate.passed", "gate.failed", "gate.inconclusive", "gate.errored"):
            outcome = kind.removeprefix("gate.")
            need(it_is_due=outcome in (g.due, "errored") and not g.outcome)
            need(canary=outcome != "passed" or self.read("blobs", d.canary))
            statement, _, key = self.dsse(d.__dict__.pop("attestation"), "gate")
            predicate, (subject,) = statement["predicate"], statement["subject"]
            said = {"budget": None} | predicate | predicate["urn:reef-release:gate:v1"]
            said["candidate_id"] = subject["digest"]["sha256"]
            said["policy_digest"] = predicate["policy"]["digest"]["sha256"]
            right = vars(g.d) | vars(d) | {"outcome": outcome, "verifiers": g.verifiers}
            right |= {"verificationResult": "PASSED" if outcome == "passed" else "FAILED"}
            right |= {"trials_digest": sha(encode(g.trials).encode()).hex()}
            need(said, scenario=e.scenario, budget=g.share, trial_count=len(g.trials), **right)
            g.outcome, g.due, g.key = outcome, outcome, key
        elif kind == "release.signed":
            bundle = json.loads(self.read("blobs", d.bundle))["dsseEnvelope"]
            _, digest, key = self.dsse(bundle, "release")
            need(vars(d), release_id=digest, key_id=key.key_id)
            need(its_gate_passed=passed, nothing_is_revoked=stands, it_is_last=c.gates[-1] is g)
            need(it_is_new=c.signed is not g and not c.promoted)
            c.signed, c.rests = g, [c, key, g.key, g.p.key]
        elif kind == "release.approved":
            need(its_gate_passed=passed, nothing_is_revoked=stands, reason=d.reason.strip())
            g.approvals.add(e.actor)
        elif kind == "release.promoted":
            need(its_gate_passed=passed, nothing_is_revoked=stands, held=(s.held, False))
            need(vars(d), base=g.d.base, channel=g.d.channel)
            need(nothing_moved=moves[-1][0] < g.position, signed_for_this_gate=c.signed is g)
            need(enough_people_approved=len(g.approvals) >= g.p.doc.get("approvals", 0))
            c.promoted, s.rewarded = True, s.rewarded + [e.position] * (g.share is not None)
        elif kind == "release.rolled_back":
            need(it_was_served=d.release_id in [each[1] for each in moves], reason=d.reason.strip())
            need(it_is_not_served=moves[-1][1] != d.release_id, nothing_is_revoked=stands)
        else:
            self.count[kind] += 1
        if kind in ("release.promoted", "release.rolled_back"):
            moves.append((e.position, d.release_id))
            self.moves.append((e.position, kind, e.scenario, d.channel, d.release_id, e.actor))

    def pay(self, s: Any, doc: Any, promotions: int) -> Any:
        s.draws, budget = s.draws + 1, doc.get("budget")
        if not budget:
            return None
        a, first, d = Fraction(budget["alpha"]), *map(budget["gamma"].get, ("first_block", "decay"))
        i = ((s.draws - 1) // first + 1).bit_length() - 1
        own = min(a * d / ((i + d) * (i + d + 1) * first * 2**i), max(a - s.spent, 0 * a))
        level = own * (promotions + 1) if budget["procedure"] == "false_discovery_rate" else own
        share = {"number": s.draws, "promotions": promotions, "spent": str(s.spent)}
        s.spent += own
        return share | {"share": str(own), "level": str(min(level, Fraction(1)))}

    def open(self, e: Any, d: Any, s: Any, c: Any) -> None:
        p, (moved, base) = s.policies[-1], s.moves[d.channel][-1]
        doc, phase = p.doc, "standard" if base else "bootstrap"
        budget = base and doc.get("budget")
        need(gate_quorum_judged_here=(doc.get("gate_quorum", 1), 1), policy_key=not p.key.revoked)
        undecided = [g for g in s.gates.values() if g.d.channel == d.channel and not g.outcome]
        need(open_gates=(len(undecided), 0), attempts_left=len(c.gates) < doc["max_attempts"])
        for g in c.gates:
            late = g.outcome == "passed" and moved > g.position and not c.promoted
            need(undecided=late or g.outcome in ("errored", "stale"), policy=(p.digest, g.p.digest))
        point = next(each for each in self.checkpoints if each.size > c.at)
        seed = sha(bytes.fromhex(point.root + d.candidate_id + p.digest))
        need(vars(d), policy_digest=p.digest, suite=doc["suite"], seed=seed.hex(), base=base)
        need(vars(d), checkpoint_position=point.position, channel=c.channel, phase=phase)
        need(policy_and_base_of_the_draw=not budget or c.drawn == (p.digest, base))
        share = c.share if budget else None
        paid = self.pay(s, doc, share["promotions"] if share else 0) if base and c.gates else share
        rule = encode(doc[phase]["rule"])
        lists = map(json.loads, re.findall(r'"tasks":(\[.*?\])', rule))
        g = Record(d=d, p=p, c=c, position=e.position, share=share and paid, **doc[phase])
        protected = dict.fromkeys(each for tasks in lists for each in tasks)
        suite = filter(bytes.strip, self.read("blobs", d.suite).split(b"\n"))
        tasks = {task["id"]: task for task in map(json.loads, suite)}
        g.tasks, left = [(tasks.pop(each), each) for each in protected], [*tasks.values()]
        for index in range(max(map(int, re.findall(r'"max_trials":(\d+)', rule)))):
            digest = sha(seed, index.to_bytes(8, "big"))
            while (number := int.from_bytes(digest, "big")) >= 2**256 - 2**256 % len(left):
                digest = sha(digest)
            g.tasks.append((left.pop(number % len(left)), None))
        g.trials, g.slot, g.attempt, g.passed, g.errors, g.outcome = [], 0, 0, [], 0, ""
        g.sides = [("candidate", d.candidate_id), ("incumbent", base)][: 2 if base else 1]
        g.approvals, g.course = set(), self.course(g.rule, g.share["level"] if g.share else 0)
        g.due = g.now = next(g.course)
        s.gates[d.gate_id], g.seed, c.gates = g, seed, [*c.gates, g]

    def course(self, rule: Any, level: Any) -> Any:
        """Takes slots (passes of both sides, protected task) and gives the outcome or ""."""
        kind, most, now, slot = rule["kind"], rule.get("max_trials", 0), "", None
        parts = [self.course(part, level) for part in rule.get("rules", ())]
        order = ["failed", "inconclusive", "", "passed"][:: 1 if kind == "all_of" else -1]
        alpha, bar, tie = (Fraction(rule.get(x) or 0) for x in ("alpha", "bar", "margin"))
        level, scores = alpha or Fraction(level), (tie, 1 + tie - bar, -bar or tie - 1)
        stakes = {Fraction(bet, 16) / -scores[-1]: Fraction(1) for bet in range(1, 16, 2)}
        trials, good, run, lead, lost = 0, 0, 0, Fraction(0), False
        while True:
            left, passed, failed, over = most - trials, False, False, False
            if parts:
                now = now or min((part.send(slot) for part in parts), key=order.index)
            elif kind in ("improves", "non_regression") or alpha:
                wins = left - max(0, -(lead // scores[1]))
                best = sum(stake * (1 + bet * scores[1]) ** wins for bet, stake in stakes.items())
                passed, over = sum(stakes.values()) * level >= 8, best * level < 8
                failed = -lead >= rule.get("max_deficit", most + 1)
            elif kind == "pass_rate":
                passed, failed = good >= bar * most, good + left < bar * most
            elif kind == "protected":
                passed, failed = trials == len({*rule["tasks"]}), lost
            else:
                need(kind_of_rule_that_is_judged_here=(kind, "consecutive_passes"))
                passed, failed = run == rule["k"], trials - good == rule["max_failures"]
                over = left == 0
            now = now or ("failed" if failed else "passed" if passed else "inconclusive" * over)
            own, other, protected = slot = yield now
            if parts or now or protected not in rule.get("tasks", [None]):
                continue
            score = scores[own - (not own if bar else bool(other))]
            if lead >= 0:
                stakes = {bet: stake * (1 + bet * score) for bet, stake in stakes.items()}
            trials, good, run, lead = trials + 1, good + own, own * (run + 1), lead + score
            lost = lost or not (own or other is False)

    def judge(self, reply: str, task: Any) -> dict[str, bool]:
        claim, answer, steps = re.fullmatch(PLAIN, reply), task["answer"], set[Any]()
        mark = bool(re.match(r"1\. |- ", reply)) or "**" in reply or "Final answer:" in reply
        units = {*re.findall(r"\d ([a-z]+)", reply)} - {*re.findall("[a-z]+", task["question"])}
        listed = re.search(r"(?m)^(\d\.|-) ", reply)
        if units or not claim or not re.fullmatch(N, answer) or (listed and not mark):
            return {}
        for a, sign, b, result in re.findall(rf"({N}) ([-+*/]) ({N}) = ({N})", reply):
            idle = str(int(sign in "*/")) in (b, a if sign in "+*" else "") or sign + b == "/0"
            x, y = Fraction(a), Fraction(b)
            right = {"+": x + y, "-": x - y, "*": x * y, "/": x / (y or 1)}[sign]
            if right == int(result) and not idle:
                steps.add((sign, *(sorted((a, b)) if sign in "+*" else (a, b))))
        return {"answer@1": claim[1] == answer, "work_steps@1": len(steps) > 1, "style@1": not mark}

    def trial(self, d: Any, g: Any) -> None:
        (side, release), (task, protected) = g.sides[len(g.passed)], g.tasks[g.slot]
        need(outcome_that_is_due=(g.due, ""), verdict_or_error=bool(d.verdict) != bool(d.error))
        need(vars(d), slot=g.slot, side=side, task_id=task["id"], attempt=g.attempt)
        if d.body or d.verdict:
            body = json.loads(self.read("blobs", d.body)[32:])
            seed = int(sha(b"sampling", g.seed, g.slot.to_bytes(8, "big")).hex()[:8], 16) >> 1
            need(body, task_id=task["id"], side=side, release_id=release, sampling_seed=seed)
            need(there_are_tokens=0 < len(body["token_ids"]) == len(body["logprobs"]))
            need(a_whole_reply_has_a_verdict=(body["finish_reason"] == "stop") == bool(d.verdict))
        if d.verdict:
            said, own = d.verdict["checks"], self.judge(body["reply"], task)
            need(verifiers=({*said}, {*g.verifiers}), ok=(d.verdict["passed"], all(said.values())))
            need(said, **{name: own[name] for name in said if name in own})
            self.count.update(f"{'judged' if name in own else 'unjudged'} {name}" for name in said)
            g.passed.append(d.verdict["passed"])
        hidden = ["gate_id", "verdict"] + ["error", "tokens"] * ("budget" not in g.p.doc)
        summary = vars(d) | {"passed": d.verdict and d.verdict["passed"], "tokens": None}
        g.trials.append({key: value for key, value in summary.items() if key not in hidden})
        g.errors, g.attempt = g.errors + bool(d.error), g.attempt + 1 if d.error else 0
        if len(g.passed) == len(g.sides):
            g.now = g.course.send((*[*g.passed, None][:2], protected))
            g.slot, g.passed = g.slot + 1, []
        g.due = "errored" if g.errors > g.p.doc["max_errors"] else g.now

    def line(self, line: bytes) -> None:
        position, going, self.going = len(self.leaves), self.going, False
        self.leaves.append(sha(b"\0", line[:-1]))
        e = Record(**json.loads(line, parse_float=int, parse_constant=int))
        need(canonical_JSON=encode(vars(e)).encode() + b"\n" == line, fields=(len(vars(e)), 12))
        need(vars(e), position=position, version=self.seen.get((e.scenario, e.stream), 0) + 1)
        need(time_goes_on=e.recorded_at >= self.time, the_id_is_new=e.event_id not in self.seen)
        self.seen[e.scenario, e.stream], self.seen[e.event_id] = e.version, True
        self.time, self.going = e.recorded_at, going
        if going:
            self.attempt(e.type, position, self.apply, e)

    def file(self, path: Path) -> None:
        need(it_is_a_regular_file=path.is_file() and path.resolve() == path)
        with path.open("rb") as file:
            if path.parent == self.folder / "blobs":
                need(sha256=(hashlib.file_digest(file, "sha256").hexdigest(), path.name))
            if path.parent == self.folder / "events":
                need(name_by_its_first_event=(path.name, f"{len(self.leaves):012}.jsonl"))
                while line := file.readline(MAX_LINE):
                    self.attempt("event", len(self.leaves), self.line, line)
                    need(its_lines_end=line[-1:] == b"\n")

    def end(self) -> None:
        head, count = self.note(self.read("", "checkpoint").decode()), len(self.leaves)
        need(head, size=count, root=self.tree(0, count).hex())

    def check(self) -> None:
        part = "since" in json.loads(self.read("", "manifest.json"))
        need(**{"it is whole, as made by: reef-release audit export FOLDER": not part})
        for path in sorted(self.folder.rglob("*"), key=lambda p: (p.parent.name == "blobs", p)):
            if path.parent != self.folder or path.is_symlink() or not path.is_dir():
                self.attempt(str(path.relative_to(self.folder)), None, self.file, path)
        self.attempt("checkpoint", self.checkpoints[-1].size if self.checkpoints else 0, self.end)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("check_export.py", description=__doc__)
    parser.add_argument("export", type=Path, help="folder of a whole export")
    parser.add_argument("--root", type=Path, required=True, help="root.json, from elsewhere")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    given = parser.parse_args(arguments)
    try:
        replay = Replay(given.export, given.root.read_bytes().decode())
    except Exception as error:
        parser.error(f"{error}; give the folder of an export, and root.json")
    replay.attempt("manifest.json", None, replay.check)
    result = {"trust_anchor": sha(replay.anchor.encode()).hex(), "events": len(replay.leaves)}
    result |= {"promotions": replay.moves, "counts": {**replay.count}, "problems": replay.problems}
    lines = [f"{name}: {each}" for name, each in result.items() if name != "problems"]
    lines += ["position {position}, {place}: {problem}".format(**each) for each in replay.problems]
    print(json.dumps(result, indent=1) if given.json else "\n".join(ascii(x)[1:-1] for x in lines))
    return 1 if replay.problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
