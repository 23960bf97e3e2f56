"""Whether the engine of one machine's stack has what its scenario serves.

A node reports to the log, but the log also has what an earlier run reported; only the engine
knows what it has loaded now.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing

from reef_release.cli.stack import LocalStack
from reef_release.client import ReefClient
from reef_release.errors import Unavailable
from reef_release.ids import short_id
from reef_release.node.engine import HttpEngine

__all__ = ["await_engine"]

_TIMEOUT_S = 90.0
_LOOK_S = 0.2


def await_engine(
    stack: LocalStack,
    client: ReefClient,
    *,
    stopped: Callable[[], bool] = lambda: False,
    timeout_s: float = _TIMEOUT_S,
) -> str:
    """Wait until the engine serves what the channel `stable` does.

    Returns "" then, or when *stopped* says so; otherwise why nothing is served yet. The latter is
    no error, since an operator needs the service to roll back what no node loads. Raises
    `Unavailable` when a program of the stack ends.
    """
    deadline = time.monotonic() + timeout_s
    with closing(HttpEngine(stack.engine_url)) as engine:
        while not stopped():
            stack.check()
            view = client.scenario(stack.scenario)
            serving = view.channels["stable"].release_id
            if _loaded(engine) == serving:
                break
            if time.monotonic() > deadline:
                reasons = [str(reason) for node in view.nodes for reason in node.reasons]
                late = f"after {timeout_s:.0f} s the engine does not serve {short_id(serving)}"
                return "; ".join([late, *reasons])
            time.sleep(_LOOK_S)
    return ""


def _loaded(engine: HttpEngine) -> str | None:
    try:
        return engine.health().release_id
    except Unavailable:
        return None
