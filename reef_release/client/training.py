"""The routes of a trainer: claiming batches, saying how the training goes, reading what was done.

Everything that appends here may be sent again when its answer was lost, except a claim and giving
a batch back: of those the first may have been done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from reef_release import traffic_wire, training_wire, wire
from reef_release.client.errors import decoded
from reef_release.client.paths import JSON, VIEW_BYTES, scenario_path
from reef_release.client.transport import Transport

__all__ = ["Training"]

_T = TypeVar("_T")
_BATCH_BYTES = 1024 * 1024 * 1024
_TYPES: dict[type[training_wire.TrainingData], str] = {
    training_wire.StartedData: "training.started",
    training_wire.StepData: "training.step",
    training_wire.CompletedData: "training.completed",
    training_wire.FailedData: "training.failed",
}


class Training:
    """The batches of one service; `ReefClient.training` is one."""

    def __init__(self, http: Transport) -> None:
        self._http = http

    def claim(
        self, scenario: str, worker: str, channel: str = "stable"
    ) -> traffic_wire.BatchAssignment | None:
        """A batch of the channel to train on; None when there is none now."""
        answer = self._http.call(
            "POST",
            scenario_path(scenario, "batches", "claim"),
            limit_bytes=_BATCH_BYTES,
            headers=JSON,
            body=msgspec.json.encode(traffic_wire.BatchClaim(worker=worker, channel=channel)),
        )
        if answer.status == 204:
            return None
        return decoded(answer.body, traffic_wire.BatchAssignment)

    def give_back(self, scenario: str, batch_id: str, lease_id: str) -> wire.WrittenView:
        """Return a claimed batch that could not be trained on; of a trained one, its whole line.

        Raises `Conflict` when the batch is not held under the lease, or while a candidate of the
        line may still be promoted.
        """
        return self._post(
            scenario, batch_id, "release", traffic_wire.BatchReturn(lease_id=lease_id), again=False
        )

    def restore(self, scenario: str, batch_id: str, reason: str) -> wire.WrittenView:
        """Let the samples of a batch that trainers failed on be trained again; an operator's.

        Of a trained one that waits for a release, the line is given up. Raises `Conflict` when
        nothing is to be restored, or while a candidate of the line may still be promoted.
        """
        return self._post(
            scenario, batch_id, "restore", wire.ReasonRequest(reason=reason), again=False
        )

    def post(
        self, scenario: str, lease_id: str, data: training_wire.TrainingData
    ) -> wire.WrittenView:
        """Record an event of training on the batch that *data* names.

        Raises `BadRequest` for a figure that is not finite, and `Conflict` when the batch is not
        held under the lease, its line is over, or the event was posted with other content.
        """
        request = {
            "lease_id": lease_id,
            "type": _TYPES[type(data)],
            # NaN and infinities become null, and the service says what to do.
            "data": data,
        }
        return self._post(scenario, data.batch_id, "events", request, again=True)

    def batches(
        self, scenario: str, after: int = -1, limit: int = 100
    ) -> training_wire.BatchesView:
        """A page of batches behind the position *after*, and all lines that go on."""
        return self._get(
            scenario,
            ("batches",),
            training_wire.BatchesView,
            {"after": after, "limit": limit},
        )

    def batch(self, scenario: str, batch_id: str) -> training_wire.BatchView:
        """How far a batch has come."""
        return self._get(scenario, ("batches", batch_id), training_wire.BatchView)

    def line(self, scenario: str, line_id: str) -> training_wire.LineView:
        """A line, and whether it goes on. Raises `NotFound` before its first training.started."""
        return self._get(scenario, ("lines", line_id), training_wire.LineView)

    def _get(
        self,
        scenario: str,
        segments: Sequence[str],
        kind: type[_T],
        params: Mapping[str, str | int] | None = None,
    ) -> _T:
        answer = self._http.call(
            "GET", scenario_path(scenario, *segments), limit_bytes=VIEW_BYTES, params=params
        )
        return decoded(answer.body, kind)

    def _post(
        self, scenario: str, batch_id: str, verb: str, request: object, *, again: bool
    ) -> wire.WrittenView:
        answer = self._http.call(
            "POST",
            scenario_path(scenario, "batches", batch_id, verb),
            limit_bytes=VIEW_BYTES,
            headers=JSON,
            body=msgspec.json.encode(request),
            idempotent=again,
        )
        return decoded(answer.body, wire.WrittenView)
