"""Whether a backup may be written back: its export replays, but for what has no effect anyway.

Events without effect stay in a log for ever, so they must not make it impossible to recover. But
whether an event is one is never guessed: somebody who knows the log names its position. What was
altered, or was lost since the backup was made, is never passed over.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path

from reef_release.artifacts.errors import BlobMissing
from reef_release.audit.layout import BLOBS
from reef_release.audit.report import Problem
from reef_release.audit.verify import audited
from reef_release.audit.walk import Walk, violation_problem
from reef_release.backup import layout
from reef_release.backup.layout import BackupManifest
from reef_release.domain.reasons import Reason
from reef_release.errors import Refused

__all__ = ["verified"]

_TOLD = 20


def verified(
    backup: Path, anchor: str, manifest: BackupManifest, without_effect: Sequence[int]
) -> Walk:
    """The replayed walk over the export in *backup*, whose *manifest* this is.

    *without_effect* are the positions of all its violations. Raises `Refused` when anything else is
    wrong, or when one of them is none.
    """
    walk, head, _ = audited(backup / layout.EXPORT, anchor, fold=True)
    violations = {each.position: each for each in walk.state.violations}
    for position in without_effect:
        if position not in violations:
            raise Refused(
                f"It is said that the event at position {position} has no effect; it has.",
                next_step="Take the position out of `without_effect` in backup.json, or do not "
                "give it with --without-effect.",
            )
    # Only what the replay itself says of them: a blob that was lost since, or is altered, stays
    # a problem, and so does one that the service lacked if anything else rests on it.
    known = {
        (position, *violation_problem(violations[position], reason))
        for position in without_effect
        for reason in violations[position].reasons
    }
    problems = [
        each
        for each in walk.problems.found
        if (each.position, each.code, each.message) not in known
        and not (each.position in without_effect and _has_no_effect(walk, each))
    ]
    sound = head is not None and head.size == manifest.size
    if problems or walk.problems.left_out or not sound:
        raise Refused(
            "The backup is not what its checkpoint and its trust root say.",
            reasons=[Reason(code=each.code, message=str(each)) for each in problems[:_TOLD]],
            next_step=_next_step(problems, violations),
        )
    return walk


def _has_no_effect(walk: Walk, problem: Problem) -> bool:
    """Whether what is wrong with an event without effect concerns no other event.

    So it is with its data, and with a missing blob that nothing with an effect names.
    """
    if problem.code == "malformed":
        return True
    digest = problem.where.removeprefix(f"{BLOBS}/")
    return problem.code == BlobMissing.problem and walk.absent.get(digest, False)


def _next_step(problems: Sequence[Problem], violations: Container[int]) -> str:
    if all(each.position in violations for each in problems) and problems:
        positions = sorted({each.position for each in problems if each.position is not None})
        options = " ".join(f"--without-effect {each}" for each in positions[:_TOLD])
        more = " and so on" if len(positions) > _TOLD else ""
        return (
            "All of this is about events without effect. If the service told them, too (`event "
            f"without effect` in its log), recover with {options}{more}."
        )
    return "Use another backup; `audit replay BACKUP/export` tells all of it."
