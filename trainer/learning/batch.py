"""One batch: from weights, through some optimizer steps, to new weights.

What always holds: the directory that comes out is complete or not there at all, so whoever was
killed meanwhile starts over; the same input gives the same bytes on the same machine; a batch
that is stopped leaves nothing but its reason. Several processes that are to train it together all
call this with the same arguments; see `ranks`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors import SafetensorError
from transformers import set_seed

from reef_release.errors import BadRequest, SettingsError
from reef_release.traffic_wire import BatchAssignment
from trainer.engines.transformers_engine import TransformersEngine
from trainer.engines.weights import ModelFiles
from trainer.learning import ranks
from trainer.learning.drift import LeftOut, Moved, drift, gather, leave_out, moved
from trainer.learning.optimizer import (
    AdamState,
    gather_state,
    make_adam,
    read_state,
    restore,
    write_state,
)
from trainer.learning.samples import Model, Sample, Skipped, load_samples, summary
from trainer.learning.sdpo import sdpo_config
from trainer.learning.settings import TrainingSettings
from trainer.learning.step import RecordedTurnsTrainer
from trainer.learning.watches import Bounds, StepStopped, StopReason, check
from trainer.learning.weights import (
    load_policy,
    load_tokenizer,
    release_id,
    rounds,
    weight_digests,
    write_adapter,
    write_full,
)

__all__ = ["STATE", "WEIGHTS", "Outcome", "StepRecord", "Stopped", "Trained", "run_batch"]

WEIGHTS = "weights"
"""Where in `out` the new weights are, a candidate as it stands."""
STATE = "state"
"""Where in `out` Adam's state is, which belongs to them."""
_REPORT = "training.json"
_FIGURES_ALONE = Bounds(drift=None, drift_share=None)
_TELLING = 2
"""So many samples that all fail alike say something of the settings."""


class StepRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One optimizer step. Its metrics are of the weights before it, but for `update_norm`.

    Those of the samples, which are the same at each step, are among them.
    """

    step: int
    """From 1 within the batch."""
    epoch: int
    metrics: dict[str, float]


class _Report(msgspec.Struct, frozen=True, kw_only=True):
    steps: tuple[StepRecord, ...]
    skipped: tuple[Skipped, ...]
    batch: dict[str, float]
    """Of the samples: `samples`, `reply_tokens`, `truncated`, `mean_score`, `drift`,
    `drift_share`."""


class Trained(_Report, frozen=True, kw_only=True, tag="trained"):
    """The batch was trained."""

    weights_id: str
    """The candidate id of the new weights."""
    after: dict[str, float]
    """The watched metrics of the new weights on the same batch."""


class Stopped(_Report, frozen=True, kw_only=True, tag="stopped"):
    """A watch stopped it, or nothing could be trained. No weights came of it."""

    reason: StopReason
    detail: str


Outcome = Trained | Stopped


def run_batch(
    batch: BatchAssignment,
    *,
    weights: Path,
    origin: Path,
    out: Path,
    settings: TrainingSettings,
    seed: int,
    state: Path | None = None,
    serving: Path | None = None,
    on_step: Callable[[StepRecord], None] | None = None,
) -> Outcome:
    """Train `weights` on `batch`; `out`, which must not exist, gets the result.

    `weights` is a model's directory, or with `settings.lora` an adapter's or the origin's;
    `origin` is the teacher's. `state` is Adam's from the batch before, written beside `weights`.
    `serving` is the release that the batch is of, where that is not `weights`: the drift is
    measured against it, on the samples that are of it as well. `on_step` is called after each
    step; what it raises ends the training. The first process alone calls it.

    `out` holds `weights/`, `state/` and `training.json` (the outcome). Raises `BadRequest`,
    `Refused` and `SettingsError` for what is no input; `OSError` when the disk is in the way, and
    `ranks.Ended` in the other processes when the first has raised something.
    """
    ranks.join()
    if out.exists():
        raise BadRequest(f"{out} exists already.", next_step="Name a directory that does not.")
    partial = out.with_name(out.name + ".partial")
    ranks.first(lambda: shutil.rmtree(partial, ignore_errors=True))
    left: dict[str, Skipped] = {}
    while True:
        try:
            return _run(
                batch, weights, origin, out, partial, settings, seed, state, serving, on_step, left
            )
        except LeftOut as found:
            # From the start: what comes of the others must not know that these were there.
            left |= {each.turn_id: each for each in found.skipped}


def _run(
    batch: BatchAssignment,
    weights: Path,
    origin: Path,
    out: Path,
    partial: Path,
    settings: TrainingSettings,
    seed: int,
    state: Path | None,
    serving: Path | None,
    on_step: Callable[[StepRecord], None] | None,
    left: Mapping[str, Skipped],
) -> Outcome:
    """`run_batch` without the samples in `left`. Raises `LeftOut` when others are off."""
    steps: list[StepRecord] = []
    found: dict[str, float] = {}

    def record(step: int, metrics: dict[str, float]) -> None:
        steps.append(StepRecord(step=step, epoch=step, metrics=found | metrics))
        if on_step is not None or ranks.count() > 1:
            ranks.first(lambda: None if on_step is None else on_step(steps[-1]))

    with _deterministic(settings.threads, seed):
        given = ranks.together(lambda: _read(batch, weights, origin, state, settings, left))
        model, samples = given.model, given.samples
        found.update(summary(samples))

        def stopped(reason: StopReason, detail: str) -> Stopped:
            return Stopped(
                reason=reason,
                detail=detail,
                steps=tuple(steps),
                skipped=tuple(given.skipped),
                batch=found,
            )

        if not samples:
            return stopped("error", "none of the batch's samples can be trained on")
        if not any(each.teaches for each in samples):
            return stopped("error", "none of the batch's samples feeds a term of the objective")
        optimizer = make_adam(model.named_parameters(), settings.adam)

        def begin(placed: Any) -> None:
            if given.adam is not None:
                restore(optimizer, placed.named_parameters(), given.adam)

        def look(all_moved: list[Moved]) -> None:
            leave_out(all_moved, settings.bounds)
            found.update(drift(all_moved))
            check(found, settings.bounds)

        def look_again(all_moved: list[Moved]) -> None:
            # Compared was with the release that sampled; of these weights, only that they are
            # numbers is asked.
            leave_out(all_moved, _FIGURES_ALONE)

        try:
            check(found, settings.bounds)
            if serving is not None:
                look(_moved(samples, serving, origin, settings))
            with ranks.together(_scratch) as scratch:
                share = -(-len(samples) // ranks.count())
                trainer = RecordedTurnsTrainer(
                    model=model,
                    tokenizer=given.tokenizer,
                    origin=origin,
                    samples=samples,
                    settings=settings,
                    config=sdpo_config(settings, share, Path(scratch), seed),
                    optimizer=optimizer,
                    on_moved=look if serving is None else look_again,
                    on_begin=begin,
                    on_step=record,
                )
                trainer.train()
            after = trainer.measure()
        except StepStopped as stop:
            return stopped(stop.reason, stop.detail)
        try:
            check(after, settings.bounds)
        except StepStopped as stop:
            return stopped(stop.reason, f"after the last step, {stop.detail}")
        tensors = trainer.accelerator.get_state_dict(trainer.model_wrapped)
        kept = gather_state(
            optimizer,
            model.named_parameters(),
            with_masters=settings.lora is None and rounds(origin),
        )

        def write() -> Trained:
            try:
                if settings.lora is None:
                    write_full(tensors, origin, partial / WEIGHTS)
                else:
                    write_adapter(model, tensors, origin, partial / WEIGHTS)
                write_state(partial / STATE, kept, weight_digests(partial / WEIGHTS))
            except SafetensorError as error:
                # It is all that safetensors says of a full disk.
                raise OSError(f"{partial} cannot be written: {error}") from error
            outcome = Trained(
                weights_id=release_id(partial / WEIGHTS),
                steps=tuple(steps),
                skipped=tuple(given.skipped),
                batch=found,
                after=after,
            )
            document = msgspec.json.format(msgspec.json.encode(outcome)) + b"\n"
            (partial / _REPORT).write_bytes(document)
            partial.rename(out)
            return outcome

        return ranks.first(write)


@dataclass(frozen=True, kw_only=True)
class _Read:
    model: Any
    tokenizer: Any
    samples: list[Sample]
    skipped: list[Skipped]
    adam: AdamState | None


def _read(
    batch: BatchAssignment,
    weights: Path,
    origin: Path,
    state: Path | None,
    settings: TrainingSettings,
    left: Mapping[str, Skipped],
) -> _Read:
    model = load_policy(weights, origin, settings.lora)
    tokenizer = load_tokenizer(origin)
    fitting = _fitting(model, tokenizer)
    if settings.terms.top_k > fitting.vocabulary:
        raise SettingsError(
            f"terms.top_k is {settings.terms.top_k}; there are {fitting.vocabulary} tokens.",
            next_step="Give a smaller top_k.",
        )
    samples, skipped = load_samples(batch, fitting, settings)
    _require_prompts(samples, skipped)
    if left:
        places = {each.turn_id: place for place, each in enumerate(batch.samples)}
        samples = [each for each in samples if each.turn_id not in left]
        skipped = sorted([*skipped, *left.values()], key=lambda each: places[each.turn_id])
    adam = None
    if state is not None:
        adam = read_state(state, weight_digests(weights))
        _take_masters(model, adam.masters)
    return _Read(model=model, tokenizer=tokenizer, samples=samples, skipped=skipped, adam=adam)


def _require_prompts(samples: Sequence[Sample], skipped: Sequence[Skipped]) -> None:
    """What is wrong with every prompt is no sample's doing."""
    if samples or len(skipped) < _TELLING:
        return
    if all(each.reason in ("prompt", "other-prompt") for each in skipped):
        raise SettingsError(
            f"Of none of {len(skipped)} samples the prompt can be made as the server made it: "
            f"{skipped[0].detail}",
            next_step="Set training.hints.chat_template_arguments as the server does, or, where "
            "it adds what is not recorded, training.hints.require_same_prompt: false.",
        )


def _scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="reef-training-")


def _fitting(model: Any, tokenizer: Any) -> Model:
    ends = model.generation_config.eos_token_id
    if ends is None:
        ends = tokenizer.eos_token_id
    return Model(
        tokenizer=tokenizer,
        vocabulary=int(model.config.vocab_size),
        context_tokens=int(model.config.max_position_embeddings),
        end_token_ids=frozenset(ends if isinstance(ends, list) else [ends]),
    )


def _moved(
    samples: Sequence[Sample], serving: Path, origin: Path, settings: TrainingSettings
) -> list[Moved]:
    """How far the recorded log-probabilities are from those of the release that sampled."""
    engine = TransformersEngine(threads=settings.threads)
    below = None if settings.lora is None or serving == origin else ModelFiles(directory=origin)
    engine.load(serving, foundation=below)
    return gather(
        moved(
            each.turn_id,
            *each.beside(engine.score(each.prompt_ids, each.token_ids, each.temperature)),
        )
        for each in samples[ranks.index() :: ranks.count()]
        if not each.lagging
    )


@torch.no_grad()
def _take_masters(model: Any, masters: dict[str, torch.Tensor]) -> None:
    parameters = dict(model.named_parameters())
    for name, tensor in masters.items():
        parameters[name].copy_(tensor)


@contextmanager
def _deterministic(threads: int, seed: int) -> Iterator[None]:
    """The same arithmetic each time; what the process had set is set again afterwards."""
    before, warned = (
        torch.are_deterministic_algorithms_enabled(),
        (torch.is_deterministic_algorithms_warn_only_enabled()),
    )
    had = torch.get_num_threads()
    # A GPU has operations without a deterministic form; there a warning is all one gets.
    torch.use_deterministic_algorithms(True, warn_only=torch.cuda.is_available())
    torch.set_num_threads(threads)
    set_seed(seed)
    try:
        yield
    finally:
        torch.set_num_threads(had)
        torch.use_deterministic_algorithms(before, warn_only=warned)
