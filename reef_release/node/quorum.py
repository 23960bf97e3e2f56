"""Rule: as many independent gate workers passed it as the gate's policy asks for.

Independent are those with another gate key and another actor (`domain.quorum`). A pass whose key
was revoked before the pointer moved does not count. The actor is the service's word, the key is
not: whoever holds one gate key and the service is still only one worker to a node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from reef_release.domain.canonical import sha256_hex
from reef_release.domain.events import PolicyChanged, ScenarioCreated, decode
from reef_release.domain.policy import Policy
from reef_release.domain.quorum import worker_count
from reef_release.domain.reasons import Reason
from reef_release.errors import SignatureRejected
from reef_release.node.case import Case
from reef_release.node.leaves import Leaf, refuse
from reef_release.signing.strict import decode_base64

__all__ = ["Pass", "gate_keys", "quorum_asked"]


@dataclass(frozen=True, kw_only=True)
class Pass:
    """Who signed a pass, and who posted it."""

    key_id: str
    actor: str


def gate_keys(
    case: Case,
    wanted: int,
    passes: Sequence[Pass],
    position: int,
    of: str = "",
    doubts: Sequence[Reason] = (),
) -> tuple[str, ...]:
    """The gate keys on which a pointer that moves at *position* rests.

    *wanted* is what the policy asks for; *of* names whose passes these are, if not the release's
    own, and *doubts* why others that were shown do not count. With one wanted there is one pass,
    and its key is judged where revocations are. Raises `Refused`.
    """
    if wanted == 1:
        return (passes[0].key_id,)
    counting = [
        each for each in passes if case.ledger.revoked_before(each.key_id, position) is None
    ]
    found = worker_count((each.key_id, each.actor) for each in counting)
    if found < wanted:
        raise refuse(
            "too-few-workers",
            f"the policy asks for {wanted} gate workers{of}, and passes of {found} were shown "
            "whose keys count" + "".join(f"; not counted: {each.message}" for each in doubts[:3]),
        )
    keys = tuple(dict.fromkeys(each.key_id for each in counting))
    case.found(
        f"as many gate workers{of} passed it as the policy asks for",
        f"{found} of {wanted}, keys {', '.join(key_id[:12] for key_id in keys)}",
    )
    return keys


def quorum_asked(scenario: Sequence[Leaf], digest: str) -> int:
    """How many gate workers the policy of this *digest* asks for; 1 if *scenario* has none such.

    For what is worth fetching only: nobody's signature is looked at.
    """
    for leaf in scenario:
        data = decode(leaf.body.encode("utf-8")).data
        if not isinstance(data, ScenarioCreated | PolicyChanged) or data.policy_digest != digest:
            continue
        try:
            payload = decode_base64(str(data.policy.get("payload")), "policy", "payload")
            if sha256_hex(payload) == digest:
                return msgspec.json.decode(payload, type=Policy).gate_quorum
        except (SignatureRejected, msgspec.DecodeError, UnicodeDecodeError):
            continue
    return 1
