"""A whole batch through TRL: the numbers, the files that come out, and what stops it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from reef_release.artifacts.admission import Admission, admit
from reef_release.artifacts.collector import collect
from reef_release.artifacts.directory_store import DirectoryBlobStore
from reef_release.artifacts.schema import model_schema
from reef_release.errors import BadRequest, Refused, SettingsError
from reef_release.traffic_wire import BatchSampleView
from tests.batches import TEMPERATURE, make_batch
from tests.unit.trainer.objective import reference
from trainer.engines.transformers_engine import TransformersEngine
from trainer.engines.weights import ModelFiles
from trainer.learning.batch import STATE, WEIGHTS, Outcome, StepRecord, Stopped, Trained, run_batch
from trainer.learning.samples import Sample, load_samples
from trainer.learning.settings import AdamSettings, LoraSettings, Objective, TrainingSettings
from trainer.learning.watches import Bounds
from trainer.learning.weights import load_tokenizer, release_id, write_full
from trainer.objective.settings import HintChoice, ObjectiveSettings, Support
from trainer.tiny.degrade import nan_tensor
from trainer.tiny.model import load_pretrained
from trainer.tiny.shipped import BETTER, ORIGIN

COUNT = 8
ONE_STEP = TrainingSettings(epochs=1)


def train(out: Path, settings: TrainingSettings = ONE_STEP, **given: Any) -> Outcome:
    arguments: dict[str, Any] = {"weights": ORIGIN, "origin": ORIGIN, "seed": 0, **given}
    return run_batch(
        arguments.pop("batch", make_batch(COUNT)), out=out, settings=settings, **arguments
    )


def trained(out: Path, settings: TrainingSettings = ONE_STEP, **given: Any) -> Trained:
    outcome = train(out, settings, **given)
    assert isinstance(outcome, Trained), outcome
    return outcome


def stopped(out: Path, settings: TrainingSettings = ONE_STEP, **given: Any) -> Stopped:
    outcome = train(out, settings, **given)
    assert isinstance(outcome, Stopped)
    assert not out.exists()
    return outcome


def contents(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def admission(directory: Path, store: Path, **given: Any) -> Admission:
    blobs = DirectoryBlobStore(store, min_free_bytes=0)
    files = [each.entry for each in collect(directory)]
    for each in files:
        blobs.put_bytes_sync((directory / each.path).read_bytes())
    return admit(files, blobs, model_schema(ORIGIN), **given)


@cache
def distributions(
    directory: Path, prompt: tuple[int, ...], reply: tuple[int, ...]
) -> list[list[float]]:
    """Log-probabilities of every token at every place of the reply: float64, alone, unpadded."""
    model, _ = load_pretrained(directory)
    with torch.inference_mode():
        logits = model.double().eval()(torch.tensor([[*prompt, *reply]])).logits[0]
    return [
        reference.log_softmax(logits[place].tolist(), TEMPERATURE)
        for place in range(len(prompt) - 1, len(prompt) + len(reply) - 1)
    ]


def top(row: list[float], k: int) -> list[int]:
    return sorted(range(len(row)), key=lambda token: -row[token])[:k]


def expected(samples: list[Sample], now: Path, terms: ObjectiveSettings) -> dict[str, float]:
    """The terms of the objective from the definition; the origin is old policy and teacher."""
    k = terms.top_k
    policy: list[list[float]] = []
    distillation: list[list[float]] = []
    for sample in samples:
        old = distributions(ORIGIN, sample.prompt_ids, sample.token_ids)
        new = distributions(now, sample.prompt_ids, sample.token_ids)
        teachers = [
            distributions(ORIGIN, prompt, sample.token_ids) for prompt in sample.teacher_prompts
        ]
        student_ids = [top(row, k) for row in old]
        teacher_ids = [[top(row, k) for row in teacher] for teacher in teachers]
        chosen = reference.choose(
            student_ids, teacher_ids, list(sample.hint_characters), terms.hint_choice
        )
        policy.append([])
        distillation.append([])
        for t, token in enumerate(sample.token_ids):
            policy[-1].append(
                reference.policy_token(new[t][token], old[t][token], sample.reward, 0.2, 0.28)
            )
            own, its = student_ids[t], teacher_ids[chosen[t]][t]
            tokens = {
                "student": own,
                "teacher": its,
                "overlap": [each for each in own if each in its],
            }[terms.support]
            teacher = teachers[chosen[t]][t]
            distillation[-1].append(
                reference.distillation_token(
                    [new[t][v] for v in tokens],
                    [old[t][v] for v in tokens],
                    [teacher[v] for v in tokens],
                    [True] * len(tokens),
                    terms.difference_clamp,
                )
            )
    masks = [[True] * len(sample.token_ids) for sample in samples]
    return {
        "policy": reference.mean_of_masked_means(policy, masks),
        "distillation": reference.mean_of_masked_means(distillation, masks),
    }


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    from trainer.learning.samples import Model

    model = Model(
        tokenizer=load_tokenizer(ORIGIN),
        vocabulary=768,
        context_tokens=1024,
        end_token_ids=frozenset({2}),
    )
    return load_samples(make_batch(COUNT), model, ONE_STEP)[0]


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The result of one step with the default settings."""
    out = tmp_path_factory.mktemp("once") / "out"
    trained(out)
    return out


@pytest.mark.parametrize(
    ("support", "hint_choice", "clamp"),
    [
        ("student", "sequence_optimal", 1.0),
        ("teacher", "token_optimal", None),
        ("overlap", "shortest", 1.0),
    ],
)
def test_the_steps_of_a_batch_have_the_loss_that_the_definition_gives(
    support: Support,
    hint_choice: HintChoice,
    clamp: float | None,
    samples: list[Sample],
    tmp_path: Path,
) -> None:
    terms = ObjectiveSettings(
        support=support, hint_choice=hint_choice, difference_clamp=clamp, distillation_weight=0.5
    )
    # A long step, so that ratios leave the clip range.
    long = TrainingSettings(epochs=1, terms=terms, adam=AdamSettings(learning_rate=2e-3))
    trained(tmp_path / "one", long)
    outcome = trained(tmp_path / "two", msgspec.structs.replace(long, epochs=2))
    for record, now in zip(outcome.steps, (ORIGIN, tmp_path / "one" / WEIGHTS), strict=True):
        wanted = expected(samples, now, terms)
        assert record.metrics["policy"] == pytest.approx(wanted["policy"], abs=1e-5)
        assert record.metrics["distillation"] == pytest.approx(wanted["distillation"], abs=1e-5)
        total = wanted["policy"] + 0.5 * wanted["distillation"]
        assert record.metrics["loss"] == pytest.approx(total, abs=1e-5)
    assert outcome.steps[1].metrics["outside_clip"] > 0.02


def test_the_same_batch_gives_the_same_bytes(once: Path, tmp_path: Path) -> None:
    trained(tmp_path / "again")
    assert contents(tmp_path / "again") == contents(once)


def test_what_comes_out_is_admissible_and_differs_from_the_origin_by_its_weights_alone(
    once: Path, tmp_path: Path
) -> None:
    found = admission(once / WEIGHTS, tmp_path / "blobs", kind="full")
    assert found.reasons == ()
    before, after = contents(ORIGIN), contents(once / WEIGHTS)
    assert after.keys() == before.keys()
    assert {name for name in after if after[name] != before[name]} == {"model.safetensors"}
    report = json.loads((once / "training.json").read_bytes())
    assert report["type"] == "trained"
    assert report["weights_id"] == release_id(once / WEIGHTS)
    state = json.loads((once / STATE / "state.json").read_bytes())
    digest = hashlib.sha256(after["model.safetensors"]).hexdigest()
    assert state["weights"] == {"model.safetensors": digest}


def test_every_step_is_reported_as_it_is_made_and_the_new_weights_are_measured(
    tmp_path: Path,
) -> None:
    seen: list[StepRecord] = []
    outcome = trained(tmp_path / "out", TrainingSettings(epochs=3), on_step=seen.append)
    assert tuple(seen) == outcome.steps
    assert [each.step for each in seen] == [1, 2, 3]
    kl = [each.metrics["kl_base"] for each in seen] + [outcome.after["kl_base"]]
    assert kl == sorted(kl)
    assert kl[0] < 1e-9
    assert outcome.batch["drift"] < 1e-5
    assert outcome.batch["samples"] == COUNT
    assert all(each.metrics["update_norm"] > 0 for each in seen)
    for name, value in outcome.batch.items():
        assert [each.metrics[name] for each in seen] == [value] * 3


@pytest.mark.parametrize("objective", ["two-term", "trl"])
@pytest.mark.parametrize(("count", "micro_batch"), [(8, 3), (7, 4), (7, 1), (5, 4)])
def test_small_micro_batches_give_the_gradient_of_the_whole(
    objective: Objective, count: int, micro_batch: int, tmp_path: Path
) -> None:
    settings = TrainingSettings(epochs=1, objective=objective)
    small = msgspec.structs.replace(settings, micro_batch=micro_batch)
    whole, parts = (
        trained(tmp_path / name, given, batch=make_batch(count))
        for name, given in (("whole", settings), ("parts", small))
    )
    # TRL's figures of its own terms are means over places.
    names = ("loss", "grad_norm") if objective == "trl" else whole.steps[0].metrics
    for name in names:
        value = whole.steps[0].metrics[name]
        assert parts.steps[0].metrics[name] == pytest.approx(value, rel=1e-4, abs=1e-6), name
    assert parts.after == pytest.approx(whole.after, rel=1e-3, abs=1e-6)
    # After one step of a fresh optimizer this is a tenth of the gradient.
    gradients = [
        load_file(tmp_path / name / STATE / "adam.safetensors") for name in ("whole", "parts")
    ]
    for name, wanted in gradients[0].items():
        assert torch.allclose(gradients[1][name], wanted, rtol=1e-3, atol=1e-7), name


def test_each_reply_is_read_at_the_temperature_at_which_it_was_sampled(tmp_path: Path) -> None:
    engine = TransformersEngine()
    engine.load(ORIGIN)

    def mixed(views: list[BatchSampleView]) -> list[BatchSampleView]:
        """Every other one as a server records that was told none, which means 1."""
        return [
            msgspec.structs.replace(
                view,
                temperature=None,
                logprobs=list(engine.score(view.prompt_token_ids, view.token_ids, 1.0)),
            )
            if place % 2
            else view
            for place, view in enumerate(views)
        ]

    outcome = trained(tmp_path / "out", batch=make_batch(COUNT, mixed))
    assert outcome.batch["drift"] < 1e-5


def test_arithmetic_in_bfloat16_moves_full_parameters_nearly_as_float32_does(
    once: Path, tmp_path: Path
) -> None:
    whole = json.loads((once / "training.json").read_bytes())["steps"][0]["metrics"]
    settings = TrainingSettings(epochs=1, precision="bfloat16", gradient_checkpointing=True)
    outcome = trained(tmp_path / "out", settings)
    for name in ("loss", "grad_norm", "entropy"):
        assert outcome.steps[0].metrics[name] == pytest.approx(whole[name], rel=0.1), name
    weights = load_file(tmp_path / "out" / WEIGHTS / "model.safetensors")
    moments = load_file(tmp_path / "out" / STATE / "adam.safetensors")
    assert {each.dtype for each in (*weights.values(), *moments.values())} == {torch.float32}


def test_adams_state_goes_on_with_the_weights_it_belongs_to(once: Path, tmp_path: Path) -> None:
    trained(tmp_path / "with", weights=once / WEIGHTS, state=once / STATE, serving=ORIGIN)
    trained(tmp_path / "without", weights=once / WEIGHTS, serving=ORIGIN)
    weights = [
        load_file(tmp_path / name / WEIGHTS / "model.safetensors") for name in ("with", "without")
    ]
    assert any(not torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    state = json.loads((tmp_path / "with" / STATE / "state.json").read_bytes())
    assert set(state["steps"].values()) == {2}
    with pytest.raises(Refused, match="other weights"):
        train(tmp_path / "wrong", weights=ORIGIN, state=once / STATE)


def test_a_training_in_two_parts_is_the_training_in_one_bit_for_bit(tmp_path: Path) -> None:
    # TRL's reverse KL alone does not look at the weights before the first step.
    terms = ObjectiveSettings(policy_weight=0.0, hint_choice="shortest")
    settings = TrainingSettings(objective="trl", terms=terms, epochs=1)
    first, second, whole = (tmp_path / name for name in ("first", "second", "whole"))
    trained(first, settings)
    trained(second, settings, weights=first / WEIGHTS, state=first / STATE, serving=ORIGIN)
    trained(whole, msgspec.structs.replace(settings, epochs=2))
    assert contents(second / WEIGHTS) == contents(whole / WEIGHTS)
    assert contents(second / STATE) == contents(whole / STATE)


def test_more_candidates_than_the_model_has_tokens_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="there are 768 tokens"):
        train(tmp_path / "out", TrainingSettings(terms=ObjectiveSettings(top_k=769)))


@pytest.mark.parametrize("target", ["nolayer", "model"])
def test_an_adapter_on_layers_that_the_origin_has_not_is_a_mistake_of_the_settings(
    target: str, tmp_path: Path
) -> None:
    settings = TrainingSettings(lora=LoraSettings(rank=4, targets=(target,)))
    with pytest.raises(SettingsError, match=f"lora.targets .*{target}"):
        train(tmp_path / "out", settings)


def test_prompts_that_are_all_others_than_the_server_made_are_a_mistake_of_the_settings(
    tmp_path: Path,
) -> None:
    def change(views: list[BatchSampleView]) -> list[BatchSampleView]:
        other = {"role": "system", "content": "Be brief."}
        return [msgspec.structs.replace(each, messages=[other, *each.messages]) for each in views]

    def hinted(views: list[BatchSampleView]) -> list[BatchSampleView]:
        return [each for each in change(views) if each.hinted]

    with pytest.raises(SettingsError, match="Of none of 4 samples"):
        train(tmp_path / "out", batch=make_batch(8, hinted))
    # One alone may be its own fault.
    one = stopped(tmp_path / "one", batch=make_batch(8, lambda views: hinted(views)[:1]))
    assert one.reason == "error"


def test_the_teacher_is_the_origin_and_not_what_is_trained(tmp_path: Path) -> None:
    outcome = trained(tmp_path / "out", weights=BETTER, serving=ORIGIN)
    assert outcome.steps[0].metrics["kl_origin"] > 0.05
    unlike = stopped(tmp_path / "unlike", weights=BETTER)
    assert unlike.reason == "drift"


def test_trls_own_objective_takes_the_same_batch(once: Path, tmp_path: Path) -> None:
    outcome = trained(tmp_path / "out", TrainingSettings(epochs=1, objective="trl"))
    metrics = outcome.steps[0].metrics
    policy = json.loads((once / "training.json").read_bytes())["steps"][0]["metrics"]["policy"]
    assert metrics["policy_loss"] == pytest.approx(policy, abs=1e-6)
    assert metrics["loss"] > metrics["policy_loss"]
    assert outcome.after["kl_base"] > 0
    assert contents(tmp_path / "out" / WEIGHTS) != contents(once / WEIGHTS)


def test_an_adapter_is_trained_on_the_origin_and_is_admissible(tmp_path: Path) -> None:
    settings = TrainingSettings(
        epochs=1, lora=LoraSettings(rank=4, targets=("q_proj", "down_proj"))
    )
    first, second = tmp_path / "first", tmp_path / "second"
    trained(first, settings)
    outcome = trained(
        second, settings, weights=first / WEIGHTS, state=first / STATE, serving=ORIGIN
    )
    origin_id = release_id(ORIGIN)
    found = admission(
        second / WEIGHTS,
        tmp_path / "blobs",
        kind="lora",
        foundation=origin_id,
        expected_foundation=origin_id,
    )
    assert found.reasons == ()
    assert outcome.steps[0].metrics["kl_origin"] > 0
    engine, alone = TransformersEngine(), TransformersEngine()
    engine.load(second / WEIGHTS, foundation=ModelFiles(directory=ORIGIN))
    alone.load(ORIGIN)
    view = make_batch(COUNT).samples[0]
    scores = [
        each.score(view.prompt_token_ids, view.token_ids, TEMPERATURE) for each in (engine, alone)
    ]
    assert scores[0] != scores[1]
    with pytest.raises(Refused, match="is an adapter"):
        train(tmp_path / "full", weights=first / WEIGHTS)
    with pytest.raises(SettingsError, match=r"lora.rank is 8; .* has 4"):
        train(
            tmp_path / "rank", TrainingSettings(lora=LoraSettings(rank=8)), weights=first / WEIGHTS
        )
    with pytest.raises(Refused, match="neither an adapter nor the origin"):
        train(tmp_path / "other", settings, weights=BETTER)


def test_weights_that_are_stored_rounded_are_trained_in_full_precision(tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    origin.mkdir()
    for name, data in contents(ORIGIN).items():
        (origin / name).write_bytes(data)
    halves = {
        name: tensor.bfloat16() for name, tensor in load_file(ORIGIN / "model.safetensors").items()
    }
    save_file(halves, origin / "model.safetensors", metadata={"format": "pt"})
    lax = TrainingSettings(epochs=1, adam=AdamSettings(learning_rate=1e-5))
    first = tmp_path / "first"
    trained(first, lax, weights=origin, origin=origin)
    written = load_file(first / WEIGHTS / "model.safetensors")
    masters = load_file(first / STATE / "weights.safetensors")
    assert {tensor.dtype for tensor in written.values()} == {torch.bfloat16}
    assert all(torch.equal(masters[name].bfloat16(), written[name]) for name in masters)
    # So short a step is lost in the rounding, and not in the state.
    assert any(not torch.equal(masters[name], halves[name].float()) for name in masters)
    second = tmp_path / "second"
    trained(second, lax, weights=first / WEIGHTS, origin=origin, state=first / STATE)
    moved = load_file(second / STATE / "weights.safetensors")
    for name in masters:
        assert (moved[name] - masters[name]).abs().max() < 1.1e-5


def test_a_sharded_origin_gives_sharded_candidates(tmp_path: Path) -> None:
    model, tokenizer = load_pretrained(ORIGIN)
    model.save_pretrained(tmp_path / "origin", max_shard_size="300KB")
    tokenizer.save_pretrained(tmp_path / "origin")
    write_full(model.state_dict(), tmp_path / "origin", tmp_path / "out")
    found, wanted = contents(tmp_path / "out"), contents(tmp_path / "origin")
    assert len([name for name in wanted if name.endswith(".safetensors")]) > 1
    assert found == wanted


def shifted(views: list[BatchSampleView]) -> list[BatchSampleView]:
    return [
        msgspec.structs.replace(view, logprobs=[value - 0.31 for value in view.logprobs])
        for view in views
    ]


def cut(views: list[BatchSampleView]) -> list[BatchSampleView]:
    return [
        msgspec.structs.replace(view, token_ids=view.token_ids[:-1], logprobs=view.logprobs[:-1])
        for view in views
    ]


def nothing(views: list[BatchSampleView]) -> list[BatchSampleView]:
    return [msgspec.structs.replace(view, token_ids=[]) for view in views]


@pytest.mark.parametrize(
    ("change", "bounds", "reason", "steps"),
    [
        (shifted, Bounds(), "drift", 0),
        (cut, Bounds(), "truncation", 0),
        (list, Bounds(reply_tokens_high=5.0), "reply-length", 0),
        (list, Bounds(entropy_low=1.0), "entropy", 1),
        (list, Bounds(update_norm=1e-6), "update-norm", 1),
        (list, Bounds(kl_base=1e-6), "kl", 2),
        (nothing, Bounds(), "error", 0),
    ],
)
def test_a_watch_that_trips_stops_the_batch_and_leaves_nothing(
    change: Callable[[list[BatchSampleView]], list[BatchSampleView]],
    bounds: Bounds,
    reason: str,
    steps: int,
    tmp_path: Path,
) -> None:
    settings = TrainingSettings(epochs=2, bounds=bounds)
    seen: list[StepRecord] = []
    batch = make_batch(COUNT, change)
    outcome = stopped(tmp_path / "out", settings, batch=batch, on_step=seen.append)
    assert outcome.reason == reason
    # The step that broke the bound is told of like any other.
    assert len(outcome.steps) == steps
    assert tuple(seen) == outcome.steps
    assert len(outcome.skipped) == (COUNT if reason == "error" else 0)
    assert list(tmp_path.iterdir()) == []


def test_a_sample_without_a_term_adds_nothing_and_still_counts(tmp_path: Path) -> None:
    def beside_nothing(views: list[BatchSampleView]) -> list[BatchSampleView]:
        return [*views[:2], *(nothing_said(each) for each in views[2:])]

    def nothing_said(view: BatchSampleView) -> BatchSampleView:
        return msgspec.structs.replace(view, score=0, policy=False, distillation=False)

    alone = trained(tmp_path / "alone", batch=make_batch(2))
    beside = trained(tmp_path / "beside", batch=make_batch(4, beside_nothing))
    for name in ("loss", "policy", "distillation", "grad_norm"):
        wanted = alone.steps[0].metrics[name] / 2
        assert beside.steps[0].metrics[name] == pytest.approx(wanted, rel=1e-4, abs=1e-7), name
    assert (beside.batch["samples"], beside.skipped) == (4, ())
    of_nothing = make_batch(2, lambda views: [nothing_said(each) for each in views])
    outcome = stopped(tmp_path / "nothing", batch=of_nothing)
    assert (outcome.reason, outcome.steps) == ("error", ())


def test_weights_beyond_a_bound_after_the_last_step_say_so(tmp_path: Path) -> None:
    outcome = stopped(tmp_path / "out", TrainingSettings(epochs=1, bounds=Bounds(kl_base=1e-6)))
    assert (outcome.reason, len(outcome.steps)) == ("kl", 1)
    assert outcome.detail.startswith("after the last step, kl_base is ")


def test_a_disk_that_fills_up_while_tensors_are_written_is_the_disks_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_: object, **__: object) -> None:
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("trainer.learning.weights.save_file", full)
    with pytest.raises(OSError, match="No space left"):
        train(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_numbers_that_are_not_finite_stop_the_batch(tmp_path: Path) -> None:
    nan_tensor(ORIGIN, tmp_path / "nan")
    outcome = stopped(tmp_path / "out", weights=tmp_path / "nan")
    assert outcome.reason == "non-finite"


def test_what_a_killed_training_left_is_no_obstacle(once: Path, tmp_path: Path) -> None:
    def killed(record: StepRecord) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "out", on_step=killed)
    assert not (tmp_path / "out").exists()
    (tmp_path / "out.partial" / WEIGHTS).mkdir(parents=True)
    trained(tmp_path / "out")
    assert contents(tmp_path / "out") == contents(once)
    with pytest.raises(BadRequest, match="exists already"):
        train(tmp_path / "out")


@pytest.fixture
def plain_process() -> Iterator[tuple[bool, int]]:
    before = torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    yield before
    torch.set_num_threads(before[1])


def test_training_leaves_the_process_as_it_was(
    plain_process: tuple[bool, int], tmp_path: Path
) -> None:
    torch.set_num_threads(2)
    trained(tmp_path / "out")
    assert (torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()) == (
        plain_process[0],
        2,
    )
    assert "ACCELERATE_MIXED_PRECISION" not in os.environ or (
        os.environ["ACCELERATE_MIXED_PRECISION"] == "no"
    )
