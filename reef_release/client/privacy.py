"""The routes of whoever erases what people wrote."""

from __future__ import annotations

import msgspec

from reef_release import wire
from reef_release.client.errors import decoded
from reef_release.client.paths import JSON, VIEW_BYTES, path_of, scenario_path
from reef_release.client.transport import Transport
from reef_release.privacy_wire import BodyView, ErasureRequest, ErasureView

__all__ = ["Privacy"]


class Privacy:
    """The erasures of one service; `ReefClient.privacy` is one."""

    def __init__(self, http: Transport) -> None:
        self._http = http

    def erase_blob(self, digest: str, reason: str) -> BodyView:
        """Erase one body. Raises `Refused` for what is never erased, `NotFound`."""
        path = path_of("reef", "blobs", digest, "erase")
        return decoded(self._post(path, wire.ReasonRequest(reason=reason)), BodyView)

    def erase(self, scenario: str, request: ErasureRequest) -> ErasureView:
        """Erase up to 1,000 bodies of a turn, a session, a tag or of old sessions."""
        return decoded(self._post(scenario_path(scenario, "erasures"), request), ErasureView)

    def _post(self, path: str, request: msgspec.Struct) -> bytes:
        answer = self._http.call(
            "POST",
            path,
            limit_bytes=VIEW_BYTES,
            headers=JSON,
            body=msgspec.json.encode(request),
        )
        return answer.body
