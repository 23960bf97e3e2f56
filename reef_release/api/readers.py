"""Which blobs a token may read, computed from the state.

Weights, bundles, canaries and schemas are for whoever works with them. Suites hold the gate's
answers and trial bodies hold what models replied: these are secret, the auditor's alone, also
where a candidate lists their digest among its own files.
"""

from __future__ import annotations

from reef_release.domain.state import Scenario, State
from reef_release.tokens import Principal, TokenRole

__all__ = ["BlobReaders"]


class BlobReaders:
    """The readers of all blobs, kept for one position of the state at a time."""

    def __init__(self) -> None:
        self._position = -1
        self._shared: dict[str, set[str]] = {}
        self._secret: dict[str, set[str]] = {}

    def may_read(self, principal: Principal, digest: str, state: State) -> bool:
        """Whether *principal* may read the blob *digest* at this state."""
        is_auditor = principal.role is TokenRole.AUDIT
        if is_auditor and principal.scenario is None:
            return True  # also what no event names yet
        secret = self.is_secret(digest, state)
        by_scenario = self._secret if secret else self._shared
        own = by_scenario if principal.scenario is None else [principal.scenario]
        named = any(digest in by_scenario.get(name, ()) for name in own)
        return named and (is_auditor or not secret)

    def is_secret(self, digest: str, state: State) -> bool:
        """Whether the blob *digest* is a suite or a trial body."""
        if self._position != state.position:
            scenarios = state.scenarios.values()
            self._shared = {scenario.name: _shared_by(scenario) for scenario in scenarios}
            self._secret = {scenario.name: _secret_of(scenario) for scenario in scenarios}
            self._position = state.position
        return any(digest in secret for secret in self._secret.values())


def _shared_by(scenario: Scenario) -> set[str]:
    digests = {scenario.schema}
    for candidate in scenario.candidates.values():
        digests.update(file.sha256 for file in candidate.submitted.files)
    digests.update(release.bundle for release in scenario.releases.values())
    digests.update(gate.canary for gate in scenario.gates.values() if gate.canary is not None)
    return digests


def _secret_of(scenario: Scenario) -> set[str]:
    digests = {entry.policy.suite for entry in scenario.policies}
    for gate in scenario.gates.values():
        digests.update(trial.body for trial in gate.trials if trial.body is not None)
    for watch in scenario.watches.values():
        digests |= watch.bodies
    return digests
