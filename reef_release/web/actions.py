"""What people may do on a page: confirm, say why, and pull the same lever as the API.

An action is shown first (GET) and done by sending the form (POST); the form carries the token of
the session. What a rule refuses comes back on the page with every reason, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from reef_release.api import levers
from reef_release.api.service import Service
from reef_release.errors import BadRequest, Forbidden, NotFound
from reef_release.tokens import Principal, TokenRole
from reef_release.web.erasure_actions import erase_said, foresee_erasure, session_of
from reef_release.wire import WrittenView

__all__ = ["ACTIONS", "Action", "action_named", "check_may_do"]

Lever = Callable[[Service, str, str, Mapping[str, str], str], Awaitable[WrittenView]]
"""Service, actor, scenario, the fields of the form, the reason."""


Foresight = Callable[[Service, str, Mapping[str, str]], Awaitable[str]]
"""Service, scenario, the fields; what would happen, in a sentence."""

Back = Callable[[Service, str, Mapping[str, str]], tuple[str, ...]]
"""Service, scenario, the fields; the path below the scenario that shows what was done."""


def _overview(_service: Service, _scenario: str, _of: Mapping[str, str]) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, kw_only=True)
class Action:
    """One thing to do: its words, the fields that it needs besides a reason, and its lever.

    `foresight` says what it would do to this subject, `back` where one goes afterwards.
    """

    name: str
    title: str
    explains: str
    button: str
    fields: tuple[str, ...]
    lever: Lever
    roles: tuple[TokenRole, ...] = (TokenRole.OPERATE,)
    is_grave: bool = False
    foresight: Foresight | None = None
    back: Back = _overview

    def given(self, values: Mapping[str, Any]) -> dict[str, str]:
        """The fields of an address or a form. Raises `BadRequest` when one lacks."""
        found = {name: str(values.get(name) or "").strip() for name in self.fields}
        missing = [name for name, value in found.items() if not value]
        if missing:
            raise BadRequest(
                f"{self.title}: {', '.join(missing)} must be named.",
                next_step="Follow the link on the page of what is meant.",
            )
        return found


async def _hold(
    service: Service, actor: str, scenario: str, _of: Mapping[str, str], reason: str
) -> WrittenView:
    return await levers.hold(service, actor, scenario, reason)


async def _resume(
    service: Service, actor: str, scenario: str, _of: Mapping[str, str], reason: str
) -> WrittenView:
    return await levers.resume(service, actor, scenario, reason)


async def _roll_back(
    service: Service, actor: str, scenario: str, of: Mapping[str, str], reason: str
) -> WrittenView:
    release_id, channel = of["release_id"], of["channel"]
    return await levers.roll_back(service, actor, scenario, release_id, channel, reason)


async def _revoke_release(
    service: Service, actor: str, scenario: str, of: Mapping[str, str], reason: str
) -> WrittenView:
    return await levers.revoke_release(service, actor, scenario, of["release_id"], reason)


async def _revoke_candidate(
    service: Service, actor: str, scenario: str, of: Mapping[str, str], reason: str
) -> WrittenView:
    return await levers.revoke_candidate(service, actor, scenario, of["candidate_id"], reason)


async def _approve(
    service: Service, actor: str, scenario: str, of: Mapping[str, str], reason: str
) -> WrittenView:
    return await levers.approve(service, actor, scenario, of["release_id"], reason)


_ERASES = (
    "The text is gone for good: nobody can bring it back, as of no position, and what is not "
    "trained yet never will be. The events keep their digests, so that the log still proves itself."
)

ACTIONS: Mapping[str, Action] = {
    action.name: action
    for action in (
        Action(
            name="hold",
            title="Hold promotions",
            explains="Nothing is promoted until somebody resumes. Rolling back stays possible.",
            button="Hold",
            fields=(),
            lever=_hold,
        ),
        Action(
            name="resume",
            title="Resume promotions",
            explains="What passes its gate is promoted again.",
            button="Resume",
            fields=(),
            lever=_resume,
        ),
        Action(
            name="roll-back",
            title="Roll back",
            explains="The channel serves this earlier release again. It is a new entry of the log, "
            "never a rewind; gates that are open become stale.",
            button="Roll back",
            fields=("channel", "release_id"),
            lever=_roll_back,
            is_grave=True,
        ),
        Action(
            name="revoke-release",
            title="Revoke a release",
            explains="It can never be promoted or rolled back to again. A revocation moves no "
            "pointer: if it is served, roll back as well.",
            button="Revoke for ever",
            fields=("release_id",),
            lever=_revoke_release,
            is_grave=True,
        ),
        Action(
            name="revoke-candidate",
            title="Revoke a candidate",
            explains="It can never be gated, promoted or rolled back to again. A revocation moves "
            "no pointer: if it is served, roll back as well.",
            button="Revoke for ever",
            fields=("candidate_id",),
            lever=_revoke_candidate,
            is_grave=True,
        ),
        Action(
            name="approve",
            title="Approve",
            explains="You are content that what passed this gate be promoted. It counts once, "
            "under the name of your token, and replaces no part of the gate.",
            button="Approve",
            fields=("release_id",),
            lever=_approve,
            roles=(TokenRole.APPROVE, TokenRole.OPERATE),
        ),
        Action(
            name="erase-call",
            title="Erase what was said in a call",
            explains=f"{_ERASES} Later calls of the session repeat it, so theirs goes as well.",
            button="Erase for ever",
            fields=("turn_id",),
            lever=erase_said,
            is_grave=True,
            foresight=foresee_erasure,
            back=session_of,
        ),
        Action(
            name="erase-session",
            title="Erase what was said in a session",
            explains=_ERASES,
            button="Erase for ever",
            fields=("session_id",),
            lever=erase_said,
            is_grave=True,
            foresight=foresee_erasure,
            back=session_of,
        ),
    )
}


def action_named(name: str) -> Action:
    """Raises `NotFound`."""
    if name not in ACTIONS:
        raise NotFound(f"There is no action {name!r}.", next_step="Use a button of a page.")
    return ACTIONS[name]


def check_may_do(principal: Principal, action: Action) -> None:
    """Raises `Forbidden` for whoever may only look, or do something else."""
    if principal.role not in action.roles:
        raise Forbidden(
            f"A token of role {principal.role} may not do this: {action.title}.",
            next_step=f"Sign in with a token of role {' or '.join(sorted(action.roles))}.",
        )
