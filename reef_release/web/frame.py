"""One request of a person who is signed in: who asks, as of which position, and what is around.

`at` is the position that is looked at; `now` is the clock of the page, which is the time of the
event at `at` when the past is looked at, so that a page tells the same for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from litestar import Request, Response

from reef_release.api.service import Service
from reef_release.errors import NotFound
from reef_release.tokens import Principal
from reef_release.web.access import sees
from reef_release.web.actions import action_named
from reef_release.web.facts import Row
from reef_release.web.history import History
from reef_release.web.past import Past
from reef_release.web.render import page
from reef_release.web.session import Session, Sessions
from reef_release.web.summaries import summary

__all__ = ["NAVIGATION", "THEMES", "THEME_COOKIE", "Frame", "make_frame", "theme_of"]

NAVIGATION = (
    ("Overview", ""),
    ("Timeline", "timeline"),
    ("Gates", "gates"),
    ("Candidates", "candidates"),
    ("Learning", "learning"),
    ("Signal", "signal"),
    ("Sessions", "sessions"),
    ("Log", "log"),
)
"""The pages of a scenario: what they are called, and their path below `/s/SCENARIO`."""

THEME_COOKIE = "reef_theme"
THEMES = ("auto", "light", "dark")
_POSITION_DIGITS = 16


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What is around a page, and where its facts come from.

    `asked` is the position in the address, None for now; `scenario` the one in the path.
    """

    request: Request[Any, Any, Any]
    service: Service
    session: Session
    history: History
    asked: int | None
    now: datetime
    at_time: str
    scenario: str | None
    written: Row | None = None

    @property
    def at(self) -> int:
        """The position that is looked at."""
        return self.history.at

    @property
    def principal(self) -> Principal:
        """Who asks."""
        return self.session.principal

    def may_do(self, name: str) -> bool:
        """Whether the page offers an action: to its roles, and never in the past."""
        return self.asked is None and self.principal.role in action_named(name).roles

    def sees(self, place: str) -> bool:
        """Whether the person has the pages of a place, such as "log"."""
        return sees(self.principal, place)

    def past(self, scenario: str | None = None) -> Past:
        """A scenario, by default that of the path, as of `at`. Raises `NotFound`."""
        return Past(self.history, scenario or self.scenario or "")

    def scenarios(self) -> list[str]:
        """The scenarios of then that the person may see."""
        return [
            name
            for name, each in self.history.state.scenarios.items()
            if each.created_position <= self.at and self.principal.scenario in (None, name)
        ]

    def url(self, *segments: str | int, **query: Any) -> str:
        """The address of a page; it keeps the position that is looked at."""
        path = "/" + "/".join(quote(str(each), safe="") for each in segments if each != "")
        known = {name: value for name, value in query.items() if value is not None}
        if self.asked is not None:
            known.setdefault("at", self.asked)
        return path + (f"?{urlencode(known, doseq=True)}" if known else "")

    def here(self, **query: Any) -> str:
        """The address of a page of this scenario: `here(at=5)` is this page at another position."""
        kept: dict[str, Any] = {
            name: values if len(values) > 1 else values[0]
            for name, values in self.request.query_params.dict().items()
            if name not in ("written", "at") or (name == "at" and "at" not in query)
        }
        merged = {name: value for name, value in (kept | query).items() if value is not None}
        return self.request.url.path + (f"?{urlencode(merged, doseq=True)}" if merged else "")

    def link(self, *segments: str | int, **query: Any) -> str:
        """The address of a page of the scenario in the path."""
        return self.url("s", self.scenario or "", *segments, **query)

    def render(self, template: str, *, status: int = 200, **context: Any) -> Response[bytes]:
        """The page made of *template* and *context* inside the frame."""
        return page(
            template,
            status=status,
            frame=self,
            now=self.now,
            navigation=[(name, path) for name, path in NAVIGATION if self.sees(path)],
            theme=theme_of(self.request),
            form_token=Sessions(self.service.tokens).form_token(self.session),
            written=None
            if self.written is None
            else (self.written, summary(self.written, self.history.state)),
            **context,
        )


async def make_frame(
    request: Request[Any, Any, Any], service: Service, at: int | None = None
) -> Frame:
    """The frame of a request that `signed_in` admitted.

    *at* is a position from 0 on. Raises `NotFound` when it is beyond the end.
    """
    position = service.state.position
    if at is not None and at > position:
        raise NotFound(
            f"The log ends at position {position}; {at} is not there yet.",
            next_step="Choose an earlier position.",
        )
    history = History(service.log, service.state, at)
    session: Session = request.auth
    now, at_time = datetime.now(UTC), service.state.recorded_at
    if at is not None:
        row = await history.event(at)
        assert row is not None, "positions have no gaps"
        at_time = row.envelope.recorded_at
        now = datetime.fromisoformat(at_time)
    return Frame(
        request=request,
        service=service,
        session=session,
        history=history,
        asked=at,
        now=now,
        at_time=at_time,
        scenario=request.path_params.get("scenario"),
        written=await _written(request.query_params, history, session.principal),
    )


async def _written(query: Mapping[str, str], history: History, principal: Principal) -> Row | None:
    """The event that the person has just caused: the log itself says what it was."""
    given = query.get("written", "")
    is_position = given.isascii() and given.isdigit() and len(given) <= _POSITION_DIGITS
    row = await history.event(int(given)) if is_position else None
    if row is None or row.envelope.actor != principal.name:
        return None
    return row if principal.scenario in (None, row.envelope.scenario) else None


def theme_of(request: Request[Any, Any, Any]) -> str:
    """The colours that the person chose; "auto" leaves it to the browser."""
    given = request.cookies.get(THEME_COOKIE, "auto")
    return given if given in THEMES else "auto"
