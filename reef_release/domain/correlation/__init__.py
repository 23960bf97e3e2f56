"""Correlation: which earlier call does a call continue?"""

from __future__ import annotations

from reef_release.domain.correlation.calls import (
    REASONS,
    Binding,
    Call,
    Kind,
    Message,
    Method,
    TurnType,
)
from reef_release.domain.correlation.correlator import Correlator
from reef_release.domain.correlation.memory import Limits
from reef_release.domain.correlation.tally import Finding, FindingCode, Tally
from reef_release.domain.correlation.traffic import (
    MALFORMED,
    TrafficResult,
    replay_traffic,
)

__all__ = [
    "MALFORMED",
    "REASONS",
    "Binding",
    "Call",
    "Correlator",
    "Finding",
    "FindingCode",
    "Kind",
    "Limits",
    "Message",
    "Method",
    "Tally",
    "TrafficResult",
    "TurnType",
    "replay_traffic",
]
