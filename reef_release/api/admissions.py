"""Candidates from their submission to their admission or refusal.

Files are examined before it is a candidate's turn, so that whatever is wrong with them is told
early: one candidate of each submitter at a time, a few altogether. A candidate that is in order is
admitted when it is its turn to be drawn. One whose files cannot be read now is tried again, and
meanwhile holds up nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec
import structlog

from reef_release.api.commands import MAX_EVENT_BYTES
from reef_release.api.turns_at_the_gate import next_to_draw, takes_turns, ungated_reasons
from reef_release.artifacts import admission
from reef_release.artifacts.blobs import BlobReader, BlobStore
from reef_release.artifacts.schema import MAX_SCHEMA_BYTES, Schema, parse_schema
from reef_release.domain import events as ev
from reef_release.domain.events import EventData
from reef_release.domain.reasons import Reason
from reef_release.domain.state import Candidate, Scenario
from reef_release.domain.turns import examinations_in_turn
from reef_release.projections.live import LiveState

__all__ = ["Admissions", "fitting", "read_schema"]

_PAUSE_S = 1.0
_AT_ONCE = 4
_REASONS_BYTES = MAX_EVENT_BYTES - 2_000
_log = structlog.get_logger(__name__)
_Key = tuple[str, str]
"""Scenario and candidate."""


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
        self._tasks: dict[_Key, tuple[str, asyncio.Task[None]]] = {}
        self._examined: dict[_Key, _Examined] = {}
        self._unread: dict[_Key, float] = {}
        self._turn = asyncio.Lock()
        self._stopped = False

    def start(self) -> None:
        """Examine submitted candidates that are not examined yet, as many as may be at once."""
        if self._stopped:
            return
        busy = {actor for actor, _ in self._tasks.values()}
        self._unread = {key: at for key, at in self._unread.items() if self._is_submitted(key)}
        for scenario, candidate in self._unexamined():
            if len(self._tasks) >= _AT_ONCE:
                return
            if candidate.actor not in busy:
                busy.add(candidate.actor)
                key = (scenario.name, candidate.candidate_id)
                task = asyncio.create_task(self._admit(scenario, candidate))
                self._tasks[key] = candidate.actor, task
                task.add_done_callback(partial(self._end, key))

    async def settle(self) -> None:
        """Write down what is known of those candidates whose turn has come."""
        nexts: dict[tuple[str, str], Candidate | None] = {}
        for key in list(self._examined):
            scenario = self._live.state.scenarios[key[0]]
            candidate = scenario.candidates[key[1]]
            channel = candidate.submitted.channel
            if takes_turns(scenario, candidate) and not self._is_outdated(key):
                # Asked once for all that wait, of whom there may be hundreds.
                if (scenario.name, channel) not in nexts:
                    nexts[scenario.name, channel] = self._next(scenario, channel)
                if nexts[scenario.name, channel] is not candidate:
                    continue
            await self._settle(key)

    def waits(self, scenario: str, candidate_id: str) -> bool:
        """Whether a candidate was found in order and waits for its turn."""
        if (scenario, candidate_id) not in self._examined:
            return False
        state = self._live.state
        found = state.scenarios[scenario]
        candidate = found.candidates[candidate_id]
        # What is still being examined may be refused, and is waited for a moment only.
        others = {each for each in found.candidates if (scenario, each) not in self._examined}
        channel = candidate.submitted.channel
        return (
            takes_turns(found, candidate)
            and next_to_draw(state, found, channel, others) is not candidate
        )

    def cancel(self) -> None:
        """Stop examining."""
        self._stopped = True
        for _, task in self._tasks.values():
            task.cancel()

    def _is_submitted(self, key: _Key) -> bool:
        return self._live.state.scenarios[key[0]].candidates[key[1]].status == "submitted"

    def _end(self, key: _Key, _task: asyncio.Task[None]) -> None:
        del self._tasks[key]
        self.start()

    def _unexamined(self) -> Iterator[tuple[Scenario, Candidate]]:
        """Who is examined next; those that could not be read come last, and after a pause."""
        now = asyncio.get_running_loop().time()
        again = []
        for scenario, candidate in examinations_in_turn(self._live.state):
            key = (scenario.name, candidate.candidate_id)
            if key in self._tasks or key in self._examined:
                continue
            if key not in self._unread:
                yield scenario, candidate
            elif self._unread[key] <= now:
                again.append((scenario, candidate))
        yield from again

    def _next(self, scenario: Scenario, channel: str) -> Candidate | None:
        unread = {candidate_id for name, candidate_id in self._unread if name == scenario.name}
        return next_to_draw(self._live.state, scenario, channel, unread)

    def _is_outdated(self, key: _Key) -> bool:
        """Whether another service decided on it, or the policy allows other files by now."""
        policy = self._live.state.scenarios[key[0]].policy
        return not self._is_submitted(key) or self._examined[key].policy_digest != policy.digest

    async def _admit(self, scenario: Scenario, candidate: Candidate) -> None:
        key = (scenario.name, candidate.candidate_id)
        try:
            policy_digest = scenario.policy.digest
            data = await self._examine(scenario, candidate)
            self._examined[key] = _Examined(policy_digest=policy_digest, data=data)
            self._unread.pop(key, None)
            await self._settle(key)
        except Exception:
            # An outage is never a verdict: the candidate stays submitted and is tried again.
            _log.exception("admission not completed", candidate=candidate.candidate_id)
            self._examined.pop(key, None)
            self._try_later(key)

    async def _settle(self, key: _Key) -> None:
        # One after the other: each admission is folded before the next one looks whose turn it is.
        async with self._turn:
            if key not in self._examined:
                return
            if self._is_outdated(key):
                del self._examined[key]
                return
            state = self._live.state
            scenario = state.scenarios[key[0]]
            candidate = scenario.candidates[key[1]]
            data = self._examined[key].data
            if isinstance(data, ev.CandidateAdmitted):
                channel = candidate.submitted.channel
                if takes_turns(scenario, candidate) and (
                    self._next(scenario, channel) is not candidate
                ):
                    return
                if reasons := ungated_reasons(state, scenario, candidate):
                    data = ev.CandidateRefused(candidate_id=key[1], reasons=fitting(reasons))
            try:
                await self._append(scenario.name, data)
            finally:
                del self._examined[key]
                if self._is_submitted(key):
                    self._try_later(key)

    def _try_later(self, key: _Key) -> None:
        self._unread[key] = asyncio.get_running_loop().time() + _PAUSE_S

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
