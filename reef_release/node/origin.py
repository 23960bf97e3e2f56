"""The release that a channel served first: the origin of all that is trained for it.

A stream's versions count from 1, so an event of version 1 in the channel's stream that stands in
the tree is the first there ever was; nobody can show a later one in its place. Whether the gate
let it through rightly needs the whole log, and `reef-release audit` reads it.
"""

from __future__ import annotations

from reef_release.client import ReefClient
from reef_release.domain.events import ReleasePromoted, decode
from reef_release.errors import InvalidEvent
from reef_release.node.leaves import Leaf, proven, refuse
from reef_release.node.trusted import Memory
from reef_release.signing.note import Checkpoint

__all__ = ["first_release"]

_PAGE = 250


def first_release(client: ReefClient, memory: Memory) -> str:
    """The id of the release, proven in the tree that a node remembers.

    Raises what the client raises, and `Refused` when the service does not prove it.
    """
    stream = f"release/{memory.channel}"
    checkpoint = Checkpoint(size=memory.checkpoint_size, root=bytes.fromhex(memory.checkpoint_root))
    after = -1
    while after < checkpoint.size - 1:
        page = client.events(
            after, limit=_PAGE, scenario=memory.scenario, type=ReleasePromoted.TYPE
        )
        for body in page.events:
            try:
                envelope = decode(body).envelope
            except InvalidEvent as error:
                raise refuse("unreadable-event", error.detail) from error
            if (envelope.stream, envelope.version) != (stream, 1):
                continue
            shown = client.inclusion(envelope.position, checkpoint.size)
            event = proven(Leaf(body=body.decode("utf-8"), proof=shown.proof), checkpoint)
            return event.as_a(ReleasePromoted, memory.scenario).release_id
        if page.next_after <= after:
            break
        after = page.next_after
    raise refuse("no-origin", f"the service shows no first promotion of {memory.channel}")
