"""Scenarios that a drill makes for itself on its own stack, where pointers may move."""

from __future__ import annotations

from typing import Any

from reef_release.artifacts.spoiling import Files
from reef_release.domain.canonical import canonical_json
from reef_release.drill.context import Context, read_files
from reef_release.drill.errors import GotThrough
from reef_release.signing.keys import Role
from reef_release.signing.policy import sign_policy
from reef_release.tokens import TokenRole
from reef_release.wire import CandidateView, ScenarioRequest

__all__ = ["fresh", "promote", "signed_policy", "stage"]


def signed_policy(context: Context, scenario: str, **changes: Any) -> dict[str, Any]:
    """A policy like the stack's, with *changes*, signed by the policy owner."""
    document = context.stack.policy(scenario) | changes
    return sign_policy(canonical_json(document), context.key(Role.POLICY))


def stage(context: Context, name: str, *, origin: bool = True, **policy: Any) -> str:
    """The scenario of that name, made at first use; with *origin* it serves the origin model."""
    if name not in context.stages:
        request = ScenarioRequest(
            name=name,
            schema=context.view().schema,
            policy=signed_policy(context, name, **policy),
        )
        context.client(TokenRole.OPERATE).create_scenario(request)
        context.stages.append(name)
        if origin:
            promote(context, name, read_files(context.stack.model("origin")))
    return name


def promote(context: Context, scenario: str, files: Files) -> CandidateView:
    """Bring files into serving by the way that everybody takes. Raises `GotThrough` if not."""
    role = TokenRole.TRAIN if context.serving(scenario) else TokenRole.OPERATE
    view = context.submit(files, role=role, scenario=scenario)
    ends = ("errored", "failed", "inconclusive", "promoted", "stale")
    ended = context.ended(view.candidate_id, scenario, *ends)
    if ended.status != "promoted":
        raise GotThrough(f"A good candidate of {scenario} is {ended.status}.")
    return ended


def fresh(context: Context, model: str) -> Files:
    """A shipped model, unlike all before by one bit."""
    return context.unlike(read_files(context.stack.model(model)))
