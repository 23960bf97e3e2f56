"""Signal health as gauges; every figure follows from the log, so a restart loses none."""

from __future__ import annotations

from prometheus_client.core import GaugeMetricFamily

from reef_release.domain.state import State
from reef_release.projections.signal import SignalHealth
from reef_release.projections.signal_findings import waiting_samples

__all__ = ["signal_gauges"]

_PLAIN = (
    "calls",
    "failed",
    "main",
    "side",
    "retries",
    "regenerations",
    "truncated",
    "reported",
    "erased",
    "judged",
    "neutral",
    "judging_failed",
    "batched",
    "skipped",
    "completed",
    "trained",
)


def signal_gauges(state: State, signal: SignalHealth) -> list[GaugeMetricFamily]:
    """The gauges of all scenarios that any call was recorded in."""
    calls = GaugeMetricFamily(
        "reef_signal", "Calls and turns by what became of them", labels=["scenario", "what"]
    )
    bound = GaugeMetricFamily(
        "reef_signal_bound", "Main calls that continue another", labels=["scenario", "method"]
    )
    unbound = GaugeMetricFamily(
        "reef_signal_unbound", "Main calls that continue none", labels=["scenario", "reason"]
    )
    refused = GaugeMetricFamily(
        "reef_signal_refused", "Judged turns that gave no sample", labels=["scenario", "reason"]
    )
    waiting = GaugeMetricFamily(
        "reef_signal_waiting", "What waits at this moment", labels=["scenario", "what"]
    )
    alarm = GaugeMetricFamily(
        "reef_signal_alarm",
        "1 while traffic flows and nothing binds",
        labels=["scenario"],
    )
    failed = GaugeMetricFamily(
        "reef_signal_failed", "Calls without a whole answer", labels=["scenario", "error"]
    )
    untrainable = GaugeMetricFamily(
        "reef_signal_untrainable",
        "Replies that can never train, as their recording tells",
        labels=["scenario", "reason"],
    )
    for name, scenario in state.scenarios.items():
        traffic = scenario.traffic
        ready, held = waiting_samples(scenario)
        alarm.add_metric([name], float(traffic.alarm is not None))
        total = signal.total(name)
        for what in _PLAIN:
            calls.add_metric([name, what], getattr(total, what))
        for family, counts in (
            (bound, total.bound),
            (unbound, total.unbound),
            (refused, total.refused),
            (failed, total.errors),
            (untrainable, total.untrainable),
        ):
            for key, count in sorted(counts.items()):
                family.add_metric([name, key], count)
        for what, count in (
            ("correlation", len(traffic.uncorrelated)),
            ("judge", len(traffic.to_judge)),
            ("batch", ready),
            ("held", held),
            ("trainer", len(traffic.open_batches)),
            ("release", len(traffic.unsettled)),
        ):
            waiting.add_metric([name, what], count)
    return [calls, failed, bound, unbound, untrainable, refused, waiting, alarm]
