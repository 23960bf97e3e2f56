"""What the pages tell, as JSON for whoever holds a token: `reef-release status` is made of it."""

from __future__ import annotations

from typing import Any

from litestar import Request, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from reef_release.account_wire import AccountView, CandidateAccountView
from reef_release.api.access import requires
from reef_release.api.problems import READ_PROBLEMS
from reef_release.api.service import Service
from reef_release.api.views import candidate_view
from reef_release.domain.reasons import Reason
from reef_release.tokens import Principal, TokenRole
from reef_release.web.accounts import account, candidate_account
from reef_release.web.history import History
from reef_release.web.past import Past

__all__ = ["ACCOUNT_HANDLERS"]

_READERS = requires(TokenRole.APPROVE, TokenRole.AUDIT, TokenRole.OPERATE, TokenRole.TRAIN)


@get(
    "/reef/scenarios/{scenario:str}/account",
    guards=[_READERS],
    summary="Tell what is served and why",
    responses=READ_PROBLEMS,
)
async def show_account(
    request: Request[Principal, Any, Any],
    scenario: FromPath[str],
    service: NamedDependency[Service],
) -> AccountView:
    """What each channel serves, since when and why; what was refused and why; the last levers.

    A token of role train is told which rules of a gate held once it has ended, not what they found,
    and not the reasons of approvers.
    """
    return await account(_past(service, scenario), figures=_figures(request))


@get(
    "/reef/scenarios/{scenario:str}/candidates/{candidate_id:str}/account",
    guards=[_READERS],
    summary="Tell what became of a candidate and why",
    responses=READ_PROBLEMS,
)
async def show_candidate_account(
    request: Request[Principal, Any, Any],
    scenario: FromPath[str],
    candidate_id: FromPath[str],
    service: NamedDependency[Service],
) -> CandidateAccountView:
    """Its manifest, its steps, its gates rule by rule, what speaks against it, what comes next.

    A token of role train is told which rules of a gate held once it has ended, not what they found,
    and not the reasons of approvers.
    """
    past = _past(service, scenario)
    waits: list[Reason] = []
    found = past.candidate(candidate_id)
    if found is not None and found.status == "submitted":
        waits = candidate_view(service.state, past.scenario, found).reasons
    return await candidate_account(past, candidate_id, waits, figures=_figures(request))


def _past(service: Service, scenario: str) -> Past:
    service.scenario(scenario)
    return Past(History(service.log, service.state), scenario)


def _figures(request: Request[Principal, Any, Any]) -> bool:
    """Whoever trains learns of a gate how it ended, and nothing else that depends on the suite."""
    return request.user.role is not TokenRole.TRAIN


ACCOUNT_HANDLERS = [show_account, show_candidate_account]
