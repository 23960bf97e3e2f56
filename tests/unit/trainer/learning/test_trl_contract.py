"""What we take for granted in TRL: its SDPO trainer is experimental and may change.

When one of these fails after an upgrade, read TRL's trainer beside `trainer/learning/step.py`.
"""

from __future__ import annotations

import importlib.metadata
import inspect
from pathlib import Path

import pytest
import torch

from trainer.learning.sdpo import SDPOTrainer, sdpo_config
from trainer.learning.settings import Precision, TrainingSettings
from trainer.learning.step import RecordedTurnsTrainer
from trainer.objective.settings import ObjectiveSettings


def parameters(name: str) -> list[str]:
    return list(inspect.signature(getattr(SDPOTrainer, name)).parameters)


def test_the_version_is_the_one_that_was_read() -> None:
    assert importlib.metadata.version("trl") == "1.16.0"


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("_setup_teacher_model", ["self"]),
        ("_prepare_training_batch", ["self", "inputs"]),
        ("compute_loss", ["self", "model", "inputs", "return_outputs", "num_items_in_batch"]),
        ("_send_telemetry", ["self"]),
        ("_forward_logits", ["self", "model", "input_ids", "attention_mask", "logits_to_keep"]),
        ("_get_teacher_context_for_self_distillation", ["self"]),
    ],
)
def test_what_is_overridden_or_called_takes_what_it_took(name: str, wanted: list[str]) -> None:
    assert parameters(name) == wanted
    if name in vars(RecordedTurnsTrainer):
        ours = inspect.signature(getattr(RecordedTurnsTrainer, name))
        assert list(ours.parameters) == wanted


def test_nothing_else_of_trls_is_overridden() -> None:
    ours = {name for name in vars(RecordedTurnsTrainer) if not name.startswith("__")}
    assert ours & set(dir(SDPOTrainer)) == {
        "_prepare_training_batch",
        "_send_telemetry",
        "_setup_teacher_model",
        "compute_loss",
    }


def test_the_constructor_takes_callbacks_and_an_optimizer_may_be_given_later() -> None:
    given = {"model", "reward_funcs", "args", "train_dataset", "processing_class"}
    assert given | {"callbacks"} <= set(parameters("__init__"))
    assert "if self.optimizer is None:" in inspect.getsource(SDPOTrainer.create_optimizer)


def test_the_forward_divides_by_a_temperature_that_may_be_one_per_sample() -> None:
    class Model:
        def __call__(self, input_ids: torch.Tensor, **_: object) -> object:
            class Output:
                logits = torch.ones(2, 5, 7)

            return Output

    trainer = object.__new__(RecordedTurnsTrainer)
    trainer.model_kwarg_keys = {}.keys()
    trainer._set_temperatures(torch.tensor([0.5, 2.0]))
    ids = torch.zeros(2, 5, dtype=torch.int64)
    logits = trainer._forward_logits(Model(), ids, ids, 3)
    assert logits.shape == (2, 3, 7)
    assert logits[:, 0, 0].tolist() == [2.0, 0.5]


def test_the_loss_is_scaled_for_accumulation_by_the_trainer_itself() -> None:
    assert SDPOTrainer.loss_is_scaled_for_ga is True
    source = inspect.getsource(SDPOTrainer.compute_loss)
    assert "current_gradient_accumulation_steps" in source


def test_batches_are_prepared_once_and_kept_for_all_epochs() -> None:
    source = inspect.getsource(SDPOTrainer._prepare_inputs)
    assert "self._buffered_inputs = split_tensor_dict(" in source
    assert "steps_per_generation * self.num_iterations" in source


@pytest.mark.parametrize(
    ("count", "limit", "size", "parts"),
    [(16, 16, 16, 1), (4, 16, 4, 1), (32, 16, 16, 2), (17, 16, 9, 2), (31, 8, 8, 4), (7, 1, 1, 7)],
)
def test_micro_batches_are_of_one_size_and_as_few_as_the_limit_allows(
    count: int, limit: int, size: int, parts: int, tmp_path: Path
) -> None:
    config = sdpo_config(TrainingSettings(micro_batch=limit), count, tmp_path, seed=0)
    assert config.per_device_train_batch_size == size
    assert config.gradient_accumulation_steps == parts
    assert config.generation_batch_size == size * parts


def test_every_setting_that_trl_follows_reaches_it(tmp_path: Path) -> None:
    terms = ObjectiveSettings(
        policy_weight=1.0, distillation_weight=3.0, clip_low=0.1, clip_high=0.3, top_k=6
    )
    settings = TrainingSettings(objective="trl", terms=terms, epochs=5)
    config = sdpo_config(settings, 4, tmp_path, seed=7)
    assert config.distillation_weight == 0.75
    assert (config.epsilon, config.epsilon_high) == (0.1, 0.3)
    assert config.distillation_topk == 6
    assert config.num_iterations == config.max_steps == 5
    assert config.seed == 7
    assert config.report_to == []


@pytest.mark.parametrize(("ours", "its"), [("float32", "no"), ("bfloat16", "bf16")])
def test_the_settings_decide_on_precision_and_no_launcher_does(
    ours: Precision, its: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16" if its == "no" else "no")
    config = sdpo_config(TrainingSettings(precision=ours), 4, tmp_path, seed=0)
    assert config.mixed_precision == its
