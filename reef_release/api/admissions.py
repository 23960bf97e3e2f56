"""Candidates from their submission to their admission or refusal.

Files are examined at once, so that whatever is wrong with them is told early. A candidate that
is in order is admitted when it is its turn to be drawn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import msgspec
import structlog

from reef_release.api.commands import MAX_EVENT_BYTES
from reef_release.api.turns_at_the_gate import ungated_reasons, waiting_reasons
from reef_release.artifacts import admission
from reef_release.artifacts.blobs import BlobReader, BlobStore
from reef_release.artifacts.schema import MAX_SCHEMA_BYTES, Schema, parse_schema
from reef_release.domain import events as ev
from reef_release.domain.events import EventData
from reef_release.domain.reasons import Reason
from reef_release.domain.state import Candidate, Scenario
from reef_release.projections.live import LiveState

__all__ = ["Admissions", "fitting", "read_schema"]

_PAUSE_S = 1.0
_REASONS_BYTES = MAX_EVENT_BYTES - 2_000
_log = structlog.get_logger(__name__)


class Admissions:
    """The admissions of one service process."""

    def __init__(
        self,
        *,
        live: LiveState,
        blobs: BlobStore,
        append: Callable[[str, EventData], Awaitable[None]],
    ) -> None:
        self._live = live
        self._blobs = blobs
        self._append = append
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._examined: dict[tuple[str, str], _Examined] = {}
        self._turn = asyncio.Lock()

    def start(self) -> None:
        """Examine every submitted candidate that is not examined yet."""
        for key, task in list(self._tasks.items()):
            if task.done():
                del self._tasks[key]
        for scenario in self._live.state.scenarios.values():
            for candidate in scenario.candidates.values():
                key = (scenario.name, candidate.candidate_id)
                if candidate.status == "submitted" and not (
                    key in self._tasks or key in self._examined
                ):
                    self._tasks[key] = asyncio.create_task(self._admit(scenario, candidate))

    async def settle(self) -> None:
        """Write down what is known of those candidates whose turn has come."""
        for key in list(self._examined):
            await self._settle(key)

    def waits(self, scenario: str, candidate_id: str) -> bool:
        """Whether a candidate was found in order and waits for its turn."""
        if (scenario, candidate_id) not in self._examined:
            return False
        state = self._live.state
        found = state.scenarios[scenario]
        return bool(waiting_reasons(state, found, found.candidates[candidate_id]))

    def cancel(self) -> None:
        """Stop examining."""
        for task in self._tasks.values():
            task.cancel()

    async def _admit(self, scenario: Scenario, candidate: Candidate) -> None:
        key = (scenario.name, candidate.candidate_id)
        try:
            policy_digest = scenario.policy.digest
            data = await self._examine(scenario, candidate)
            self._examined[key] = _Examined(policy_digest=policy_digest, data=data)
            await self._settle(key)
        except Exception:
            # An outage is never a verdict: the candidate stays submitted and is tried again.
            _log.exception("admission not completed", candidate=candidate.candidate_id)
            await asyncio.sleep(_PAUSE_S)

    async def _settle(self, key: tuple[str, str]) -> None:
        # One after the other: each admission is folded before the next one looks whose turn it is.
        async with self._turn:
            found = self._examined.get(key)
            if found is None:
                return
            state = self._live.state
            scenario = state.scenarios[key[0]]
            candidate = scenario.candidates[key[1]]
            if candidate.status != "submitted" or found.policy_digest != scenario.policy.digest:
                # Decided by another service; or the policy allows other files now.
                del self._examined[key]
                return
            data = found.data
            if isinstance(data, ev.CandidateAdmitted):
                if waiting_reasons(state, scenario, candidate):
                    return
                if reasons := ungated_reasons(state, scenario, candidate):
                    data = ev.CandidateRefused(candidate_id=key[1], reasons=fitting(reasons))
            try:
                await self._append(scenario.name, data)
            finally:
                del self._examined[key]

    async def _examine(
        self, scenario: Scenario, candidate: Candidate
    ) -> ev.CandidateAdmitted | ev.CandidateRefused:
        submitted = candidate.submitted
        schema = await asyncio.to_thread(read_schema, self._blobs, scenario.schema)
        found = await asyncio.to_thread(
            admission.admit,
            submitted.files,
            self._blobs,
            schema,
            kind=submitted.kind,
            foundation=submitted.foundation,
            expected_foundation=submitted.foundation,
            allowed_changes=frozenset(scenario.policy.policy.allowed_changes),
        )
        if found.reasons:
            return ev.CandidateRefused(
                candidate_id=candidate.candidate_id, reasons=fitting(found.reasons)
            )
        return ev.CandidateAdmitted(
            candidate_id=candidate.candidate_id,
            schema=scenario.schema,
            tensor_count=found.tensor_count,
            size_bytes=found.size_bytes,
        )


@dataclass(frozen=True, kw_only=True)
class _Examined:
    """What came of an examination, and the policy that said which files may differ."""

    policy_digest: str
    data: ev.CandidateAdmitted | ev.CandidateRefused


def fitting(reasons: Sequence[Reason]) -> list[Reason]:
    """As many of *reasons* as fit an event, and how many more there are.

    A candidate that is wrong in every way must be refused all the same: if its refusal could
    not be stored, it would be examined for ever.
    """
    kept: list[Reason] = []
    size_bytes = 0
    for reason in reasons:
        size_bytes += len(msgspec.json.encode(reason)) + 1
        if size_bytes > _REASONS_BYTES:
            more = f"and {len(reasons) - len(kept)} more reasons"
            return [*kept, Reason(code="more-reasons", message=more)]
        kept.append(reason)
    return kept


def read_schema(blobs: BlobReader, digest: str) -> Schema:
    """The model schema in blob *digest*; blocks. Raises `BlobMissing`, `BadRequest`."""
    return parse_schema(blobs.read_sync(digest, MAX_SCHEMA_BYTES))
