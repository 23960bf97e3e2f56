"""The recording proxy over HTTP, as OpenAI's clients speak it."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Request, Response, get, post
from litestar.di import NamedDependency
from litestar.params import HeaderParameter
from litestar.status_codes import HTTP_200_OK

from reef_release.api.access import require_scenario, requires
from reef_release.api.alarm import alarm_headers
from reef_release.api.bodies import BODY_LIMIT_BYTES
from reef_release.api.lines import whole_body
from reef_release.api.problems import FORWARD_PROBLEMS
from reef_release.api.proxy.answer import Answer
from reef_release.api.proxy.call import (
    SCENARIO_HEADER,
    TAG_HEADER,
    TURN_TYPE_HEADER,
    read_call,
)
from reef_release.api.proxy.exchange import Exchange
from reef_release.api.proxy.problems import OPENAI_ERRORS
from reef_release.api.proxy.upstream import passed_headers
from reef_release.api.request_bodies import described_body
from reef_release.api.service import Service
from reef_release.errors import BadRequest
from reef_release.tokens import Principal, TokenRole

__all__ = ["CHAT_HANDLERS"]

_INGEST = requires(TokenRole.INGEST)
_OBJECTS = {"type": "array", "items": {"type": "object"}}
_CALL = {
    "type": "object",
    "required": ["messages"],
    "properties": {
        "messages": {**_OBJECTS, "minItems": 1},
        "model": {"type": "string"},
        "tools": _OBJECTS,
        "temperature": {"type": "number"},
        "stream": {"type": "boolean"},
        "n": {"const": 1, "description": "One call is one turn with one reply."},
    },
}


@post(
    "/v1/chat/completions",
    guards=[_INGEST],
    summary="Forward a chat call and record it",
    status_code=HTTP_200_OK,
    request_max_body_size=None,
    operation_class=described_body(
        "A chat call in OpenAI's form; what is not named here goes to the upstream unchanged.",
        {"application/json": _CALL},
    ),
    exception_handlers=OPENAI_ERRORS,
    responses=FORWARD_PROBLEMS,
)
async def chat_completions(
    request: Request[Principal, Any, Any],
    service: NamedDependency[Service],
    scenario: Annotated[str | None, HeaderParameter(name=SCENARIO_HEADER)] = None,
    tag: Annotated[str | None, HeaderParameter(name=TAG_HEADER)] = None,
    turn_type: Annotated[str | None, HeaderParameter(name=TURN_TYPE_HEADER)] = None,
) -> Answer:
    """The upstream's answer, streamed as it comes if the call says so.

    The header x-reef-agent-record-id names the record that the call becomes, and so do the last
    chunks of a stream (`reef_agent_record_id`). The log need not be there: the call is answered,
    and recorded later. While nothing binds, the answer carries the header x-reef-signal-alarm.
    """
    if not scenario:
        raise BadRequest(
            f"The header {SCENARIO_HEADER} is missing.",
            next_step=f"Send it with the scenario's name; {TAG_HEADER} names the conversation.",
        )
    require_scenario(request.user, scenario)
    found = service.scenario(scenario)
    service.upstream.check()
    body = await whole_body(request.stream(), BODY_LIMIT_BYTES, service.bodies)
    call = read_call(
        body, tag=tag, turn_type=turn_type, token_data=service.settings.upstream_token_data
    )
    exchange = Exchange(service.spool, request.user.name, found, call)
    return Answer(exchange, service.upstream, alarm_headers(found))


@get(
    "/v1/models",
    guards=[_INGEST],
    summary="List the upstream's models",
    exception_handlers=OPENAI_ERRORS,
    responses=FORWARD_PROBLEMS,
)
async def list_models(service: NamedDependency[Service]) -> Response[bytes]:
    """The upstream's own list, as it is."""
    answer = await service.upstream.models()
    content = answer.content if answer.is_success else service.upstream.without_key(answer.content)
    return Response(content, status_code=answer.status_code, headers=passed_headers(answer))


CHAT_HANDLERS = [chat_completions, list_models]
