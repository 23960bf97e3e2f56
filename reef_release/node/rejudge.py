"""The last good release, judged again from the node's own disk: at every start, and for people.

The disk is no more believed than the service: the kept document, proofs and canaries must hold
from the trust root on, or the release is not loaded.
"""

from __future__ import annotations

from dataclasses import dataclass

from reef_release.domain.canonical import sha256_hex
from reef_release.node import grounds as rules
from reef_release.node.canary import Canary, parse_canaries
from reef_release.node.grounds import Grounds
from reef_release.node.leaves import refuse
from reef_release.node.trusted import Opened, Trusted
from reef_release.node.vault import Served
from reef_release.verifiers.registry import is_objective

__all__ = ["Again", "judge_again"]


@dataclass(frozen=True, kw_only=True)
class Again:
    """What was found: the document, the grounds, and the canaries to measure."""

    opened: Opened
    grounds: Grounds
    canaries: tuple[Canary, ...]


def judge_again(trusted: Trusted, served: Served, *, trials: bool) -> Again:
    """Judge *served* anew, its age apart; *trials* as in `NodeConfig`.

    Raises `Refused` and `SignatureRejected`.
    """
    opened = trusted.reopen(served.document.encode("utf-8"))
    grounds = rules.verify(
        served.material,
        opened.document,
        opened.checkpoint,
        trusted.chain,
        is_objective,
        trials=trials,
    )
    blob = served.canaries.encode("utf-8")
    kept = (served.release_id, served.pointer_position, sha256_hex(blob))
    if kept != (grounds.release_id, grounds.pointer_position, grounds.canary):
        raise refuse("other-record", "what is kept of the last good release belongs to another")
    return Again(
        opened=opened, grounds=grounds, canaries=parse_canaries(blob, grounds.canary_prompts)
    )
