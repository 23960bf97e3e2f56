"""In which order the candidates of a channel come to be drawn and gated: round the submitters.

Each submitter's candidates come in the order submitted; of several submitters the one comes
first whose last turn is longest ago. So whoever submits two hundred candidates delays another
one by one turn and not by two hundred. The order is a function of the log alone: all services
agree on it. A submitter is the actor of `candidate.submitted`, which a service takes from the
token that it authenticated, and from nothing else. Where several gate workers have to pass a
candidate, one that some have passed comes first: a promotion would make its passes stale.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, zip_longest

from reef_release.domain.quorum import passes_so_far
from reef_release.domain.state import Candidate, Scenario, State

__all__ = ["draws_in_turn", "examinations_in_turn", "gates_in_turn"]


def draws_in_turn(scenario: Scenario, channel: str) -> list[Candidate]:
    """The candidates of *channel* that wait for their admission; a turn is an admission.

    Those revoked are not among them: they wait for nothing.
    """
    own = _of(scenario, channel)
    last: dict[str, int] = {}
    for each in own:
        _keep_latest(last, each.actor, each.admitted_position)
    waiting = (each for each in own if each.status == "submitted")
    return _in_turn((each for each in waiting if each.revoked_position is None), last)


def gates_in_turn(scenario: Scenario, channel: str) -> list[Candidate]:
    """The admitted candidates of *channel*, over whichever of which a gate may open; a turn is
    the opening of a gate. Those with passes that stand come first, in the order of these."""
    own = _of(scenario, channel)
    last: dict[str, int] = {}
    for each in own:
        for gate_id in each.gates:
            _keep_latest(last, each.actor, scenario.gates[gate_id].opened_position)
    line = _in_turn((each for each in own if each.admitted_position is not None), last)
    begun = {each.candidate_id: passes_so_far(scenario, each) for each in line}
    first = sorted(
        (each for each in line if begun[each.candidate_id]),
        key=lambda each: begun[each.candidate_id][0].opened_position,
    )
    return first + [each for each in line if not begun[each.candidate_id]]


def examinations_in_turn(state: State) -> Iterator[tuple[Scenario, Candidate]]:
    """All that wait for their admission: round the channels, in each in the order of draws.

    Those revoked are a line of their own.
    """
    lines = []
    for scenario in state.scenarios.values():
        waiting = [each for each in scenario.candidates.values() if each.status == "submitted"]
        if not waiting:
            continue
        revoked = [each for each in waiting if each.revoked_position is not None]
        for line in (*(draws_in_turn(scenario, each) for each in scenario.channels()), revoked):
            lines.append([(scenario, candidate) for candidate in line])
    return (found for found in chain.from_iterable(zip_longest(*lines)) if found is not None)


def _of(scenario: Scenario, channel: str) -> list[Candidate]:
    return [each for each in scenario.candidates.values() if each.submitted.channel == channel]


def _keep_latest(last: dict[str, int], actor: str, position: int | None) -> None:
    if position is not None:
        last[actor] = max(position, last.get(actor, -1))


def _in_turn(waiting: Iterable[Candidate], last: Mapping[str, int]) -> list[Candidate]:
    """*waiting*, which are in the order submitted; *last* is where each actor's last turn was."""
    rounds: Counter[str] = Counter()
    places: dict[str, tuple[int, int, int]] = {}
    found = list(waiting)
    for each in found:
        places[each.candidate_id] = (
            rounds[each.actor],
            last.get(each.actor, -1),
            each.submitted_position,
        )
        rounds[each.actor] += 1
    return sorted(found, key=lambda each: places[each.candidate_id])
