"""The first release of a channel, which nothing stands before and which is the operator's."""

from __future__ import annotations

from functools import partial

from reef_release.drill.attack import Attack, Outcome, Stop, stopped
from reef_release.drill.context import Context
from reef_release.tokens import TokenRole

__all__ = ["ATTACKS"]

_CHANNEL = "drill"


def _origin(context: Context) -> Outcome:
    """A trainer's candidate for a channel of which nothing is served: it would be its origin."""
    submit = partial(
        context.submit,
        context.unlike(context.served_files()),
        channel=_CHANNEL,
        base=None,
        parent=None,
    )
    seen = stopped(context, submit, "api", "forbidden")
    first = context.events("candidate.submitted")[0].envelope
    return Outcome(
        seen=(seen,), twin=f"the origin that is served was submitted at {first.position}"
    )


ATTACKS = (
    Attack(
        name="origin-by-a-trainer",
        rows=(50,),
        tries="a trainer's token, for the first release of a channel",
        stops=(Stop(by="api", code="forbidden"),),
        run=_origin,
        roles=frozenset({TokenRole.AUDIT, TokenRole.SERVE, TokenRole.TRAIN}),
        quick=True,
    ),
)
