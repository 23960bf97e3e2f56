"""A second checker of exports: `check_export.py EXPORT --root root.json`; exit status 0 is good.

By docs/reference/export-format.md. What broke a rule has no effect and is told by the line of this
file; broken form ends the replay. Of traffic, training, watch, claims, nodes only the place counts.
Unchecked: streams' names; files, origin, admission, foundations; a policy's numbers, its `metric`
(a problem); retired suites; odds, evidence; witnesses. Not PLAIN replies are counted: "unjudged".
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import sys
from base64 import b64decode
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace as Record
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

FORM = r"(?a)[T:\d-]{19}\.\d{6}Z [\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}"
DSSE, IN_TOTO = "dsseEnvelope", "application/vnd.in-toto+json"
SPKI = serialization.PublicFormat.SubjectPublicKeyInfo
# A plain reply: clauses of common words and one equation each, and at the end the claim.
N, MARK = r"(?:0|[1-9]\d{0,8})", r"(?m:^(?:\d\. |- |\*\*Step \d:\*\* ))?"
WORDS = "(?:(?i:first|then|after|next|now|we|i|so|that|and|start|with|have|get|know) )*"
OTHER = "(?:as|equ|ex|gi|gro|gue|hal|has|is|it|less|ma|min|no|one|per|pl|sco|this|tim|un|was|yes)"
UNIT = rf"(?: (?!{OTHER}|\w*(?:ths|zen|dred|ten|sand|lion|arter|ird|pair|akh|ore))[a-z]{{2,}}s)?"
SAYS = r"(?:[Ss]o )?[Tt]he answer is|[Ss]o it is|(?m:^)(?:(?:\*\*)?Final answer:(?:\*\*)?|A:)"
PLAIN = rf"(?a)(?:{MARK}{WORDS}{N} [-+*/] {N} = {N}{UNIT}(?:[.,] |\.?\n))*(?:{SAYS}) ({N}){UNIT}\.?"
encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


def need(*holds: object) -> None:
    if not all(holds):
        raise ValueError("".join(inspect.stack()[1].code_context or []).strip())


def read(path: Path) -> bytes:  # a link leads anywhere, a pipe never ends
    return path.read_bytes() if path.is_file() and not path.is_symlink() else b"\0"


def sha(*data: bytes) -> bytes:
    return hashlib.sha256(b"".join(data)).digest()


class Replay:
    def __init__(self, folder: Path, anchor: str, root: Any = None) -> None:
        self.folder, self.anchor, self.root, self.unjudged = folder, anchor, root, 0
        self.keys, self.scenarios, self.subtrees = (dict[Any, Any]() for _ in range(3))
        self.checkpoints, self.moves, self.leaves = (list[Any]() for _ in range(3))

    def signers(self, keys: list[Any], signatures: list[bytes], data: bytes) -> set[Any]:
        found = set()
        for key, made in [(key, made) for key in keys for made in signatures]:
            how = (ec.ECDSA(hashes.SHA256()),) if key.role == "release" else ()
            with suppress(InvalidSignature):
                key.key.verify(made, data, *how)
                found.add(key.id)
        return found

    def open_root(self, text: str, trusted: Any) -> Record:
        """The root in *text*, signed by n of m of its own root keys and of those of *trusted*."""
        document = json.loads(text)
        signed, make = document["signed"], ed25519.Ed25519PublicKey.from_public_bytes
        # TUF's canonical JSON escapes no newline; all else in a root is written as usual.
        data = encode(signed).encode().replace(b"\\n", b"\n")
        raws = {bytes.fromhex(each["keyval"]["public"]) for each in signed["keys"].values()}
        keys = [Record(role="root", id=raw, key=make(raw)) for raw in raws]
        least, version = signed["roles"]["root"]["threshold"], signed["version"]
        root = Record(keys=keys, version=version, least=least, listed={})
        for role, pems in signed["x-reef-roles"].items():
            for pem in pems:
                key = serialization.load_pem_public_key(pem.encode())
                ident = sha(key.public_bytes(serialization.Encoding.DER, SPKI)).hex()
                root.listed[ident, role, pem] = Record(role=role, key=key, id=ident, revoked=False)
        need(trusted is None or trusted.version + 1 == root.version)
        made = [bytes.fromhex(each["sig"]) for each in document["signatures"]]
        for each in (root, trusted or root):
            need(len(self.signers(each.keys, made, data)) >= each.least > 0)
        return root

    def draw(self, seed: bytes, suite: list[Any], g: Any) -> list[Any]:
        picked = [task for each in g.protected for task in suite if task["id"] == each]
        left = [task for task in suite if task["id"] not in g.protected]
        for index in range(max(map(int, re.findall(r'"max_trials":(\d+)', encode(g.rule))))):
            digest = sha(seed, index.to_bytes(8, "big"))
            while (number := int.from_bytes(digest, "big")) >= 2**256 - 2**256 % len(left):
                digest = sha(digest)
            picked.append(left.pop(number % len(left)))
        return picked

    def step(self, rule: Any, level: Any, state: Any, slot: Any) -> Any:
        """The state of *rule* after a slot: passes of both sides, protected task or None."""
        parts, most, end = rule.get("rules"), rule.get("max_trials", 0), ""
        if state and (state[0] or not (parts or slot[2] in rule.get("tasks", [None]))):
            return state
        if parts:
            pairs = zip(parts, state[1] if state else [None] * len(parts), strict=True)
            after = [self.step(part, level, own, slot) for part, own in pairs]
            order = ["failed", "inconclusive", "", "passed"]
            order = order if rule["kind"] == "all_of" else order[::-1]
            return min((each[0] for each in after), key=order.index), after
        _, trials, good, bad, tied, lead = state or ("", 0, 0, 0, 0, 0)
        (own, other, _), trials = slot or (False, False, None), trials + bool(slot)
        if rule["kind"] in ("improves", "non_regression") or rule.get("alpha"):
            bar, tie = (Fraction(rule.get(each, 0)) for each in ("bar", "margin"))
            best, worst, level = 1 + tie - bar, -bar or tie - 1, Fraction(rule["alpha"] or level)
            sign = own - (not own if bar else other) if slot else 0
            if slot and lead >= 0:
                good, bad, tied = good + (sign > 0), bad + (sign < 0), tied + (sign == 0)
            lead += (tie, best, worst)[sign] if slot else 0
            bets = [Fraction(bet, 16) / -worst for bet in range(1, 16, 2)]
            kept = [(bet, (1 + bet * tie) ** tied * (1 + bet * worst) ** bad) for bet in bets]
            stakes = [sum((1 + s * best) ** n * each for s, each in kept) for n in range(most + 1)]
            needed = next((n for n in range(most + 1) if level * stakes[n] >= 8), most + 1)
            end = "inconclusive" * (trials + max(0, -(lead // best)) + needed - good > most)
            end = "passed" if good >= needed else end
            end = "failed" if -lead >= rule.get("max_deficit", most + 1) else end
        elif slot and rule["kind"] == "pass_rate":
            good, least = good + own, Fraction(rule["bar"]) * most
            end = "passed" if good >= least else "failed" * (good + most - trials < least)
        elif slot and rule["kind"] == "protected":
            end = "passed" * (trials == len(rule["tasks"])) if own or other is False else "failed"
        elif slot:
            good, bad = (good + 1, bad) if own else (0, bad + 1)
            end = "failed" if bad == rule["max_failures"] else "inconclusive" * (trials == most)
            end = "passed" if good == rule["k"] else end
        return end, trials, good, bad, tied, lead

    def judge(self, reply: str, task: Any) -> dict[str, bool]:
        """Verdicts on a plain reply, of which all units stand in the question; else none."""
        claim, answer, steps = re.fullmatch(PLAIN, reply), task["answer"], set[Any]()
        marked = bool(re.match(r"1\. |- ", reply)) or "**" in reply or "Final answer:" in reply
        units = {*re.findall(r"\d ([a-z]+)", reply)} - {*re.findall("[a-z]+", task["question"])}
        listed = re.search(r"(?m)^(\d\.|-) ", reply)
        if units or not claim or not re.fullmatch(N, answer) or (listed and not marked):
            return {}
        for a, sign, b, result in re.findall(rf"({N}) ([-+*/]) ({N}) = ({N})", reply):
            idle = str(int(sign in "*/")) in (b, a if sign in "+*" else "") or sign + b == "/0"
            x, y = Fraction(a), Fraction(b)
            right = {"+": x + y, "-": x - y, "*": x * y, "/": x / (y or 1)}[sign]
            if right == int(result) and not idle:
                steps.add((sign, *(sorted((a, b)) if sign in "+*" else (a, b))))
        right, shown = claim[1] == answer, len(steps) > 1
        return {"answer@1": right, "work_steps@1": shown, "style@1": not marked}

    def tree(self, start: int, end: int) -> Any:
        if end - start < 2:
            return self.leaves[start] if end > start else sha(b"")
        if (start, end) not in self.subtrees:
            middle = start + (1 << (end - start - 1).bit_length() - 1)
            self.subtrees[start, end] = sha(b"\1", self.tree(start, middle), self.tree(middle, end))
        return self.subtrees[start, end]

    def signer(self, role: str, made: list[bytes], data: bytes) -> Any:
        keys = [key for key in self.keys.values() if key.role == role and not key.revoked]
        need(found := self.signers(keys, made, data))
        return min(found)

    def note(self, note: str) -> tuple[str, int, str]:
        text, _, lines = note.rpartition("\n\n")
        origin, size, root = text.split("\n")
        made = [b64decode(line.split(" ")[2])[4:] for line in lines.splitlines()]
        self.signer("log", made, f"{text}\n".encode())
        return origin, int(size), b64decode(root).hex()

    def dsse(self, envelope: Any, kind: str, role: str) -> tuple[bytes, str]:
        payload, made = b64decode(envelope["payload"]), envelope["signatures"]
        data = b"DSSEv1 %d %b %d %b" % (len(kind), kind.encode(), len(payload), payload)
        need(envelope["payloadType"] == kind)
        return payload, self.signer(role, [b64decode(each["sig"]) for each in made], data)

    def canonical(self, data: bytes) -> Any:
        value = json.loads(data, parse_float=int, parse_constant=int)
        need(encode(value).encode() == data)
        return value

    def blob(self, digest: str) -> bytes:
        need(sha(data := read(self.folder / "blobs" / digest)).hex() == digest)
        return data

    def stands(self, s: Any, release_id: str) -> bool:
        c, r = s.c.get(release_id), s.r.get(release_id)
        keys = [self.keys[each] for each in (r.key, r.g.key, r.g.p.key)] if r else []
        return not any(each.revoked for each in (c, r, *keys) if each)

    def pay(self, s: Any, budget: Any, promotions: int) -> Any:
        """What the next draw of *s* pays by e-LOND: alpha * gamma, cut to what is left of alpha."""
        s.drawn += 1
        if budget is None:
            return None
        a, gamma = Fraction(budget["alpha"]), budget["gamma"]
        first, d = gamma["first_block"], gamma["decay"]
        i = ((s.drawn - 1) // first + 1).bit_length() - 1
        own = min(a * d / ((i + d) * (i + d + 1) * first * 2**i), max(a - s.spent, 0 * a))
        level = own * (promotions + 1) if budget["procedure"] == "false_discovery_rate" else own
        share = {"number": s.drawn, "promotions": promotions, "spent": str(s.spent)}
        s.spent += own
        return share | {"share": str(own), "level": str(min(level, Fraction(1)))}

    def apply(self, e: Any, position: int) -> None:
        new = Record(policies=[], undrawn=[], rewarded=[], c={}, g={}, r={}, moves={}, schema=None)
        new.held, new.drawn, new.spent = False, 0, Fraction(0)
        d, s, kind = Record(**e.data), self.scenarios.setdefault(e.scenario, new), e.type
        release_id = getattr(d, "candidate_id", getattr(d, "release_id", None))
        c, r, g = s.c.get(release_id), s.r.get(release_id), s.g.get(getattr(d, "gate_id", None))
        moves = s.moves.setdefault(getattr(d, "channel", None), [])
        passed = g and g.outcome == "passed" and g.c is c
        need((e.scenario == "_") == kind.startswith(("root.", "key.", "checkpoint.")))
        s.held = kind == "scenario.held" or (s.held and kind != "scenario.resumed")
        if kind == "root.rotated":
            need(self.root or d.metadata == self.anchor)
            self.root = self.open_root(d.metadata, self.root)
            for key in self.keys.values():
                key.revoked |= (key.id, key.role) not in {each[:2] for each in self.root.listed}
        elif kind == "key.added":
            need(d.key_id not in self.keys)
            self.keys[d.key_id] = self.root.listed[d.key_id, d.role, d.public_key]
        elif kind == "checkpoint.published":
            last = self.checkpoints[-1] if self.checkpoints else (d.origin, 0)
            need(last[0] == d.origin, last[1] < d.size <= position)
            said = d.origin, d.size, self.tree(0, d.size).hex()
            need(self.note(d.note) == said == (d.origin, d.size, d.root))
            self.checkpoints.append((d.origin, d.size, d.root, position))
            for each in self.scenarios.values():
                self.draws(each, d.size)
        elif kind in ("scenario.created", "policy.changed"):
            payload, key = self.dsse(d.policy, "application/vnd.reef-release.policy+json", "policy")
            doc, digest = self.canonical(payload), sha(payload).hex()
            need(digest == d.policy_digest, doc["name"] == e.scenario)
            need((kind == "policy.changed") == bool(s.policies), self.blob(doc["suite"]))
            need(all("answer@1" in doc[each]["verifiers"] for each in ("standard", "bootstrap")))
            s.schema = getattr(d, "schema", s.schema)
            need(self.blob(s.schema), all(doc["version"] > p.doc["version"] for p in s.policies))
            s.policies.append(Record(doc=doc, digest=digest, key=key, position=position))
        elif kind == "candidate.submitted":
            need(not c)
            s.c[d.candidate_id] = Record(d=d, status="", g=[], revoked=False)
        elif kind in ("candidate.admitted", "candidate.refused"):
            need(not c.status, getattr(d, "schema", s.schema) == s.schema)
            c.status, c.admitted = kind, position
            s.undrawn += [c] * (kind == "candidate.admitted")
        elif kind in ("key.revoked", "candidate.revoked", "release.revoked"):
            {"c": c, "r": r, "k": self.keys.get(getattr(d, "key_id", ""))}[kind[0]].revoked = True
        elif kind == "gate.opened":
            self.open(d, position, s, c, moves)
        elif kind == "gate.trial":
            self.trial(d, g)
        elif kind == "gate.stale":
            need(not g.outcome, s.moves[g.d.channel][-1][0] > g.position)
            g.outcome = "stale"
        elif kind in ("gate.passed", "gate.failed", "gate.inconclusive", "gate.errored"):
            self.decide(e.scenario, d, g, kind.removeprefix("gate."))
        elif kind == "release.signed":
            payload, key = self.dsse(json.loads(self.blob(d.bundle))[DSSE], IN_TOTO, "release")
            need(passed and c.g[-1] is g, key == d.key_id, self.stands(s, d.release_id))
            need(not r or (r.g is not g and not r.promoted), sha(payload).hex() == d.release_id)
            s.r[d.release_id] = Record(g=g, key=key, revoked=False, promoted=False)
        elif kind == "release.approved":
            need(passed, d.reason.strip())
            g.approved.add(e.actor)
        elif kind == "release.promoted":
            need(passed, not s.held, (d.base, d.channel) == (g.d.base, g.d.channel))
            need(not moves or moves[-1][0] < g.position, r and r.g is g)
            need(len(g.approved) >= g.p.doc.get("approvals", 0), self.stands(s, d.release_id))
            r.promoted = True
            s.rewarded += [position] * (g.share is not None)
        elif kind == "release.rolled_back":
            need(any(move[1] == d.release_id for move in moves))
            need(d.reason.strip(), moves[-1][1] != d.release_id, self.stands(s, d.release_id))
        if kind in ("release.promoted", "release.rolled_back"):
            moves.append((position, d.release_id))
            self.moves.append((position, kind, e.scenario, d.channel, d.release_id, e.actor))

    def draws(self, s: Any, size: int) -> None:
        while s.undrawn and s.undrawn[0].admitted < size:
            c = s.undrawn.pop(0)
            p = [each for each in s.policies if each.position < size][-1]
            before = [move[1] for move in s.moves.get(c.d.channel, []) if move[0] < size][-1:]
            promotions, c.drawn = sum(each < size for each in s.rewarded), [p.digest, *before]
            c.share = self.pay(s, p.doc.get("budget"), promotions) if before else None

    def open(self, d: Any, position: int, s: Any, c: Any, moves: list[Any]) -> None:
        p, base = s.policies[-1], moves[-1][1] if moves else None
        phase, doc, budget = "standard" if moves else "bootstrap", p.doc, p.doc.get("budget")
        need(c.status == "candidate.admitted", d.gate_id not in s.g, c.d.channel == d.channel)
        need(self.stands(s, d.candidate_id), not self.keys[p.key].revoked, d.phase == phase)
        need(all(g.outcome for g in s.g.values() if g.d.channel == d.channel))
        r, moved = s.r.get(d.candidate_id), moves[-1][0] if moves else -1
        for old in c.g:
            late = old.outcome == "passed" and moved > old.position and not (r and r.promoted)
            need(late or old.outcome in ("errored", "stale"), old.d.policy_digest == p.digest)
        need((d.base, d.policy_digest, d.suite) == (base, p.digest, doc["suite"]))
        _, _, root, at = next(each for each in self.checkpoints if each[1] > c.admitted)
        seed = sha(bytes.fromhex(root + d.candidate_id + p.digest))
        need(d.checkpoint_position == at, d.seed == seed.hex())
        need(not (budget and base) or c.drawn == [p.digest, base], len(c.g) < doc["max_attempts"])
        share = c.share if base and budget else None
        again = self.pay(s, budget, share["promotions"] if share else 0) if base and c.g else share
        share = share and again
        suite = [json.loads(line) for line in self.blob(d.suite).splitlines() if line.strip()]
        level = Fraction(share["level"]) if share else None
        g = Record(d=d, position=position, c=c, p=p, **doc[phase], level=level, share=share)
        lists = map(json.loads, re.findall(r'"tasks":(\[.*?\])', encode(g.rule)))
        g.protected = [*dict.fromkeys(each for tasks in lists for each in tasks)]
        g.tasks = self.draw(seed, suite, g)
        g.trials, g.slot, g.attempt, g.verdicts, g.errors, g.key = [], 0, 0, [], 0, ""
        g.state, g.outcome, g.approved = self.step(g.rule, level, None, None), "", set()
        s.g[d.gate_id], c.g = g, [*c.g, g]

    def trial(self, d: Any, g: Any) -> None:
        sides = ["candidate", "incumbent"][: 1 + (g.d.base is not None)]
        side, task, verdict = sides[len(g.verdicts)], g.tasks[g.slot], d.verdict
        passed = verdict and verdict["passed"]
        need((d.slot, d.side, d.attempt, g.outcome or g.state[0]) == (g.slot, side, g.attempt, ""))
        need(d.task_id == task["id"], (verdict is None) != (d.error is None), d.body or d.error)
        if d.body:
            body = json.loads(self.blob(d.body)[32:])
            number = sha(b"sampling", bytes.fromhex(g.d.seed), g.slot.to_bytes(8, "big")).hex()
            right = {"task_id": task["id"], "side": side, "sampling_seed": int(number[:8], 16) >> 1}
            right["release_id"] = g.d.base if side == "incumbent" else g.d.candidate_id
            need(body | right == body, 0 < len(body["token_ids"]) == len(body["logprobs"]))
            need((body["finish_reason"] == "stop") == (verdict is not None))
        if verdict:
            said, own = verdict["checks"], self.judge(body["reply"], task)
            self.unjudged += len(said.keys() - own.keys())
            need([*said] == sorted(g.verifiers), passed == all(said.values()))
            need(all(own.get(each, said[each]) == said[each] for each in said))
            g.verdicts.append(passed)
        summary = vars(d) | {"passed": passed, "tokens": None}
        hidden = ["gate_id", "verdict"] + ["error", "tokens"] * ("budget" not in g.p.doc)
        g.trials.append({key: value for key, value in summary.items() if key not in hidden})
        g.errors, g.attempt = g.errors + bool(d.error), g.attempt + 1 if d.error else 0
        if len(g.verdicts) == len(sides):
            named = task["id"] if task["id"] in g.protected else None
            g.state = self.step(g.rule, g.level, g.state, (*[*g.verdicts, None][:2], named))
            g.slot, g.verdicts = g.slot + 1, []
        g.state = ("errored",) if g.errors > g.p.doc["max_errors"] else g.state

    def decide(self, name: str, d: Any, g: Any, outcome: str) -> None:
        need(outcome != "passed" or self.blob(d.canary), not g.outcome)
        need(outcome in (g.state[0], "errored"))
        payload, key = self.dsse(d.attestation, IN_TOTO, "gate")
        subject, predicate = (self.canonical(payload)[each] for each in ("subject", "predicate"))
        said = predicate["urn:reef-release:gate:v1"]
        said["candidate_id"] = subject[0]["digest"]["sha256"]
        said["policy_digest"] = predicate["policy"]["digest"]["sha256"]
        right = {"outcome": outcome, "verifiers": g.verifiers, "trial_count": len(g.trials)}
        right |= {"scenario": name, "trials_digest": sha(encode(g.trials).encode()).hex()}
        right |= {"budget": g.share} if "budget" in g.p.doc else {}
        del d.attestation
        need(said == said | right | vars(g.d), said == said | vars(d))
        need((predicate["verificationResult"] == "PASSED") == (outcome == "passed"))
        g.outcome, g.key = outcome, key


def main() -> int:
    export, _, root_file = map(Path, sys.argv[1:])
    replay, found = Replay(export, root_file.read_text("utf-8")), list[tuple[int, str]]()
    ids, versions, time, position, going = dict[Any, Any](), dict[Any, int](), "", 0, True
    for path in sorted((export / "events").iterdir()):
        *lines, rest = read(path).split(b"\n")
        if path.name != f"{position:012}.jsonl" or position % 10_000 or rest:
            found.append((position + len(lines) * bool(rest), "segment"))
        for line in lines:
            was, going = going, False
            try:
                e = Record(**replay.canonical(line))
                need(len(vars(e)) == 12, len(line) < 65536, e.position == position)
                key = (e.scenario, e.stream)
                need(e.version == versions.get(key, 0) + 1, e.recorded_at >= time)
                need(re.fullmatch(FORM, f"{e.recorded_at} {e.event_id}"), e.event_id not in ids)
                versions[key], ids[e.event_id], time, going = e.version, 1, e.recorded_at, was
                if going:
                    replay.apply(e, position)
            except Exception as error:
                found.append((position, str(error)))
            replay.leaves.append(sha(b"\0", line))
            position += 1
    blobs = (export / "blobs").iterdir()
    found += [(position, path.name) for path in blobs if sha(read(path)).hex() != path.name]
    try:
        _, size, root = replay.note(read(export / "checkpoint").decode())
        need(size == position, root == replay.tree(0, position).hex())
    except Exception as error:
        found.append((replay.checkpoints[-1][1] if replay.checkpoints else 0, str(error)))
    result = {"events": position, "promotions": replay.moves, "problems": found}
    print(json.dumps(result | {"unjudged": replay.unjudged}, indent=1))
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
