"""The node as a process: one step after the other until it is told to stop."""

from __future__ import annotations

import threading
import time
from contextlib import closing

from reef_release.client import ReefClient
from reef_release.node.config import NodeConfig
from reef_release.node.engine import HttpEngine
from reef_release.node.node import Node, Standing
from reef_release.node.vault import Vault

__all__ = ["run_node"]

_FIRST_PAUSE_S = 1.0


def run_node(
    config: NodeConfig, *, once: bool = False, stop: threading.Event | None = None
) -> Standing:
    """Serve the last good release at once, then follow the channel until *stop* is set.

    With *once*: one step, without waiting for a change. Returns where the node stands at the
    end. Raises `SettingsError` and `SignatureRejected` for what makes a start impossible;
    afterwards nothing but *stop* ends it.
    """
    stop = stop or threading.Event()
    with (
        ReefClient(config.url, config.token) as client,
        closing(HttpEngine(config.engine_url)) as engine,
        closing(Vault(config.state)) as vault,
    ):
        vault.lock()
        node = Node(config, client, engine, vault)
        standing = node.start()
        if once:
            return node.step()
        pause_s = _FIRST_PAUSE_S
        while not stop.is_set():
            began = time.monotonic()
            standing = node.step(config.poll_wait_s)
            if standing.reasons:
                pause_s = min(pause_s * 2, config.longest_pause_s)
            else:
                pause_s = _FIRST_PAUSE_S
            # A service that answers long polls at once must not be asked without end.
            spent = time.monotonic() - began
            wait_s = pause_s if standing.reasons else config.shortest_poll_s - spent
            stop.wait(max(wait_s, 0.0))
        return standing
