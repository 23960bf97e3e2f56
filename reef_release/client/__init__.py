"""The HTTP client of the service, which workers, nodes and the command line share."""

from reef_release.client.service import Current, EventPage, ReefClient

__all__ = ["Current", "EventPage", "ReefClient"]
