"""What must still hold when the attacks are over: the log replays, and the good gets through."""

from __future__ import annotations

import shutil

from reef_release.audit.export import export
from reef_release.audit.http_source import ClientSource
from reef_release.audit.replay import replay
from reef_release.drill.attack import Access, Attack, Outcome, Seen, Stop
from reef_release.drill.context import CHANNEL, Context, read_files
from reef_release.drill.errors import GotThrough
from reef_release.tokens import TokenRole

__all__ = ["AFTERWARDS"]


def _replayed(context: Context) -> Outcome:
    """Problems may stand only where the drill itself wrote by hand, and have no effect."""
    out = context.directory / "export-afterwards"
    shutil.rmtree(out, ignore_errors=True)
    served = {name: context.serving(name) for name in (context.scenario, *context.stages)}
    export(ClientSource(context.client(TokenRole.AUDIT)), out)
    report = replay(out, context.anchor)
    others = [each for each in report.problems if each.position not in context.forged]
    if others:
        raise GotThrough("The export does not replay: " + "; ".join(map(str, others[:5])))
    derived = {each.scenario: each.release_id for each in report.serving if each.channel == CHANNEL}
    wrong = sorted(name for name in served if derived.get(name) != served[name])
    if wrong:
        raise GotThrough(f"The replay derives another release for {', '.join(wrong)}.")
    told = f"{report.event_count} events, {report.violation_count} violations without effect"
    return Outcome(seen=(Seen(by="audit", code="replays", words=told),), twin=told)


def _promoted(context: Context) -> Outcome:
    """A better model, unlike all before by a bit, through gate and signer and into the node."""
    good = context.unlike(read_files(context.stack.model("better")))
    view = context.submit(good)
    ended = context.ended(
        view.candidate_id, None, "errored", "failed", "inconclusive", "promoted", "stale"
    )
    if ended.status != "promoted":
        raise GotThrough(f"A good candidate is {ended.status}; the drill left the service jammed.")
    position = context.event("release.promoted", release_id=view.candidate_id)
    wanted = {file.path: file.sha256 for file in ended.files}
    context.until(lambda: dict(context.stack.served_files()) == wanted)
    return Outcome(
        seen=(Seen(by="gate", code="passed", event="release.promoted", position=position),),
        twin=f"promoted at {position} and loaded",
    )


AFTERWARDS = (
    Attack(
        name="the-log-replays",
        rows=(),
        tries="afterwards: the export, replayed offline with public keys",
        stops=(Stop(by="audit", code="replays"),),
        run=_replayed,
        roles=frozenset({TokenRole.AUDIT}),
        quick=True,
    ),
    Attack(
        name="a-good-candidate-gets-through",
        rows=(),
        tries="afterwards: a good candidate, gated, signed, promoted and loaded",
        stops=(Stop(by="gate", code="passed", events=("release.promoted",)),),
        run=_promoted,
        needs=frozenset({Access.MODELS}),
        promotes=True,
    ),
)
