"""`/s/SCENARIO/policies/DIGEST`: a policy, what it changed, and its full text."""

from __future__ import annotations

from typing import Any

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from reef_release.errors import NotFound
from reef_release.web.frame import Frame
from reef_release.web.policy_page import policy_page

__all__ = ["show_policy"]


@get("/s/{scenario:str}/policies/{digest:str}", include_in_schema=False)
async def show_policy(frame: NamedDependency[Frame], digest: FromPath[str]) -> Response[Any]:
    """One policy: since when it is in force, why, and all that it says."""
    past = frame.past()
    view = await policy_page(past, digest)
    if view is None:
        raise NotFound(
            f"There is no policy {digest!r} in {past.name!r} at position {past.at}.",
            next_step="The timeline has them all, under the kind policy.",
        )
    return frame.render("policy.html", view=view)
