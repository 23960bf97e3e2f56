"""One trainer in several processes: the first works, the others train its batches with it.

What always holds: the first alone knows the service, the directory and its lock; the others do
what it calls them to, and nothing between. An error that all meet alike is the first one's to
handle. After any other the processes are no longer in step, so all of them end, and the next
start goes on as after a kill.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import torch.distributed as dist

from reef_release.errors import ReefError
from reef_release.traffic_wire import BatchAssignment
from trainer.learning import ranks
from trainer.learning.batch import Outcome, StepRecord, run_batch
from trainer.learning.settings import TrainingSettings

__all__ = ["Leader", "follow"]

_FOR_EVER = timedelta(days=365)
"""Between two batches may be weeks; a process that is gone is noticed by its connection."""


class _Call(msgspec.Struct, frozen=True, kw_only=True):
    batch: BatchAssignment
    weights: str
    origin: str
    out: str
    settings: TrainingSettings
    seed: int
    state: str | None
    serving: str | None


class Leader:
    """The first process's hold on the others."""

    def __init__(self) -> None:
        self._group = _calls()
        self.broken = threading.Event()
        """Set when nothing can be trained any more in these processes."""

    def train(
        self,
        batch: BatchAssignment,
        *,
        weights: Path,
        origin: Path,
        out: Path,
        settings: TrainingSettings,
        seed: int,
        state: Path | None,
        serving: Path | None,
        on_step: Callable[[StepRecord], None],
    ) -> Outcome:
        """`run_batch`, in all processes. Raises `SystemExit` when one of them is gone."""
        call = _Call(
            batch=batch,
            weights=str(weights),
            origin=str(origin),
            out=str(out),
            settings=settings,
            seed=seed,
            state=None if state is None else str(state),
            serving=None if serving is None else str(serving),
        )
        self.broken.set()
        try:
            _send(msgspec.json.encode(call), self._group)
            outcome = run_batch(
                batch,
                weights=weights,
                origin=origin,
                out=out,
                settings=settings,
                seed=seed,
                state=state,
                serving=serving,
                on_step=on_step,
            )
        except (ReefError, OSError):
            self.broken.clear()
            raise
        except RuntimeError as error:
            if _is_of_a_connection(error):
                # No fault of the batch.
                raise SystemExit(
                    f"error: another process of the trainer is gone: {error}"
                ) from error
            raise
        self.broken.clear()
        return outcome

    def dismiss(self) -> None:
        """Let the others end, if they are still in step."""
        if not self.broken.is_set():
            with suppress(RuntimeError):
                _send(b"", self._group)


def follow() -> None:
    """Train what the first process calls for, until it dismisses this one."""
    group = _calls()
    while document := _received(group):
        call = msgspec.json.decode(document, type=_Call)
        # The first one raises the same, or tells of what it raises.
        with suppress(ReefError, ranks.Ended):
            run_batch(
                call.batch,
                weights=Path(call.weights),
                origin=Path(call.origin),
                out=Path(call.out),
                settings=call.settings,
                seed=call.seed,
                state=None if call.state is None else Path(call.state),
                serving=None if call.serving is None else Path(call.serving),
            )


def _calls() -> Any:
    return dist.new_group(backend="gloo", timeout=_FOR_EVER)


def _send(document: bytes, group: Any) -> None:
    dist.broadcast_object_list([document], src=0, group=group)


def _received(group: Any) -> bytes:
    found: list[Any] = [None]
    dist.broadcast_object_list(found, src=0, group=group)
    document: bytes = found[0]
    return document


def _is_of_a_connection(error: RuntimeError) -> bool:
    return isinstance(error, dist.DistError) or "gloo" in str(error)
