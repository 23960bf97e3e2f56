"""Commands: what a request may add to the log.

Every append goes through `Commands.append`: the fold is asked first, the stream's version is
expected, and the answer waits until the write is folded here. An event whose rule reads other
streams also carries the position that the fold had reached, and is asked about again if something
decisive came after. So a request never reports a success that the fold would not have accepted,
no honest race leaves a violation in the log, and two processes that race lose no write.

Of the events that rest on other streams, this process asks about one of a scenario at a time and
appends it before it asks about the next: else all but one of those that come at once would be
asked about again, and the last one as often as there are others. Only another process can still
come in between; whoever meets one tries again until its patience ends.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import nullcontext

from reef_release.api.turns import PATIENCE_S, Turns, too_busy
from reef_release.domain.decisive import RESTING
from reef_release.domain.events import EventData, encode_data
from reef_release.domain.gate_rules import late_pass_reasons
from reef_release.domain.reasons import Reason
from reef_release.domain.validation import stream_of
from reef_release.errors import BadRequest, Conflict, NotFound, ReefError, Refused
from reef_release.ids import uuid7
from reef_release.log import Appended, EventLog, NewEvent, RuleRefused, VersionConflict
from reef_release.projections.live import LiveState

__all__ = ["MAX_EVENT_BYTES", "Commands"]

MAX_EVENT_BYTES = 60_000
"""An entry of a tlog-tiles bundle has a 16-bit length; this leaves room for the envelope."""

_RACE_WAIT_S = 2.0
_JITTER_MS = 10

_CONFLICTS = frozenset(
    {
        "alarm",
        "already-gated",
        "already-serving",
        "approved",
        "attempt",
        "batch-ended",
        "batch-used",
        "candidate-waits",
        "claimed",
        "correlated",
        "erased",
        "gate-closed",
        "gate-decided",
        "gate-open",
        "held",
        "judge",
        "judged",
        "judging-failed",
        "known-batch",
        "known-candidate",
        "known-gate",
        "known-interaction",
        "known-scenario",
        "line-busy",
        "line-over",
        "no-alarm",
        "no-sample",
        "not-held",
        "nothing-refused",
        "not-open",
        "not-started",
        "not-submitted",
        "other-lease",
        "parent",
        "reported",
        "revoked",
        "revoked-teacher",
        "session-moved",
        "signed",
        "started",
        "stale-gate",
        "step-not-due",
        "trained",
        "trial-not-due",
        "pointer",
        "used",
        "watch-over",
    }
)
_MISSING = frozenset(
    {
        "unknown-batch",
        "unknown-candidate",
        "unknown-gate",
        "unknown-key",
        "unknown-release",
        "unknown-scenario",
        "unknown-turn",
    }
)


class Commands:
    """Appends events on behalf of an actor."""

    def __init__(self, log: EventLog, live: LiveState) -> None:
        self._log = log
        self._live = live
        self._turns: Turns[str] = Turns()

    async def append(
        self,
        actor: str,
        scenario: str,
        data: EventData,
        causation_id: str | None = None,
        event_id: str | None = None,
    ) -> tuple[Appended, str]:
        """Append one event and wait until it is folded; returns it with its event id.

        With *event_id* given the append may be repeated.

        Raises `Refused`, `Conflict` or `NotFound` with the rule's reasons, `BadRequest` for
        data that cannot be stored, `QueueFull` when others were at it for all of its patience
        (nothing was written), and `Unavailable` while the log is away or cannot be folded.
        """
        encoded = encode_data(data)
        if len(encoded) > MAX_EVENT_BYTES:
            raise BadRequest(
                f"The event would have {len(encoded)} bytes; at most {MAX_EVENT_BYTES} fit.",
                next_step="Store large values as a blob and name it by digest.",
            )
        event_id = event_id or uuid7()
        stream = stream_of(data)
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        rests = data.TYPE in RESTING
        async with self._turns.take(scenario, deadline) if rests else nullcontext():
            while True:
                self._live.check()
                state = self._live.state
                position = state.position
                reasons = self._live.fold.reasons(scenario, stream, data)
                reasons = reasons or late_pass_reasons(state.scenarios.get(scenario), data)
                if reasons:
                    raise _refusal(data, reasons)
                new = NewEvent(
                    event_id=event_id,
                    scenario=scenario,
                    stream=stream,
                    type=data.TYPE,
                    schema_version=data.SCHEMA_VERSION,
                    actor=actor,
                    causation_id=causation_id,
                    correlation_id=None,
                    data=encoded,
                    expected_version=state.versions.get((scenario, stream), 0),
                    validated_position=position if rests else None,
                )
                try:
                    appended = await self._log.append(new)
                    break
                except VersionConflict as conflict:
                    if asyncio.get_running_loop().time() >= deadline:
                        raise too_busy() from conflict
                    await self._fold_what_came_first(position, conflict)
                except RuleRefused as refused:
                    raise _refusal(data, list(refused.reasons)) from refused
            await self._live.wait_for(appended.position)
        for violation in reversed(self._live.state.violations):
            if violation.position == appended.position:
                raise _refusal(data, list(violation.reasons))
        return appended, event_id

    async def _fold_what_came_first(self, position: int, conflict: VersionConflict) -> None:
        """Wait until the rule can be asked again; *position* is where it was asked."""
        decisive = conflict.extra.get("position", 0)
        await self._live.wait_beyond(max(position, decisive - 1), _RACE_WAIT_S)
        # Processes that fold the same news at the same moment must not meet again in step.
        await asyncio.sleep(secrets.randbelow(_JITTER_MS + 1) / 1000)


def _refusal(data: EventData, reasons: list[Reason]) -> ReefError:
    codes = {reason.code for reason in reasons}
    kind: type[ReefError] = Refused
    if codes & _MISSING:
        kind = NotFound
    elif codes & _CONFLICTS:
        kind = Conflict
    return kind(
        f"{data.TYPE} is refused: " + "; ".join(reason.message for reason in reasons) + ".",
        reasons=reasons,
    )
