"""Signed tree heads of the state at this moment."""

from __future__ import annotations

import time
from collections.abc import Callable

from reef_release.domain.events import CheckpointPublished
from reef_release.projections.live import LiveState
from reef_release.signing.keys import SigningKey
from reef_release.signing.note import sign_checkpoint

__all__ = ["SignedHeads"]

_EVERY_S = 1.0


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
        """A checkpoint over everything folded, signed anew at most once a second."""
        now = self._clock()
        if self._last is None or now - self._last[0] >= _EVERY_S:
            tree = self._live.state.tree
            note = sign_checkpoint(self._origin, tree.size, tree.root(), self._key)
            self._last = (now, note)
        return self._last[1]

    def publication(self) -> CheckpointPublished:
        """The event that publishes the head of the state at this moment."""
        tree = self._live.state.tree
        root = tree.root()
        return CheckpointPublished(
            origin=self._origin,
            size=tree.size,
            root=root.hex(),
            note=sign_checkpoint(self._origin, tree.size, root, self._key),
        )
