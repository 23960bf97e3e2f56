"""The witnesses in figures: how many there are, and how many cosigned the last checkpoint."""

from __future__ import annotations

from prometheus_client.core import GaugeMetricFamily

from reef_release.api.witnesses import Witnesses

__all__ = ["witness_gauges"]


def witness_gauges(witnesses: Witnesses) -> list[GaugeMetricFamily]:
    """By what is counted; all are 0 or absent where no witnesses are configured."""
    gauge = GaugeMetricFamily(
        "reef_witnesses",
        "Witnesses: configured, needed for a checkpoint, and that cosigned the last one",
        labels=["what"],
    )
    for what, count in witnesses.counts().items():
        gauge.add_metric([what], count)
    return [gauge]
