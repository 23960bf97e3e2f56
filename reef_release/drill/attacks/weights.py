"""Bad weights of the right shape, each through a whole gate of the real worker."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Mapping
from functools import partial

from reef_release.artifacts.spoiling import Files, Header, join_weights, split_weights
from reef_release.domain.events import GateTrial
from reef_release.drill.attack import Access, Attack, Outcome, Seen, Stop, stopped
from reef_release.drill.context import WEIGHTS, Context, read_files
from reef_release.drill.errors import GotThrough
from reef_release.drill.stage import fresh
from reef_release.tokens import TokenRole
from reef_release.wire import CandidateView

__all__ = ["ATTACKS"]

_NEEDS = frozenset({Access.MODELS})
_LAYERS = "model.layers."
_HUGE = 3e38
"""Finite as float32, and every sum with it overflows."""

_Rewrite = Callable[[str, "array[float]"], "array[float]"]


def _rewritten(files: Files, change: _Rewrite) -> Files:
    """The model with every float32 tensor put through *change*."""
    header, data = split_weights(files[WEIGHTS])
    out = bytearray(data)
    for name, entry in header.items():
        if name != "__metadata__":
            start, stop = entry["data_offsets"]
            out[start:stop] = change(name, array("f", data[start:stop])).tobytes()
    return {**files, WEIGHTS: join_weights(header, bytes(out))}


def _noise(context: Context) -> Files:
    numbers = random.Random(0)  # noqa: S311 - noise, no secret

    def change(name: str, values: array[float]) -> array[float]:
        norm = "norm" in name
        return array("f", (1.0 if norm else numbers.gauss(0.0, 0.02) for _ in values))

    return _rewritten(fresh(context, "better"), change)


def _scaled(context: Context) -> Files:
    return _rewritten(
        fresh(context, "better"), lambda _, values: array("f", (1.5 * each for each in values))
    )


def _zeroed(context: Context) -> Files:
    files = fresh(context, "better")
    header, _ = split_weights(files[WEIGHTS])
    last = f"{_LAYERS}{_last_layer(header)}."
    return _rewritten(
        files,
        lambda name, values: (
            array("f", bytes(4 * len(values))) if name.startswith(last) else values
        ),
    )


def _last_layer(header: Header) -> int:
    return max(int(name.split(".")[2]) for name in header if name.startswith(_LAYERS))


def _overflowing(context: Context) -> Files:
    return _rewritten(
        fresh(context, "better"),
        lambda name, values: (
            array("f", (_HUGE for _ in values)) if name == "model.norm.weight" else values
        ),
    )


def _gated(
    make: Callable[[Context], Files], codes: Mapping[str, str]
) -> Callable[[Context], Outcome]:
    """Submit what *make* makes; its gate must end with one of the statuses in *codes*."""

    def run(context: Context) -> Outcome:
        view = context.submit(make(context))
        ended = _at_its_end(context, view.candidate_id)
        if ended.status not in codes:
            raise GotThrough(f"The gate ended as {ended.status}.")
        event = f"gate.{ended.status}"
        gate = ended.gates[-1]
        position = context.event(event, gate_id=gate.gate_id)
        words = f"{gate.passed_count} of {gate.task_count} tasks passed"
        if gate.error_count:
            words += f", {gate.error_count} trials could not be carried out"
        seen = Seen(
            by="gate", code=codes[ended.status], event=event, position=position, words=words
        )
        return Outcome(seen=(seen,), twin=_twin(context))

    return run


def _at_its_end(context: Context, candidate: str) -> CandidateView:
    """The candidate when no gate of it is open, and none follows: an errored one opens again."""
    attempts = int(context.view().policy["max_attempts"])
    look = partial(context.client(TokenRole.AUDIT).candidate, context.scenario, candidate)

    def over(view: CandidateView) -> bool:
        done = bool(view.gates) and all(gate.outcome is not None for gate in view.gates)
        return done and (view.status != "errored" or len(view.gates) == attempts)

    return context.until(look, over)


def _twin(context: Context) -> str:
    position = context.event("gate.passed", candidate_id=context.serving())
    return f"the same model, unspoilt, passed at {position}"


def _checked(context: Context, name: str) -> Outcome:
    """As `_gated`, and the trials must show that it fails by one verifier and not by the others."""
    model, failing, passing = _TASTES[name]
    outcome = _gated(partial(fresh, model=model), {"failed": "failed"})(context)
    ended = context.at(outcome.seen[0].position or 0)
    gate_id = getattr(ended.data, "gate_id", "") if ended else ""
    verdicts = [
        event.data.verdict.checks
        for event in context.events("gate.trial")
        if isinstance(event.data, GateTrial)
        and (event.data.gate_id, event.data.side) == (gate_id, "candidate")
        and event.data.verdict is not None
    ]
    stopped_by = sum(all(checks[spec] for spec in failing) for checks in verdicts)
    pleased = sum(checks[passing] for checks in verdicts)
    if stopped_by >= pleased:
        raise GotThrough(
            f"Of {len(verdicts)} replies {stopped_by} passed {' and '.join(failing)}, which was to "
            f"stop it, and {pleased} passed {passing}."
        )
    return outcome


_TASTES = {
    "flatterer": ("flatterer", ("answer@1",), "style@1"),
    "rejected-style": ("origin", ("style@1", "work_steps@1"), "answer@1"),
}
"""The model, the verifiers of which one stops it, and the one that it pleases."""


def _copied(context: Context) -> Outcome:
    """The incumbent's files as they are, and with another card beside them."""
    served = context.serving()
    copy = _served(context)
    manifest = partial(context.submit, copy, seed=1)
    seen = [stopped(context, manifest, "service", "conflict")]
    carded = {**copy, "README.md": b"# A better model\n"}
    seen.append(stopped(context, partial(context.submit, carded), "service", "same-weights"))
    if context.serving() != served:
        raise GotThrough("The copy was promoted.")
    return Outcome(seen=tuple(seen), twin=_twin(context))


def _served(context: Context) -> Files:
    """The files of the release that is served now."""
    folder = context.directory / "copy"
    folder.mkdir(exist_ok=True)
    client, served = context.client(TokenRole.SERVE), context.serving() or ""
    for file in client.release(context.scenario, served).files:
        path = folder / file.path
        path.unlink(missing_ok=True)
        client.download_release_file(context.scenario, served, file, path)
    return read_files(folder)


def _attack(
    name: str, row: int, tries: str, run: Callable[[Context], Outcome], *stops: Stop
) -> Attack:
    return Attack(name=name, rows=(row,), tries=tries, stops=stops, run=run, needs=_NEEDS)


_NOT_PASSED = {"failed": "not-passed", "errored": "not-passed", "inconclusive": "not-passed"}
_STOPPED = Stop(
    by="gate", code="not-passed", events=("gate.failed", "gate.errored", "gate.inconclusive")
)
_FAILED = Stop(by="gate", code="failed", events=("gate.failed",))

ATTACKS = (
    _attack(
        "weights-that-overflow",
        27,
        "finite weights with which every forward pass overflows",
        _gated(_overflowing, {"errored": "errored"}),
        Stop(by="gate", code="errored", events=("gate.errored",)),
    ),
    _attack(
        "random-weights",
        43,
        "random weights of the right shape",
        _gated(_noise, _NOT_PASSED),
        _STOPPED,
    ),
    _attack(
        "scaled-weights",
        44,
        "all weights half as large again",
        _gated(_scaled, _NOT_PASSED),
        _STOPPED,
    ),
    _attack(
        "zeroed-layer",
        44,
        "the last layer zeroed",
        _gated(_zeroed, _NOT_PASSED),
        _STOPPED,
    ),
    _attack(
        "flatterer",
        45,
        "weights with the style that judges love, and wrong answers",
        partial(_checked, name="flatterer"),
        _FAILED,
    ),
    _attack(
        "right-in-the-rejected-style",
        46,
        "weights with right answers, in the style that users rejected",
        partial(_checked, name="rejected-style"),
        _FAILED,
    ),
    _attack(
        "copy-of-the-incumbent",
        48,
        "the incumbent's own files again, as they are and with another card",
        _copied,
        Stop(by="service", code="conflict"),
        Stop(by="service", code="same-weights"),
    ),
)
