"""What a policy that asks for several gate workers means, in words for its owner."""

from __future__ import annotations

from reef_release.client import ReefClient
from reef_release.domain.policy import Policy
from reef_release.errors import Forbidden

__all__ = ["odds_line", "too_few_keys"]


def odds_line(policy: Policy) -> str:
    """What the quorum does to the odds of one gate; nothing where one worker is enough."""
    wanted = policy.gate_quorum
    if wanted == 1:
        return ""
    return (
        f"The odds are of one gate, and {wanted} gate workers must pass a candidate, each by a "
        "gate of its own on the same draw. A worse candidate gets through no more often than "
        "through one gate. One that passes one gate with P gets through with between P to the "
        f"power of {wanted} (if the workers' replies are independent) and P (if they are the "
        "same): near P where workers sample alike, since the sampling seeds are the same."
    )


def too_few_keys(client: ReefClient, scenario: str) -> str:
    """A warning that the policy in force asks for more workers than there are gate keys.

    Keys may come later, so this is no refusal. Nothing, where the token may not see the keys.
    """
    wanted = client.scenario(scenario).policy.get("gate_quorum", 1)
    try:
        count = sum(
            key.role == "gate" and key.revoked_position is None for key in client.trust_keys()
        )
    except Forbidden:
        return ""
    if wanted <= count:
        return ""
    return (
        f"The policy asks for {wanted} gate workers, and {count} gate key"
        f"{' counts' if count == 1 else 's count'}: nothing will be promoted before there are as "
        "many. A key comes by the next trust root (`keys new`, `keys rotate`, `keys sign`, `keys "
        "publish`); each worker also needs a token of its own name (`token create`)."
    )
