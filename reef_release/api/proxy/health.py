"""How the spool stands, as gauges and as sentences for people."""

from __future__ import annotations

from prometheus_client.core import GaugeMetricFamily

from reef_release.api.proxy.spool import Spool
from reef_release.domain.reasons import Reason

__all__ = ["spool_findings", "spool_gauges"]

_OLD_S = 10.0
"""In a service that is well, a call waits for a fraction of a second."""


def spool_gauges(spool: Spool) -> list[GaugeMetricFamily]:
    """Depth, age and size, and what was given up."""
    return [
        _gauge("reef_spool_calls", "Forwarded calls that wait for the log", len(spool.waiting)),
        _gauge("reef_spool_oldest_seconds", "How long the first has waited", spool.oldest_s()),
        _gauge("reef_spool_bytes", "What the spool takes on the disk", spool.size_bytes),
        _gauge("reef_spool_held_bytes", "Calls in memory, as the disk is full", spool.held_bytes),
        _gauge("reef_spool_set_aside", "Calls that the log refused", spool.set_aside.count),
        _gauge("reef_spool_lost", "Calls lost since the start: disk and memory full", spool.lost),
    ]


def spool_findings(spool: Spool) -> list[Reason]:
    """What a person has to know about; nothing while all is well."""
    found = []
    if spool.oldest_s() > _OLD_S:
        found.append(
            Reason(
                code="spooled",
                message=f"{len(spool.waiting)} forwarded calls wait for the log, the first for "
                f"{spool.oldest_s():.0f} s; is the database there, and the disk not full?",
            )
        )
    if spool.set_aside.count:
        found.append(
            Reason(
                code="set-aside",
                message=f"{spool.set_aside.count} forwarded calls were refused by the log and set "
                f"aside; look at the files in {spool.set_aside.directory}",
            )
        )
    if spool.lost:
        found.append(
            Reason(
                code="lost",
                message=f"{spool.lost} forwarded calls are lost: disk and memory were full",
            )
        )
    return found


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text)
    family.add_metric([], value)
    return family
