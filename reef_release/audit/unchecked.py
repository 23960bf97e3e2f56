"""How far the answer of an audit goes: what it could not check, or was not asked to.

None of it is a problem. It is said in every report, so that nobody reads more into a good one.
"""

from __future__ import annotations

from collections.abc import Iterator

from reef_release.audit.report import Unchecked
from reef_release.audit.walk import Walk

__all__ = ["unchecked"]


def unchecked(
    walk: Walk, *, earlier: bool, replayed: bool = False, weights: bool = False
) -> list[Unchecked]:
    """What the finished *walk* leaves open.

    *earlier*: a state or checkpoint from before was given. *replayed*: the rules were asked.
    *weights*: replies were run through the weights.
    """
    found = dict(_rules(walk, weights) if replayed else _NO_RULES)
    if not earlier:
        found["no-earlier-checkpoint"] = (
            "No checkpoint from before was given (--earlier): a past that was signed anew, by "
            "whoever has the log's key, would not show."
        )
    if not walk.with_weights:
        found["no-model-files"] = (
            "The export has no model files, so they were not compared with the digests that the "
            "releases state: export with --with-weights."
        )
    if walk.absent:
        idle = sum(walk.absent.values())
        some = f"; {idle:,} of them only by events without effect" if idle else ""
        found["missing-blobs"] = f"Missing are {len(walk.absent):,} blobs that events name{some}."
    found["conversations"] = (
        "What was said in conversations is in no export: what was judged, and learned from it, is "
        "taken as the service recorded it."
    )
    found["after-the-end"] = (
        f"Nothing behind position {walk.count - 1:,} is here. Whether more came after it only a "
        "newer checkpoint can tell."
    )
    return [Unchecked(code=code, message=message) for code, message in found.items()]


_NO_RULES = {
    "no-rules": "Whether the events obey the rules was not asked: `reef-release audit replay` "
    "asks that."
}


def _rules(walk: Walk, weights: bool) -> Iterator[tuple[str, str]]:
    if walk.folded < walk.count:
        yield (
            "not-replayed",
            f"The {walk.count - walk.folded:,} events from position {walk.folded:,} on were not "
            "replayed, since the log's form is broken there.",
        )
    lacking = [
        each.position
        for each in walk.state.violations
        if all(reason.code == "blob-missing" for reason in each.reasons)
    ]
    if lacking:
        yield (
            "may-have-effect",
            f"{len(lacking):,} events have no effect only since a blob is missing, the first at "
            f"position {lacking[0]:,}: with it they may have one.",
        )
    gates = [gate for each in walk.state.scenarios.values() for gate in each.gates.values()]
    lost = sum(trial.body is None for gate in gates for trial in gate.trials)
    if lost:
        yield (
            "no-record",
            f"{lost:,} trials of gates left no record, since the gate worker says that they "
            "crashed or took too long.",
        )
    if not weights:
        yield (
            "no-weights",
            "That the weights give the replies that the gate worker recorded was not tried: "
            "`--weights FOLDER` runs them.",
        )
