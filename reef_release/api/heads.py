"""Signed tree heads of the state at this moment.

What always holds: while an admission or a pointer event is covered by no published checkpoint, no
larger tree is signed than the one that ends with it. So the root that a draw follows from is a
function of the log alone: whoever withholds a cosignature delays it and gets no other one, and
no witness can have seen a larger tree that would keep it from cosigning this one.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from reef_release.domain.events import CheckpointPublished
from reef_release.domain.state import State
from reef_release.projections.live import LiveState
from reef_release.signing.keys import SigningKey
from reef_release.signing.note import sign_checkpoint

__all__ = ["SignedHeads", "uncovered_position"]

_EVERY_S = 1.0


def uncovered_position(state: State) -> int | None:
    """The first admission or pointer event that no published checkpoint covers, if there is one.

    The tasks of a gate are drawn from the checkpoint over the one, those of a watch from that over
    the other, and a document says what is served only when a checkpoint covers it.
    """
    covered = state.checkpoints[-1].size if state.checkpoints else 0
    found = []
    for scenario in state.scenarios.values():
        if scenario.undrawn:
            found.append(scenario.candidates[scenario.undrawn[0]].admitted_position)
        for history in scenario.pointers.values():
            for pointer in reversed(history):
                if pointer.position < covered:
                    break
                found.append(pointer.position)
    return min((each for each in found if each is not None), default=None)


class SignedHeads:
    """Signs the tree's head with the log key, under the log's *origin*."""

    def __init__(
        self,
        live: LiveState,
        key: SigningKey,
        origin: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._live = live
        self._key = key
        self._origin = origin
        self._clock = clock
        self._last: tuple[float, str] | None = None

    def signed(self) -> str:
        """A checkpoint over what may be signed now, signed anew at most once a second."""
        now = self._clock()
        if self._last is None or now - self._last[0] >= _EVERY_S:
            self._last = (now, self.publication().note)
        return self._last[1]

    def publication(self) -> CheckpointPublished:
        """The event that publishes the next head: of everything folded, or up to what waits."""
        state = self._live.state
        waiting = uncovered_position(state)
        size = state.tree.size if waiting is None else waiting + 1
        root = state.tree.root(size)
        return CheckpointPublished(
            origin=self._origin,
            size=size,
            root=root.hex(),
            note=sign_checkpoint(self._origin, size, root, self._key),
        )
