"""What a revoked key means for what is served: said by `revoke key` and by `status`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from reef_release.client import ReefClient
from reef_release.ids import short_id
from reef_release.wire import KeyView, ReleaseView

__all__ = ["NEW_KEY", "key_counts", "key_warnings", "keyless_line", "resting_lines"]

NEW_KEY = (
    "Add a key by the next trust root (`reef-release keys new`, `keys rotate --add`, `keys sign`, "
    "`keys publish`) and start its holder with that."
)
_WITHOUT = {
    "gate": "no gate can be decided",
    "log": "no checkpoint is signed, and nodes move no more",
    "pointer": "no current document is signed, and nodes move no more",
    "policy": "no gate can open, and no policy can be signed",
    "release": "no weights can be signed, so nothing is promoted",
}


def key_counts(keys: Iterable[KeyView], role: str) -> bool:
    """Whether any key of *role* counts."""
    return any(key.role == role and key.revoked_position is None for key in keys)


def keyless_line(client: ReefClient) -> str:
    """That no gate can end, while it is so: then whoever waits for one waits in vain."""
    if key_counts(client.trust_keys(), "gate"):
        return ""
    return f"No gate key counts, so no gate can end. {NEW_KEY}"


def resting_lines(
    channel: str, served: ReleaseView | None, releases: Iterable[ReleaseView], key_id: str = ""
) -> Iterator[str]:
    """What to say when *served* rests on a revoked key, or on the revoked key *key_id*.

    *releases* are all of the scenario: those that a rollback can still reach are named.
    """
    reasons = [
        each.message
        for each in (served.barred if served is not None else ())
        if each.code == "key-revoked" and key_id in each.message
    ]
    if served is None or not reasons:
        return
    back = [
        short_id(each.release_id)
        for each in releases
        if each.channel == channel
        and each.promoted_position is not None
        and each.release_id != served.release_id
        and not each.barred
    ]
    yield (
        f"REVOKED KEY: {short_id(served.release_id)} is still served in channel {channel} and "
        f"rests on it ({'; '.join(reasons)}); a revocation moves no pointer. "
        + (
            f"Rollback can still reach {', '.join(back)}; else"
            if back
            else "Rollback can reach no release of this channel:"
        )
        + " gate a candidate anew with keys that count."
    )


def key_warnings(client: ReefClient, key_id: str) -> Iterator[str]:
    """What the revocation of *key_id* has left: no key of its role, and releases that rest on it.

    Raises what the client does.
    """
    keys = client.trust_keys()
    role = next((key.role for key in keys if key.key_id == key_id), "")
    if role and not key_counts(keys, role):
        yield (
            f"That was the last {role} key that counts: until there is another, "
            f"{_WITHOUT.get(role, 'nothing of its role counts')}. {NEW_KEY}"
        )
    for scenario in client.scenarios():
        releases = {each.release_id: each for each in client.releases(scenario.name)}
        for channel, served in scenario.channels.items():
            view = releases.get(served.release_id)
            for line in resting_lines(channel, view, releases.values(), key_id):
                yield f"{scenario.name}: {line}"
