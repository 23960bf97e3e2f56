"""Which blobs an event rests on: what an export must carry so that a replay needs nothing else."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from reef_release.domain import events as ev
from reef_release.domain.canonical import parse_json
from reef_release.domain.events import EventData, FileEntry
from reef_release.domain.weights import candidate_id, digests_by_path
from reef_release.errors import BadRequest, ReefError

__all__ = ["Reference", "References"]

_DIGEST = re.compile(r"[0-9a-f]{64}")


class Reference(NamedTuple):
    """A blob that an event names; its length if the event says so."""

    digest: str
    what: str
    size_bytes: int | None = None


class References:
    """Follows a log and says which blobs each event needs; with *weights* also model files.

    Model files are needed for candidates that got a gate: those that were refused at admission
    were never run. What is named must have the form of a digest, since it becomes a file name.
    Events without effect are not known here: a submission of other files than those of its id
    names none, and one gate more than there was takes none away.
    """

    def __init__(self, *, weights: bool) -> None:
        self._files: dict[tuple[str, str], list[FileEntry]] | None = {} if weights else None

    def of(self, scenario: str, data: EventData) -> Iterator[Reference]:
        """The blobs that the next event needs."""
        for reference in self._all(scenario, data):
            if _DIGEST.fullmatch(reference.digest):
                yield reference

    def _all(self, scenario: str, data: EventData) -> Iterator[Reference]:
        match data:
            case ev.ScenarioCreated():
                yield Reference(data.schema, "the tensor schema")
                yield from _suite(data.policy)
            case ev.PolicyChanged():
                yield from _suite(data.policy)
            case ev.CandidateSubmitted():
                if self._files is not None and _are_its_files(data):
                    self._files.setdefault((scenario, data.candidate_id), data.files)
            case ev.GateOpened():
                yield Reference(data.suite, "the suite")
                if self._files is not None:
                    for file in self._files.get((scenario, data.candidate_id), ()):
                        yield Reference(file.sha256, f"the file {file.path}", file.size_bytes)
            case ev.GateTrial() | ev.WatchTrial() if data.body is not None:
                yield Reference(data.body, "the raw record of the trial")
            case ev.GatePassed() if data.canary is not None:
                yield Reference(data.canary, "the canary")
            case ev.ReleaseSigned():
                yield Reference(data.bundle, "the weights signature")


def _are_its_files(data: ev.CandidateSubmitted) -> bool:
    """Whether the id is that of the files; if not, the event has no effect, as the fold says."""
    try:
        files = digests_by_path((file.path, file.sha256) for file in data.files)
        return candidate_id(files) == data.candidate_id
    except ReefError:
        return False


def _suite(envelope: Mapping[str, Any]) -> Iterator[Reference]:
    """The suite of a signed policy; nothing if the envelope is broken, as its reader will say."""
    try:
        policy = parse_json(base64.b64decode(envelope["payload"], validate=True))
        yield Reference(policy["suite"], "the suite")
    except (BadRequest, KeyError, TypeError, ValueError, binascii.Error):
        return
