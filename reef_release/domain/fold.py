"""The fold: the log's events, one after the other, into the state.

Replay is verification. An event that breaks a rule has no effect: it is kept as a violation
that every reader of the log sees, and the pointer stays where the valid events put it. An
event that breaks the log's own form (order, versions, bytes) ends the fold with
`InvalidEvent`, since nothing after it can be trusted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from reef_release.domain import events as ev
from reef_release.domain.checks import Checks
from reef_release.domain.effects import EFFECTS
from reef_release.domain.events import Envelope, Event, EventData, VerdictRecord
from reef_release.domain.merkle import leaf_hash
from reef_release.domain.privacy import erased_ground, kept_by
from reef_release.domain.reasons import Reason
from reef_release.domain.state import State, Violation
from reef_release.domain.suite import Suite
from reef_release.domain.validation import VALIDATORS, stream_of
from reef_release.errors import InvalidEvent, MalformedData, ReefError

__all__ = ["Fold"]

_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z")


class Fold:
    """A state and the checks it is folded with."""

    def __init__(self, checks: Checks) -> None:
        self.state = State()
        self._checks = checks

    def apply(self, body: bytes, decoded: Event | None = None) -> Event | None:
        """Fold the stored bytes of the next event; the event, or None if it is a violation.

        *decoded* is the event in *body*, of a caller that has decoded it already. Raises
        `InvalidEvent` when the bytes cannot be the next event of this log.
        """
        envelope = ev.decode_envelope(body) if decoded is None else decoded.envelope
        state = self.state
        self._check_order(envelope)
        data = reasons = None
        try:
            data = (
                ev.decode_data(envelope.type, envelope.schema_version, bytes(envelope.data))
                if decoded is None
                else decoded.data
            )
            reasons = self.reasons(envelope.scenario, envelope.stream, data)
        except MalformedData as error:
            # The database lets any JSON object through as data, so this must not stop a reader.
            reasons = [Reason(code=error.problem, message=error.detail)]
        if reasons:
            state.violations.append(
                Violation(
                    position=envelope.position,
                    type=envelope.type,
                    scenario=envelope.scenario,
                    reasons=tuple(reasons),
                )
            )
        elif data is not None:
            EFFECTS[type(data)](state, self._checks, envelope, data)
            state.kept.update(kept_by(state.scenarios.get(envelope.scenario), data))
        state.tree.append(leaf_hash(body))
        state.position = envelope.position
        state.recorded_at = envelope.recorded_at
        state.versions[envelope.scenario, envelope.stream] = envelope.version
        return None if reasons or data is None else Event(envelope, data)

    def reasons(self, scenario: str, stream: str, data: EventData) -> list[Reason]:
        """Why *data* would be invalid as the next event; empty if it is valid."""
        expected = stream_of(data)
        if stream != expected:
            return [
                Reason(code="stream", message=f"a {data.TYPE} belongs in {expected}", where=stream)
            ]
        validate: Callable[..., list[Reason]] = VALIDATORS[type(data)]
        in_scope: Any = self.state
        if (scenario == ev.GLOBAL) != (stream.partition("/")[0] == "trust"):
            return [Reason(code="scenario", message="this event belongs to another scenario")]
        if scenario != ev.GLOBAL and not isinstance(data, ev.ScenarioCreated):
            found = self.state.scenarios.get(scenario)
            if found is None:
                return [Reason(code="unknown-scenario", message=f"no scenario {scenario!r}")]
            in_scope = found
        gone = erased_ground(self.state, self.state.scenarios.get(scenario), data)
        if gone:
            return gone
        try:
            return validate(self.state, self._checks, scenario, in_scope, data)
        except ReefError as error:
            if error.status >= 500:
                # This reader's own trouble (a damaged blob), which others do not have: it must
                # stop here, or two readers of one log would hold different states.
                raise InvalidEvent(f"A {data.TYPE} cannot be checked: {error.detail}") from error
            own = Reason(code=error.problem, message=error.detail)
            return [own, *error.reasons]

    def suite(self, digest: str) -> Suite:
        """The tasks in blob *digest*, as the fold reads them."""
        return self._checks.suite(digest)

    def verdict(self, verifiers: Sequence[str], reply: str, answer: str) -> VerdictRecord:
        """What a trial's verdict must be for the fold to accept it."""
        return self._checks.verdict(verifiers, reply, answer)

    def _check_order(self, envelope: Envelope) -> None:
        state = self.state
        if envelope.position != state.position + 1:
            raise InvalidEvent(
                f"Position {envelope.position} follows {state.position}; an event is missing, "
                "or out of order."
            )
        version = state.versions.get((envelope.scenario, envelope.stream), 0)
        if envelope.version != version + 1:
            raise InvalidEvent(
                f"Version {envelope.version} of stream {envelope.stream} at position "
                f"{envelope.position} follows version {version}."
            )
        if not _TIME.fullmatch(envelope.recorded_at):
            # Times are compared as strings, so one of another form could stop all later ones.
            raise InvalidEvent(
                f"The time {envelope.recorded_at!r} at position {envelope.position} is not "
                "written like 2026-01-02T03:04:05.000006Z."
            )
        if envelope.recorded_at < state.recorded_at:
            raise InvalidEvent(f"Time runs backwards at position {envelope.position}.")
