"""`/s/SCENARIO/do/ACTION`: look at what will be done, then do it."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Request, Response, get, post
from litestar.di import NamedDependency
from litestar.enums import RequestEncodingType
from litestar.params import Body, FromPath
from litestar.response import Redirect

from reef_release.errors import NotFound, ReefError, Unavailable
from reef_release.web.access import FORM_LIMIT_BYTES, check_form
from reef_release.web.actions import Action, action_named, check_may_do
from reef_release.web.frame import Frame
from reef_release.web.render import HEADERS

__all__ = ["do_action", "show_action"]

_Form = Annotated[dict[str, str], Body(media_type=RequestEncodingType.URL_ENCODED)]


@get("/s/{scenario:str}/do/{name:str}", include_in_schema=False)
async def show_action(
    request: Request[Any, Any, Any], name: FromPath[str], frame: NamedDependency[Frame]
) -> Response[Any]:
    """What an action will do, and the form that does it."""
    action = action_named(name)
    check_may_do(frame.principal, action)
    frame.past()
    return await _form(frame, action, action.given(request.query_params))


@post(
    "/s/{scenario:str}/do/{name:str}",
    request_max_body_size=FORM_LIMIT_BYTES,
    include_in_schema=False,
)
async def do_action(
    request: Request[Any, Any, Any],
    name: FromPath[str],
    data: _Form,
    frame: NamedDependency[Frame],
) -> Response[Any]:
    """Do it, and show what stands in the log then; or every reason against it."""
    action = action_named(name)
    check_may_do(frame.principal, action)
    check_form(request, data.get("form_token", ""))
    given, reason = action.given(data), data.get("reason", "")
    service, scenario = frame.service, frame.scenario or ""
    await service.live.catch_up()
    try:
        done = await action.lever(service, frame.principal.name, scenario, given, reason)
    except Unavailable:
        raise
    except ReefError as error:
        return await _form(frame, action, given, reason, error)
    back = frame.link(*action.back(service, scenario, given), written=done.position)
    return Redirect(back, status_code=303, headers=HEADERS)


async def _form(
    frame: Frame,
    action: Action,
    given: dict[str, str],
    reason: str = "",
    error: ReefError | None = None,
) -> Response[Any]:
    service, scenario = frame.service, frame.scenario or ""
    foreseen, back = "", frame.link()
    if error is None and action.foresight is not None:
        foreseen = await action.foresight(service, scenario, given)
    if error is None or not isinstance(error, NotFound):
        back = frame.link(*action.back(service, scenario, given))
    return frame.render(
        "action.html",
        status=200 if error is None else error.status,
        action=action,
        given=given,
        foreseen=foreseen,
        back=back,
        reason=reason,
        error=error,
    )
