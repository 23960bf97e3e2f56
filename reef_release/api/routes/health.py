"""Liveness, readiness and metrics, for orchestrators; no token needed."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from typing import Any

from litestar import MediaType, Response, get
from litestar.di import NamedDependency
from litestar.status_codes import HTTP_503_SERVICE_UNAVAILABLE
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily

from reef_release.api.expiry import expiry_gauges
from reef_release.api.problems import PUBLIC
from reef_release.api.proxy.health import spool_gauges
from reef_release.api.service import Service
from reef_release.api.signal_metrics import signal_gauges
from reef_release.api.watch_metrics import watch_gauges
from reef_release.api.witness_metrics import witness_gauges
from reef_release.domain.state import State
from reef_release.errors import ReefError

__all__ = ["HEALTH_HANDLERS"]

_METRICS = CONTENT_TYPE_LATEST.removesuffix("; charset=utf-8")
"""The framework writes the character set behind it by itself."""


@get("/healthz", summary="Is the process alive?", security=PUBLIC)
async def healthz() -> dict[str, str]:
    """Always ok while the process answers."""
    return {"status": "ok"}


@get("/readyz", summary="Can the service do its work?", security=PUBLIC)
async def readyz(service: NamedDependency[Service]) -> Response[dict[str, Any]]:
    """503 while the log is away or broken."""
    broken = service.live.broken
    problem = "" if broken is None else broken.detail
    head = -1
    if not problem:
        try:
            head = await service.log.head()
        except ReefError as error:
            problem = error.detail
    body = {
        "status": "unavailable" if problem else "ok",
        "detail": problem,
        "position": service.state.position,
        "head": head,
        "violations": len(service.state.violations),
        "last_violation": _last_violation(service.state),
    }
    return Response(body, status_code=HTTP_503_SERVICE_UNAVAILABLE if problem else 200)


def _last_violation(state: State) -> dict[str, Any] | None:
    """Where to look in the log; what stands there is for those who may read it."""
    if not state.violations:
        return None
    last = state.violations[-1]
    return {
        "position": last.position,
        "type": last.type,
        "codes": sorted({reason.code for reason in last.reasons}),
    }


@get(
    "/metrics",
    summary="Metrics in Prometheus text form",
    security=PUBLIC,
    media_type=MediaType.TEXT,
)
async def metrics(service: NamedDependency[Service]) -> Response[bytes]:
    """Gauges computed from the state at this moment."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_StateCollector(service))
    return Response(generate_latest(registry), media_type=_METRICS)


class _StateCollector:
    """Every figure is read off the state, so a restart loses none."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> list[GaugeMetricFamily]:
        state = self._service.state
        position = GaugeMetricFamily("reef_log_position", "Position of the last folded event")
        position.add_metric([], state.position)
        broken = GaugeMetricFamily(
            "reef_log_broken", "1 when the fold has stopped at an event that it cannot read"
        )
        broken.add_metric([], float(self._service.live.broken is not None))
        violations = GaugeMetricFamily(
            "reef_log_violations", "Events in the log that broke a rule and have no effect"
        )
        violations.add_metric([], len(state.violations))
        candidates = GaugeMetricFamily(
            "reef_candidates", "Candidates by status", labels=["scenario", "status"]
        )
        gates = GaugeMetricFamily("reef_gates", "Gates by outcome", labels=["scenario", "outcome"])
        pointer = GaugeMetricFamily(
            "reef_pointer_position",
            "Position of the pointer event of each channel",
            labels=["scenario", "channel", "release_id"],
        )
        budget = GaugeMetricFamily(
            "reef_error_budget",
            "The error budget: what gates spent of it, what is left, and the next gate's level",
            labels=["scenario", "what"],
        )
        held = GaugeMetricFamily("reef_held", "1 while promotions are held", labels=["scenario"])
        serial = GaugeMetricFamily(
            "reef_document_serial",
            "Serial of the current document",
            labels=["scenario", "channel"],
        )
        for name, scenario in state.scenarios.items():
            held.add_metric([name], float(scenario.held_reason is not None))
            in_force = scenario.policy.policy.budget
            if in_force is not None:
                share = scenario.ledger.share(in_force)
                left = max(in_force.total - scenario.ledger.spent, Fraction(0))
                budget.add_metric([name, "spent"], float(scenario.ledger.spent))
                budget.add_metric([name, "left"], float(left))
                budget.add_metric([name, "next_level"], float(Fraction(share.level)))
            _count(candidates, name, [each.status for each in scenario.candidates.values()])
            _count(gates, name, [each.outcome or "open" for each in scenario.gates.values()])
            for channel, history in scenario.pointers.items():
                last = history[-1]
                pointer.add_metric([name, channel, last.release_id], last.position)
        expiry = GaugeMetricFamily(
            "reef_document_expiry_seconds",
            "Unix time at which the current document ends; nodes stop moving then",
            labels=["scenario", "channel"],
        )
        lifetime_s = self._service.settings.document_lifetime_s
        for (name, channel), current in state.current.items():
            serial.add_metric([name, channel], current.serial)
            issued = datetime.fromisoformat(current.issued_at)
            expiry.add_metric([name, channel], issued.timestamp() + lifetime_s)
        gauges = [position, broken, violations, candidates, gates, pointer, held, serial, expiry]
        gauges.append(budget)
        settings = self._service.settings
        gauges += expiry_gauges(state, settings.document_lifetime_s, settings.document_warning_s)
        gauges += watch_gauges(state)
        gauges += witness_gauges(self._service.processes.witnesses)
        gauges += signal_gauges(state, self._service.signal)
        return gauges + spool_gauges(self._service.spool)


def _count(family: GaugeMetricFamily, scenario: str, values: list[str]) -> None:
    for value in sorted(set(values)):
        family.add_metric([scenario, value], values.count(value))


HEALTH_HANDLERS = [healthz, metrics, readyz]
