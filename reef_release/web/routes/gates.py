"""`/s/SCENARIO/gates` and one gate: what was asked, what came of it, and every trial."""

from __future__ import annotations

from typing import Annotated, Any

from anyio.to_thread import run_sync
from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, QueryParameter

from reef_release.domain import events as ev
from reef_release.domain.canonical import MAX_INTEGER
from reef_release.domain.gate import Gate
from reef_release.errors import NotFound
from reef_release.web.facts import gate_at
from reef_release.web.frame import Frame
from reef_release.web.gate_odds import ExactOdds, exact_odds, observed_rate
from reef_release.web.gate_page import SLOTS, gate_page, shown_slots
from reef_release.web.gate_texts import texts_of
from reef_release.web.gates_list import gate_lines, undecided_gates
from reef_release.web.past import Past
from reef_release.web.suites import suite_lines

__all__ = ["show_gate", "show_gates", "trials_of"]

_GATES = 25
_SUITES = 5


@get("/s/{scenario:str}/gates", include_in_schema=False)
async def show_gates(
    frame: NamedDependency[Frame],
    before: Annotated[int | None, QueryParameter(ge=0, le=MAX_INTEGER)] = None,
) -> Response[Any]:
    """The newest gates that were opened below *before*."""
    past = frame.past()
    until = None if before is None else before - 1
    wanted = undecided_gates(past.scenario, past.at, _GATES + 1, until)
    trials = {gate_id: await trials_of(past, gate_id) for gate_id in wanted}
    lines = gate_lines(past.scenario, past.at, _GATES + 1, trials, until)
    older = lines[_GATES - 1].opened_position if len(lines) > _GATES else None
    return frame.render(
        "gates.html",
        gates=lines[:_GATES],
        older=older,
        is_first=before is None,
        suites=suite_lines(past, _SUITES),
    )


@get("/s/{scenario:str}/gates/{gate_id:str}", include_in_schema=False)
async def show_gate(
    frame: NamedDependency[Frame],
    gate_id: FromPath[str],
    slot: Annotated[int, QueryParameter(ge=0, le=MAX_INTEGER)] = 0,
    odds: FromQuery[str] = "",
) -> Response[Any]:
    """One gate; its trials from *slot* on; `odds=exact` works the exact table out."""
    past = frame.past()
    found = past.scenario.gates.get(gate_id)
    if found is None or found.opened_position > past.at:
        raise NotFound(
            f"There is no gate {gate_id!r} in {past.name!r} at position {past.at}.",
            next_step="The list of gates has them all.",
        )
    trials = await trials_of(past, gate_id)
    gate = gate_at(found, past.at, trials)
    first = slot - slot % SLOTS
    texts = await texts_of(frame.service, frame.principal, gate, shown_slots(gate, first))
    view = gate_page(past.history.state, past.scenario, found, past.at, trials, first, texts)
    return frame.render(
        "gate.html",
        view=view,
        opened_at=await _time(past, view.opened_position),
        ended_at="" if view.decision is None else await _time(past, view.decision.position),
        exact=await _exact(gate) if odds == "exact" else None,
        last_slots=SLOTS,
    )


async def trials_of(past: Past, gate_id: str) -> list[int]:
    """The positions of the valid trials of a gate."""
    stream = f"gate/{gate_id}"
    return await past.history.positions_in_stream(past.name, stream, ev.GateTrial.TYPE)


async def _time(past: Past, position: int) -> str:
    row = await past.history.event(position)
    assert row is not None, "the state has folded what is at this position"
    return row.envelope.recorded_at


async def _exact(gate: Gate) -> ExactOdds:
    incumbent = observed_rate(gate.passes("incumbent"))
    return await run_sync(exact_odds, gate.part.rule, gate.level, incumbent)
