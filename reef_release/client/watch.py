"""The routes of whoever watches what is served."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from reef_release import wire
from reef_release.client.errors import decoded
from reef_release.client.paths import JSON, VIEW_BYTES, scenario_path
from reef_release.client.transport import Answer, Transport

__all__ = ["Watching"]


class Watching:
    """The watches of one service; `ReefClient.watching` is one."""

    def __init__(self, http: Transport) -> None:
        self._http = http

    def claim(
        self, scenario: str, worker: str, own: Sequence[wire.OwnWatch] = ()
    ) -> wire.WatchAssignment | None:
        """A trial of what is served, or a fall to sign; None when there is neither now.

        *own* is what this worker did: a watch is gone on with by whoever ran all its trials.
        """
        request = wire.WatchClaimRequest(worker=worker, own=list(own))
        answer = self._post(scenario, "claim", request)
        return None if answer.status == 204 else decoded(answer.body, wire.WatchAssignment)

    def post_trial(self, scenario: str, trial: wire.WatchTrialRequest) -> wire.WatchTrialView:
        """Record one trial. Raises `Conflict` when it is not the one due."""
        return decoded(self._post(scenario, "trials", trial).body, wire.WatchTrialView)

    def post_finding(
        self, scenario: str, channel: str, pointer_position: int, attestation: dict[str, Any]
    ) -> wire.WrittenView:
        """Record the signed finding that a release has fallen."""
        request = wire.FindingRequest(
            channel=channel, pointer_position=pointer_position, attestation=attestation
        )
        return decoded(self._post(scenario, "finding", request).body, wire.WrittenView)

    def _post(self, scenario: str, name: str, request: msgspec.Struct) -> Answer:
        return self._http.call(
            "POST",
            scenario_path(scenario, "watch", name),
            limit_bytes=VIEW_BYTES,
            headers=JSON,
            body=msgspec.json.encode(request),
        )
