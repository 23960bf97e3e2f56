"""A second checker of exports: `check_export.py EXPORT --root root.json`; exit status 0 is good.

Written from docs/reference/export-format.md, with Python and `cryptography` alone: form, tree,
checkpoints, roots, keys, signatures, draws, gates, decisions, and the rule of the pointer. What
broke a rule has no effect and is told by the line of this file; broken form ends the replay. Not
checked: what the rule does not read (traffic, training, watch, claims, nodes) but for its place;
streams' names; files, origin, admission, foundations of candidates; numbers of a policy; retired
suites; odds and evidence of a decision; witnesses. Rules but `all_of`, `any_of`, `improves` and
`consecutive_passes` are problems here. Only `answer@1` is rewritten, for plain replies; other
verdicts are taken as they are and counted as "unjudged".
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import re
from base64 import b64decode
from collections import defaultdict
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
# A plain reply: clauses of words around an equation, no word of doubt, at the end the claim.
CLAUSE = r"(?:[1-5]\. |- )?[A-Za-z' ]*(?:\d+ [-+*/] \d+ = \d+[a-z ]*)?[.,]?"
CLAIM = r"(?:So )?(?:[Tt]he answer is|(?:\*\*)?Final answer:(?:\*\*)?|A:) (\d{1,9})\.?"
DOUBT = r"(?i)\b(or|if|no|not|may\w*|might|perhaps|possibly|sure|idea|\w*guess\w*|\w*grade\w*)\b"
encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


def need(*holds: object) -> None:
    if not all(holds):
        raise ValueError("".join(inspect.stack()[1].code_context or []).strip())


def sha(*data: bytes) -> bytes:
    return hashlib.sha256(b"".join(data)).digest()


def canonical(data: bytes) -> Any:
    value = json.loads(data, parse_float=int, parse_constant=int)
    need(encode(value).encode() == data)
    return value


class Replay:
    def __init__(self, folder: Path, anchor: str, root: Any = None) -> None:
        self.folder, self.anchor, self.root, self.unjudged = folder, anchor, root, 0
        self.keys, self.scenarios = dict[str, Any](), defaultdict[str, Any](self.scenario)
        self.checkpoints, self.moves, self.leaves = list[Any](), list[Any](), list[bytes]()
        self.subtrees = dict[Any, bytes]()

    def signers(self, keys: list[Any], signatures: list[bytes], data: bytes) -> set[Any]:
        """The ids of those of *keys* that made one of *signatures* over *data*."""
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
        root = Record(keys=keys, version=version, least=least, listed=[])
        for role, pems in signed["x-reef-roles"].items():
            for pem in pems:
                key = serialization.load_pem_public_key(pem.encode())
                ident = sha(key.public_bytes(serialization.Encoding.DER, SPKI)).hex()
                root.listed.append(Record(role=role, pem=pem, key=key, id=ident, revoked=False))
        need(trusted is None or trusted.version + 1 == root.version)
        made = [bytes.fromhex(each["sig"]) for each in document["signatures"]]
        for each in (root, trusted or root):
            need(len(self.signers(each.keys, made, data)) >= each.least > 0)
        return root

    def draw(self, seed: bytes, tasks: list[Any], rule: Any) -> list[Any]:
        """As many of *tasks* as *rule* may need, without replacement, by rejection sampling."""
        left, picked = list(tasks), []
        for index in range(max(map(int, re.findall(r'"max_trials":(\d+)', encode(rule))))):
            digest = sha(seed, index.to_bytes(8, "big"))
            while (number := int.from_bytes(digest, "big")) >= 2**256 - 2**256 % len(left):
                digest = sha(digest)
            picked.append(left.pop(number % len(left)))
        return picked

    def step(self, rule: Any, level: Any, state: Any, slot: Any) -> Any:
        """The state of *rule* after a slot (candidate, incumbent passed); its outcome is first."""
        kind, most, end = rule["kind"], rule.get("max_trials", 0), ""
        if state and state[0]:
            return state
        if kind in ("all_of", "any_of"):
            before = state[1] if state else [None] * len(rule["rules"])
            pairs = zip(rule["rules"], before, strict=True)
            after = [self.step(part, level, own, slot) for part, own in pairs]
            order = ["failed", "inconclusive", "", "passed"][:: 1 if kind == "all_of" else -1]
            return min((each[0] for each in after), key=order.index), after
        _, trials, good, bad, lead = state or ("", 0, 0, 0, 0)
        candidate, incumbent = slot or (False, False)
        trials += bool(slot)
        if kind == "improves":
            score, level = candidate - incumbent, Fraction(rule["alpha"] or level)
            good, bad, lead = good + (score > 0 <= lead), bad + (score < 0 <= lead), lead + score
            odds = [(Fraction(16 + b, 16), Fraction(16 - b, 16)) for b in range(1, 16, 2)]
            stakes = [[win**n * loss**bad for win, loss in odds] for n in range(most + 1)]
            needed = next((n for n in range(most + 1) if level * sum(stakes[n]) >= 8), most + 1)
            end = "inconclusive" * (trials + max(0, -lead) + needed - good > most)
            end = "failed" if lead <= -rule["max_deficit"] else "passed" if good >= needed else end
        elif slot or kind != "consecutive_passes":
            need(kind == "consecutive_passes")
            good, bad = (good + 1, bad) if candidate else (0, bad + 1)
            end = "failed" if bad == rule["max_failures"] else "inconclusive" * (trials == most)
            end = "passed" if good == rule["k"] else end
        return end, trials, good, bad, lead

    def judge(self, reply: str, answer: str) -> bool | None:
        """The verdict of `answer@1` on a plain reply; None where this checker cannot say."""
        *clauses, last = re.split(r"(?<=[.,]) |\n", reply)
        plain = all(re.fullmatch(CLAUSE, each) for each in clauses) and not re.search(DOUBT, reply)
        claim = re.fullmatch(CLAIM, last)
        return int(claim[1]) == int(answer) if plain and claim and answer.isdecimal() else None

    def scenario(self) -> Record:
        s = Record(policies=[], held=False, drawn=0, spent=Fraction(0), undrawn=[], rewarded=[])
        s.c, s.g, s.r, s.moves, s.schema = {}, {}, {}, {}, None
        return s

    def tree(self, start: int, end: int) -> bytes:
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

    def blob(self, digest: str) -> bytes:
        data = (self.folder / "blobs" / digest).read_bytes()
        need(sha(data).hex() == digest)
        return data

    def stands(self, s: Any, release_id: str) -> bool:
        """Whether no revocation is against a release: its own, or of a key behind it."""
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
        d, s, kind = Record(**e.data), self.scenarios[e.scenario], e.type
        release_id = getattr(d, "candidate_id", getattr(d, "release_id", None))
        c, r, g = s.c.get(release_id), s.r.get(release_id), s.g.get(getattr(d, "gate_id", None))
        moves = s.moves.setdefault(getattr(d, "channel", None), [])
        passed = g and g.outcome == "passed" and g.c is c
        need((e.scenario == "_") == kind.startswith(("root.", "key.", "checkpoint.")))
        if kind == "root.rotated":
            need(self.root or d.metadata == self.anchor)
            self.root = self.open_root(d.metadata, self.root)
            listed = {(key.id, key.role) for key in self.root.listed}
            for key in self.keys.values():
                key.revoked |= (key.id, key.role) not in listed
        elif kind == "key.added":
            said = (d.key_id, d.role, d.public_key)
            found = [key for key in self.root.listed if (key.id, key.role, key.pem) == said]
            need(found, d.key_id not in self.keys)
            self.keys[d.key_id] = found[0]
        elif kind == "key.revoked":
            self.keys[d.key_id].revoked = True
        elif kind == "checkpoint.published":
            last = self.checkpoints[-1] if self.checkpoints else (d.origin, 0)
            need(last[0] == d.origin, last[1] < d.size <= position)
            need(self.tree(0, d.size).hex() == d.root)
            need(self.note(d.note) == (d.origin, d.size, d.root))
            self.checkpoints.append((d.origin, d.size, d.root, position))
            for each in self.scenarios.values():
                self.draws(each, d.size)
        elif kind in ("scenario.created", "policy.changed"):
            payload, key = self.dsse(d.policy, "application/vnd.reef-release.policy+json", "policy")
            doc, digest = canonical(payload), sha(payload).hex()
            need(digest == d.policy_digest, doc["name"] == e.scenario)
            need((kind == "policy.changed") == bool(s.policies))
            need(all("answer@1" in doc[each]["verifiers"] for each in ("standard", "bootstrap")))
            s.schema = getattr(d, "schema", s.schema)
            need(all(doc["version"] > each.doc["version"] for each in s.policies))
            s.policies.append(Record(doc=doc, digest=digest, key=key, position=position))
        elif kind in ("scenario.held", "scenario.resumed"):
            s.held = kind == "scenario.held"
        elif kind == "candidate.submitted":
            need(not c)
            s.c[d.candidate_id] = Record(d=d, status="", g=[], revoked=False)
        elif kind in ("candidate.admitted", "candidate.refused"):
            need(not c.status, getattr(d, "schema", s.schema) == s.schema)
            c.status, c.admitted = kind, position
            s.undrawn += [c] * (kind == "candidate.admitted")
        elif kind in ("candidate.revoked", "release.revoked"):
            (c if kind == "candidate.revoked" else s.r[d.release_id]).revoked = True
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
        need(d.base == base, len(c.g) < doc["max_attempts"])
        r, moved = s.r.get(d.candidate_id), moves[-1][0] if moves else -1
        for old in c.g:
            late = old.outcome == "passed" and moved > old.position and not (r and r.promoted)
            need(late or old.outcome in ("errored", "stale"), old.d.policy_digest == p.digest)
        need((d.policy_digest, d.suite) == (p.digest, doc["suite"]))
        _, _, root, at = next(each for each in self.checkpoints if each[1] > c.admitted)
        seed = sha(bytes.fromhex(root + d.candidate_id + p.digest))
        need(d.checkpoint_position == at, d.seed == seed.hex())
        need(not (budget and base) or c.drawn == [p.digest, base])
        share = c.share if base and budget else None
        if base and c.g:
            again = self.pay(s, budget, share["promotions"] if share else 0)
            share = share and again
        suite = [json.loads(line) for line in self.blob(d.suite).splitlines() if line.strip()]
        part, level = doc[phase], Fraction(share["level"]) if share else None
        tasks = self.draw(seed, suite, part["rule"])
        g = Record(d=d, position=position, c=c, p=p, **part, level=level, share=share, tasks=tasks)
        g.trials, g.slot, g.attempt, g.verdicts, g.errors, g.key = [], 0, 0, [], 0, ""
        g.state, g.outcome, g.approved = self.step(g.rule, level, None, None), "", set()
        g.due = g.state[0]
        s.g[d.gate_id] = g
        c.g.append(g)

    def trial(self, d: Any, g: Any) -> None:
        sides = ["candidate", "incumbent"][: 1 + (g.d.base is not None)]
        side, task, verdict = sides[len(g.verdicts)], g.tasks[g.slot], d.verdict
        need(not g.outcome, not g.due, (d.slot, d.side, d.attempt) == (g.slot, side, g.attempt))
        need(d.task_id == task["id"], (verdict is None) != (d.error is None), d.body or d.error)
        if d.body:
            body = json.loads(self.blob(d.body)[32:])
            number = sha(b"sampling", bytes.fromhex(g.d.seed), g.slot.to_bytes(8, "big")).hex()
            right = {"task_id": task["id"], "side": side, "sampling_seed": int(number[:8], 16) >> 1}
            right["release_id"] = g.d.base if side == "incumbent" else g.d.candidate_id
            need(body | right == body, 0 < len(body["token_ids"]) == len(body["logprobs"]))
            need((body["finish_reason"] == "stop") == (verdict is not None))
        if verdict:
            said, own = verdict["checks"], self.judge(body["reply"], task["answer"])
            self.unjudged += own is None
            need(own in (None, said["answer@1"]), [*said] == sorted(g.verifiers))
            need(verdict["passed"] == all(said.values()))
            g.verdicts.append(verdict["passed"])
        summary = vars(d) | {"passed": verdict and verdict["passed"], "tokens": None}
        hidden = ["gate_id", "verdict"] + ["error", "tokens"] * ("budget" not in g.p.doc)
        g.trials.append({key: value for key, value in summary.items() if key not in hidden})
        g.errors, g.attempt = g.errors + bool(d.error), g.attempt + 1 if d.error else 0
        if len(g.verdicts) == len(sides):
            g.state = self.step(g.rule, g.level, g.state, (*g.verdicts, False)[:2])
            g.slot, g.verdicts = g.slot + 1, []
        g.due = "errored" if g.errors > g.p.doc["max_errors"] else g.state[0]

    def decide(self, name: str, d: Any, g: Any, outcome: str) -> None:
        need(not g.outcome, outcome in (g.due, "errored"), outcome != "passed" or d.canary)
        payload, key = self.dsse(d.attestation, IN_TOTO, "gate")
        subject, predicate = (canonical(payload)[each] for each in ("subject", "predicate"))
        said = predicate["urn:reef-release:gate:v1"]
        said["candidate_id"] = subject[0]["digest"]["sha256"]
        said["policy_digest"] = predicate["policy"]["digest"]["sha256"]
        digest = sha(encode(g.trials).encode()).hex()
        right = {"trials_digest": digest, "trial_count": len(g.trials), "scenario": name}
        right |= {"outcome": outcome, "verifiers": g.verifiers}
        right |= {"budget": g.share} if "budget" in g.p.doc else {}
        del d.attestation
        need(said == said | right | vars(g.d), said == said | vars(d))
        need((predicate["verificationResult"] == "PASSED") == (outcome == "passed"))
        g.outcome, g.key = outcome, key


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("export", type=Path)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    replay, found = Replay(given.export, given.root.read_text("utf-8")), list[tuple[int, str]]()
    ids, versions, time, position, going = dict[Any, Any](), dict[Any, int](), "", 0, True
    for path in sorted((given.export / "events").iterdir()):
        *lines, rest = path.read_bytes().split(b"\n")
        if path.name != f"{position:012}.jsonl" or position % 10_000 or rest:
            found.append((position + len(lines) * bool(rest), "segment"))
        for line in lines:
            formed = False
            try:
                e = Record(**canonical(line))
                need(len(vars(e)) == 12, len(line) < 65536, e.position == position)
                key = (e.scenario, e.stream)
                need(e.version == versions.get(key, 0) + 1, e.recorded_at >= time)
                need(re.fullmatch(FORM, f"{e.recorded_at} {e.event_id}"), e.event_id not in ids)
                versions[key], ids[e.event_id], time, formed = e.version, 1, e.recorded_at, True
                if going:
                    replay.apply(e, position)
            except Exception as error:
                found.append((position, str(error)))
                going = going and formed
            replay.leaves.append(sha(b"\0", line))
            position += 1
    blobs = (given.export / "blobs").iterdir()
    found += [(position, path.name) for path in blobs if sha(path.read_bytes()).hex() != path.name]
    try:
        _, size, root = replay.note((given.export / "checkpoint").read_text("utf-8"))
        need(size == position, root == replay.tree(0, position).hex())
    except Exception as error:
        found.append((replay.checkpoints[-1][1] if replay.checkpoints else 0, str(error)))
    result: dict[str, Any] = {"promotions": replay.moves, "problems": found}
    result |= {"events": position, "unjudged": replay.unjudged}
    text = "\n".join(" ".join(map(str, each)) for each in (*replay.moves, *found, *result.items()))
    print(json.dumps(result) if given.json else text)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
