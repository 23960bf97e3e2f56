"""`/s/SCENARIO/candidates` and one candidate: how far it got, and how it differs from another."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, QueryParameter

from reef_release.domain.canonical import MAX_INTEGER
from reef_release.domain.gate import Gate
from reef_release.errors import NotFound
from reef_release.web.candidate_page import candidate_page
from reef_release.web.candidates_list import candidate_lines, undecided_among
from reef_release.web.facts import gate_at
from reef_release.web.frame import Frame
from reef_release.web.gate_page import SLOTS
from reef_release.web.gate_texts import texts_of
from reef_release.web.gate_trials import Exam, exams
from reef_release.web.metric_difference import metric_difference
from reef_release.web.model_difference import model_difference
from reef_release.web.past import Past
from reef_release.web.routes.gates import trials_of
from reef_release.web.score_difference import score_difference

__all__ = ["show_candidate", "show_candidates"]

_CANDIDATES = 25
_TENSORS = 40
"""Tensors shown before the rest is folded."""
_MARKS = 200
"""Tasks with a mark of their own, the worst first."""


@get("/s/{scenario:str}/candidates", include_in_schema=False)
async def show_candidates(
    frame: NamedDependency[Frame],
    before: Annotated[int | None, QueryParameter(ge=0, le=MAX_INTEGER)] = None,
) -> Response[Any]:
    """The newest candidates that were submitted below *before*."""
    past = frame.past()
    until = None if before is None else before - 1
    wanted = undecided_among(past.scenario, past.at, _CANDIDATES + 1, until)
    trials = {gate_id: await trials_of(past, gate_id) for gate_id in wanted}
    lines = candidate_lines(
        past.history.state, past.scenario, past.at, _CANDIDATES + 1, trials, until
    )
    older = lines[_CANDIDATES - 1].submitted_position if len(lines) > _CANDIDATES else None
    return frame.render(
        "candidates.html", candidates=lines[:_CANDIDATES], older=older, is_first=before is None
    )


@get("/s/{scenario:str}/candidates/{candidate_id:str}", include_in_schema=False)
async def show_candidate(
    frame: NamedDependency[Frame],
    candidate_id: FromPath[str],
    against: FromQuery[str] = "",
    task: Annotated[int, QueryParameter(ge=0, le=MAX_INTEGER)] = 0,
) -> Response[Any]:
    """One candidate beside *against*; replies from the task of that number on, worst first."""
    past = frame.past()
    scenario = past.scenario
    found = scenario.candidates.get(candidate_id)
    if found is None or found.submitted_position > past.at:
        raise NotFound(
            f"There is no candidate {candidate_id!r} in {past.name!r} at position {past.at}.",
            next_step="The list of candidates has them all.",
        )
    gates, trials = await _gates(past, found.gates)
    view = candidate_page(past.history.state, scenario, found, past.at, gates, against)
    gate = None if view.gate_id is None else gates[view.gate_id]
    scores = None if gate is None else score_difference(gate)
    first = task - task % SLOTS
    shown: tuple[Exam, ...] = ()
    if gate is not None and scores is not None:
        slots = [each.slot for each in scores.tasks[first : first + SLOTS]]
        texts = await texts_of(frame.service, frame.principal, gate, slots)
        shown = exams(gate, slots, trials[gate.opened.gate_id], texts)
    other = scenario.candidates.get(view.other.candidate_id or "")
    own = found.submitted
    difference = None
    if other is not None:
        difference = await model_difference(frame.service, frame.principal, other, found)
    revoked = past.revoked_position(candidate_id)
    return frame.render(
        "candidate.html",
        view=view,
        revoked=None if revoked is None else await past.history.event(revoked),
        gate=gate,
        scores=scores,
        exams=shown,
        first=first,
        step=SLOTS,
        difference=difference,
        metrics=metric_difference(own, None if other is None else other.submitted),
        most_tensors=_TENSORS,
        most_marks=_MARKS,
    )


async def _gates(past: Past, gate_ids: list[str]) -> tuple[dict[str, Gate], dict[str, list[int]]]:
    """The gates as they stood, and the positions of their trials."""
    gates, trials = {}, {}
    for gate_id in gate_ids:
        gate = past.scenario.gates[gate_id]
        if gate.opened_position <= past.at:
            trials[gate_id] = await trials_of(past, gate_id)
            gates[gate_id] = gate_at(gate, past.at, trials[gate_id])
    return gates, trials
