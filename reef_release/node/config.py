"""What a node is told at its start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from reef_release.client.blobs import MIN_RATE_BYTES_PER_S
from reef_release.errors import SettingsError

__all__ = ["NodeConfig"]


@dataclass(frozen=True, kw_only=True)
class NodeConfig:
    """One node serves one channel of one scenario with one engine.

    `anchor` is the trust root version 1, which must come from outside and not from the
    service. `origin` is the name of the log. `state` is a directory of the node's own.
    `poll_wait_s` is how long one poll stays open, and so how long a stop may take.
    `canary_tolerance` is in nats; engines of other makes or number formats than the gate's may
    need more than the default. A node in the process of its own engine has no `engine_url`, and
    one that serves nobody (`reports` false) tells the service nothing. With a token that may not
    read trials (`trials` false) it takes the gate key's word for what they were.
    `witnesses` is a file of verifier keys, of which `witness_quorum` (more than half by default)
    must cosign a checkpoint. `floor` is a file that another node printed, see `opening`.
    """

    url: str
    scenario: str
    node_id: str
    anchor: Path
    origin: str
    state: Path
    engine_url: str = ""
    token: str | None = None
    channel: str = "stable"
    poll_wait_s: int = 5
    shortest_poll_s: float = 1.0
    longest_pause_s: float = 30.0
    canary_tolerance: float = 1e-2
    min_rate_bytes_per_s: int = MIN_RATE_BYTES_PER_S
    reports: bool = True
    trials: bool = True
    witnesses: Path | None = None
    witness_quorum: int | None = None
    floor: Path | None = None

    def anchor_text(self) -> str:
        """The trust root's text. Raises `SettingsError`."""
        try:
            return self.anchor.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(
                f"The trust root {self.anchor} cannot be read: {error}.",
                next_step="Get root.json (version 1) from the service's owner by another way "
                "than the service.",
            ) from error
