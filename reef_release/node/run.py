"""The node as a process: one step after the other until it is told to stop."""

from __future__ import annotations

import threading
import time
from contextlib import closing

from reef_release.client import ReefClient
from reef_release.errors import NotFound, ReefError
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
    end. Raises `SettingsError` and `SignatureRejected` for what makes a start impossible, and
    `NotFound` when the node serves nothing and the service knows no such scenario; afterwards
    nothing but *stop* ends it.
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
        if standing.release_id is None:
            _require_scenario(client, config)
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


def _require_scenario(client: ReefClient, config: NodeConfig) -> None:
    """Asked only by a node that serves nothing: no service can take from one what it serves."""
    try:
        client.scenario(config.scenario)
    except NotFound as error:
        raise NotFound(
            f"The service at {config.url} has no scenario {config.scenario!r}.",
            next_step="`reef-release status` lists the scenarios; check --scenario and --url.",
        ) from error
    except ReefError:
        return  # The node's own steps tell of it, and go on.
