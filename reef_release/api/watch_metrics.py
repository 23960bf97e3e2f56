"""The watch in figures: what the trials of every served release amount to."""

from __future__ import annotations

from prometheus_client.core import GaugeMetricFamily

from reef_release.domain.state import State
from reef_release.domain.watch_rule import ONE

__all__ = ["watch_gauges"]


def watch_gauges(state: State) -> list[GaugeMetricFamily]:
    """Trials by outcome and the evidence, of what each channel serves now."""
    labels = ["scenario", "channel"]
    trials = GaugeMetricFamily(
        "reef_watch_trials",
        "Trials of the release that is served, by outcome",
        labels=[*labels, "outcome"],
    )
    evidence = GaugeMetricFamily(
        "reef_watch_evidence",
        "Evidence that the release has fallen under its bar; at 1/alpha it is called fallen",
        labels=labels,
    )
    for name, scenario in state.scenarios.items():
        for channel, history in scenario.pointers.items():
            watch = scenario.watches.get(history[-1].position)
            if watch is not None:
                progress = watch.progress
                failed = progress.trials - progress.passed
                trials.add_metric([name, channel, "passed"], progress.passed)
                trials.add_metric([name, channel, "failed"], failed)
                evidence.add_metric([name, channel], progress.evidence.value / ONE)
    return [trials, evidence]
