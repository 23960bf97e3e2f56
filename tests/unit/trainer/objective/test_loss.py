"""The whole loss of a batch, the settings that reach it, and the numbers it is made from."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import msgspec
import pytest
import torch

from reef_release.errors import SettingsError
from tests.unit.trainer.objective import reference
from trainer.objective.loss import Tokens, aggregate, two_term_loss
from trainer.objective.probabilities import entropies, logprobs_at, top_ids
from trainer.objective.settings import ObjectiveSettings

DOUBLE = torch.float64
B, T, K = 4, 6, 4


@pytest.fixture
def tokens() -> Tokens:
    """Four samples: scored and hinted, hint alone, score alone without the teacher, all masked."""
    generator = torch.Generator().manual_seed(5)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=DOUBLE)

    old, old_candidates = drawn(B, T) - 2, drawn(B, T, K) - 2
    counts = torch.rand(B, T, K, generator=generator) < 0.7
    counts[0, 0] = False
    mask = torch.rand(B, T, generator=generator) < 0.8
    mask[3] = False
    return Tokens(
        logprobs=(old + drawn(B, T) * 0.3).requires_grad_(),
        candidate_logprobs=(old_candidates + drawn(B, T, K) * 0.3).requires_grad_(),
        old_logprobs=old,
        old_candidate_logprobs=old_candidates,
        teacher_candidate_logprobs=old_candidates + drawn(B, T, K),
        counts=counts,
        mask=mask,
        rewards=torch.tensor([-1.0, 0.0, 1.0, 1.0], dtype=DOUBLE),
        distilled=torch.tensor([True, True, False, True]),
        origin_logprobs=old + drawn(B, T) * 0.5,
    )


def expected(tokens: Tokens, settings: ObjectiveSettings) -> dict[str, float]:
    policy = [[0.0] * T for _ in range(B)]
    distillation = [[0.0] * T for _ in range(B)]
    penalty = [[0.0] * T for _ in range(B)]
    for b in range(B):
        for t in range(T):
            new = tokens.logprobs[b, t].item()
            policy[b][t] = reference.policy_token(
                new,
                tokens.old_logprobs[b, t].item(),
                tokens.rewards[b].item(),
                settings.clip_low,
                settings.clip_high,
            )
            if tokens.distilled[b]:
                distillation[b][t] = reference.distillation_token(
                    tokens.candidate_logprobs[b, t].tolist(),
                    tokens.old_candidate_logprobs[b, t].tolist(),
                    tokens.teacher_candidate_logprobs[b, t].tolist(),
                    tokens.counts[b, t].tolist(),
                    settings.difference_clamp,
                )
            if settings.penalty != "none":
                penalty[b][t] = reference.estimate(
                    settings.penalty, new, tokens.origin_logprobs[b, t].item()
                )
    mask = tokens.mask.tolist()
    parts = {
        "policy": reference.mean_of_masked_means(policy, mask),
        "distillation": reference.mean_of_masked_means(distillation, mask),
        "penalty": reference.mean_of_masked_means(penalty, mask),
    }
    total = (
        settings.policy_weight * parts["policy"]
        + settings.distillation_weight * parts["distillation"]
        + settings.penalty_weight * parts["penalty"]
    )
    return {"total": total, **parts}


@pytest.mark.parametrize(
    "settings",
    [
        ObjectiveSettings(),
        ObjectiveSettings(policy_weight=0.3, distillation_weight=0.7),
        ObjectiveSettings(difference_clamp=None),
        ObjectiveSettings(penalty="k1", penalty_weight=0.1),
        ObjectiveSettings(penalty="k2", penalty_weight=0.2),
        ObjectiveSettings(penalty="k3", penalty_weight=2.0),
    ],
)
def test_the_loss_is_what_its_definition_says(tokens: Tokens, settings: ObjectiveSettings) -> None:
    found = two_term_loss(tokens, settings)
    for name, value in expected(tokens, settings).items():
        assert getattr(found, name).item() == pytest.approx(value, rel=1e-12), name


def test_a_term_without_weight_is_not_computed_and_leaves_the_graph_whole(tokens: Tokens) -> None:
    found = two_term_loss(tokens, ObjectiveSettings(policy_weight=0.0))
    wanted = expected(tokens, ObjectiveSettings())
    assert found.total.item() == pytest.approx(wanted["distillation"], rel=1e-12)
    assert found.policy.item() == 0
    found.total.backward()  # type: ignore[no-untyped-call]
    assert tokens.logprobs.grad is not None
    assert tokens.logprobs.grad.abs().sum() == 0
    assert tokens.candidate_logprobs.grad is not None
    assert tokens.candidate_logprobs.grad.abs().sum() > 0
    alone = two_term_loss(tokens, ObjectiveSettings(distillation_weight=0.0))
    assert alone.total.item() == pytest.approx(wanted["policy"], rel=1e-12)


@pytest.mark.parametrize(
    "change",
    [
        {"policy_weight": 0.5},
        {"distillation_weight": 0.5},
        {"clip_low": 0.05},
        {"clip_high": 0.01},
        {"difference_clamp": 0.2},
        {"difference_clamp": None},
        {"log_ratio_clamp": 0.05},
        {"penalty": "k3", "penalty_weight": 0.5},
    ],
)
def test_every_configured_coefficient_changes_the_loss(
    tokens: Tokens, change: dict[str, Any]
) -> None:
    plain = two_term_loss(tokens, ObjectiveSettings()).total.item()
    changed = two_term_loss(tokens, ObjectiveSettings(**change)).total.item()
    assert changed != pytest.approx(plain, rel=1e-6)


def test_the_gradient_of_the_loss_agrees_with_finite_differences(tokens: Tokens) -> None:
    settings = ObjectiveSettings(penalty="k3", penalty_weight=0.5)

    def loss(new: torch.Tensor, spread: torch.Tensor) -> torch.Tensor:
        moved = replace(tokens, logprobs=new, candidate_logprobs=spread)
        return two_term_loss(moved, settings).total

    assert torch.autograd.gradcheck(loss, (tokens.logprobs, tokens.candidate_logprobs))


def test_a_fully_masked_sample_adds_nothing_and_still_counts() -> None:
    values = torch.tensor([[2.0, 4.0], [math.nan, math.inf]])
    mask = torch.tensor([[True, True], [False, False]])
    assert aggregate(values, mask).item() == 1.5


def test_a_batch_of_masked_samples_alone_gives_zero_and_zero_gradients(tokens: Tokens) -> None:
    nothing = replace(tokens, mask=torch.zeros(B, T, dtype=torch.bool))
    found = two_term_loss(nothing, ObjectiveSettings(penalty="k1", penalty_weight=1.0))
    found.total.backward()  # type: ignore[no-untyped-call]
    assert found.total.item() == 0
    assert tokens.logprobs.grad is not None
    assert tokens.logprobs.grad.abs().sum() == 0


def test_a_token_with_an_empty_support_still_counts_in_the_mean(tokens: Tokens) -> None:
    one = {name: getattr(tokens, name)[:1] for name in Tokens.__dataclass_fields__}
    mask = torch.ones(1, T, dtype=torch.bool)
    distilled = two_term_loss(
        Tokens(**{**one, "mask": mask}), ObjectiveSettings(policy_weight=0.0)
    ).total.item()
    without_first = [
        reference.distillation_token(
            tokens.candidate_logprobs[0, t].tolist(),
            tokens.old_candidate_logprobs[0, t].tolist(),
            tokens.teacher_candidate_logprobs[0, t].tolist(),
            tokens.counts[0, t].tolist(),
            1.0,
        )
        for t in range(1, T)
    ]
    assert distilled == pytest.approx(sum(without_first) / T, rel=1e-12)


def test_a_reply_of_one_token_is_a_batch_too(tokens: Tokens) -> None:
    short = Tokens(
        **{
            name: getattr(tokens, name)[:1, 1:2]
            if getattr(tokens, name).dim() > 1
            else getattr(tokens, name)[:1]
            for name in Tokens.__dataclass_fields__
        }
    )
    short = replace(short, mask=torch.ones(1, 1, dtype=torch.bool))
    new, old = short.logprobs.item(), short.old_logprobs.item()
    policy = reference.policy_token(new, old, -1.0, 0.2, 0.28)
    distillation = reference.distillation_token(
        short.candidate_logprobs[0, 0].tolist(),
        short.old_candidate_logprobs[0, 0].tolist(),
        short.teacher_candidate_logprobs[0, 0].tolist(),
        short.counts[0, 0].tolist(),
        1.0,
    )
    found = two_term_loss(short, ObjectiveSettings()).total.item()
    assert found == pytest.approx(policy + distillation, rel=1e-12)


def test_log_probabilities_are_of_the_whole_vocabulary_at_the_temperature() -> None:
    generator = torch.Generator().manual_seed(7)
    logits = torch.randn(2, 3, 11, generator=generator, dtype=DOUBLE) * 3
    ids = torch.randint(0, 11, (2, 3, 5), generator=generator)
    found, spread = logprobs_at(logits / 0.7, ids), entropies(logits / 0.7)
    for b in range(2):
        for t in range(3):
            wanted = reference.log_softmax(logits[b, t].tolist(), 0.7)
            assert found[b, t].tolist() == pytest.approx([wanted[i] for i in ids[b, t].tolist()])
            entropy = -sum(math.exp(value) * value for value in wanted)
            assert spread[b, t].item() == pytest.approx(entropy)
            order = sorted(range(11), key=lambda i: -wanted[i])
            assert top_ids(logits, 4)[b, t].tolist() == order[:4]


@pytest.mark.parametrize(
    "fields",
    [
        '{"polcy_weight": 1}',
        '{"policy_weight": -1}',
        '{"policy_weight": true}',
        '{"clip_low": 1.5}',
        '{"clip_high": -0.1}',
        '{"top_k": 0}',
        '{"top_k": 2.5}',
        '{"difference_clamp": 0}',
        '{"log_ratio_clamp": 1000}',
        '{"support": "both"}',
        '{"hint_choice": "best"}',
        '{"penalty": "k4", "penalty_weight": 1}',
        '{"penalty": "k3"}',
        '{"penalty_weight": 0.1}',
        '{"policy_weight": 0, "distillation_weight": 0}',
    ],
)
def test_a_misspelt_or_impossible_coefficient_is_refused(fields: str) -> None:
    with pytest.raises((msgspec.ValidationError, SettingsError)):
        msgspec.json.decode(fields, type=ObjectiveSettings)


@pytest.mark.parametrize(
    "fields", [{"support": "both"}, {"policy_weight": math.nan}, {"clip_high": math.inf}]
)
def test_settings_made_in_code_are_checked_as_those_read_from_a_file(
    fields: dict[str, Any],
) -> None:
    with pytest.raises(SettingsError, match=next(iter(fields))):
        ObjectiveSettings(**fields)
