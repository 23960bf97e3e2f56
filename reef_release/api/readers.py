"""Which blobs a token may read, told by the log one event at a time.

Weights, bundles, canaries and schemas are for whoever works with them. Suites hold the gate's
answers and trial bodies hold what models replied: these are secret, the auditor's alone, also
where a candidate lists their digest among its own files. A candidate's files are shared once they
are admitted, and a canary once its gate has passed: before that, anybody with a trainer's or a gate
worker's token could name what a person said. What is named once stays named.
"""

from __future__ import annotations

from collections import defaultdict

from reef_release.domain import events as ev
from reef_release.domain.events import Event
from reef_release.domain.state import State
from reef_release.tokens import Principal, TokenRole

__all__ = ["BlobReaders"]


class BlobReaders:
    """Follows the log; a question costs a look-up in each scenario, however long the log is."""

    def __init__(self) -> None:
        self._shared: defaultdict[str, set[str]] = defaultdict(set)
        self._secret: defaultdict[str, set[str]] = defaultdict(set)

    def apply(self, state: State, event: Event) -> None:
        """Take in a valid event."""
        scenario = event.envelope.scenario
        match event.data:
            case ev.ScenarioCreated() as data:
                self._shared[scenario].add(data.schema)
                self._secret[scenario].add(state.scenarios[scenario].policy.policy.suite)
            case ev.PolicyChanged():
                self._secret[scenario].add(state.scenarios[scenario].policy.policy.suite)
            case ev.CandidateAdmitted() as data:
                files = state.scenarios[scenario].candidates[data.candidate_id].submitted.files
                self._shared[scenario].update(file.sha256 for file in files)
            case ev.ReleaseSigned() as data:
                self._shared[scenario].add(data.bundle)
            case ev.GatePassed() as data if data.canary is not None:
                self._shared[scenario].add(data.canary)
            case ev.GateTrial() | ev.WatchTrial() as data if data.body is not None:
                self._secret[scenario].add(data.body)

    def may_read(self, principal: Principal, digest: str) -> bool:
        """Whether *principal* may read the blob *digest* as of what was taken in."""
        is_auditor = principal.role is TokenRole.AUDIT
        if is_auditor and principal.scenario is None:
            return True  # also what no event names yet
        if principal.role is TokenRole.APPROVE:
            return False  # an approval rests on the gate, and approvers work with no file
        secret = self.is_secret(digest)
        by_scenario = self._secret if secret else self._shared
        own = by_scenario if principal.scenario is None else [principal.scenario]
        named = any(digest in by_scenario.get(name, ()) for name in own)
        return named and (is_auditor or not secret)

    def is_secret(self, digest: str) -> bool:
        """Whether the blob *digest* is a suite or a trial body."""
        return any(digest in secret for secret in self._secret.values())
