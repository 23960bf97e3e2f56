"""The terms of the objective, one by one, against plain arithmetic."""

from __future__ import annotations

import math
from typing import Literal

import pytest
import torch

from tests.unit.trainer.objective import reference
from trainer.objective.distillation import advantages, candidates, distillation_term, weights
from trainer.objective.penalty import coarse_kl, kl_estimate
from trainer.objective.settings import ObjectiveSettings
from trainer.objective.surrogate import clip, policy_term, ratio

DOUBLE = torch.float64
SETTINGS = ObjectiveSettings()
EXTREMES = [math.inf, -math.inf, math.nan, 1e30, -1e30]


def double(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=DOUBLE)


@pytest.mark.parametrize("advantage", [-1.0, 0.0, 1.0, 0.3])
@pytest.mark.parametrize("rho", [1e-9, 0.5, 0.8, 0.9, 1.0, 1.1, 1.28, 1.5, math.exp(20)])
def test_clip_is_the_larger_of_the_plain_and_the_clamped_product(
    rho: float, advantage: float
) -> None:
    found = clip(double(rho), double(advantage), low=0.2, high=0.28)
    assert found.item() == pytest.approx(reference.clip(rho, advantage), rel=1e-12)


@pytest.mark.parametrize(
    ("rho", "advantage", "slope"),
    [
        (0.5, 1.0, -1.0),  # below the range a good token is still pulled up
        (1.5, 1.0, 0.0),  # above it gains nothing more
        (0.5, -1.0, 0.0),  # below the range a bad token loses nothing more
        (1.5, -1.0, 1.0),  # above it is still pushed down
        (1.1, 1.0, -1.0),
        (1.1, -1.0, 1.0),
        (1.1, 0.0, 0.0),
    ],
)
def test_the_clip_stops_the_gradient_on_the_side_that_would_gain(
    rho: float, advantage: float, slope: float
) -> None:
    point = double(rho).requires_grad_()
    clip(point, double(advantage), low=0.2, high=0.28).sum().backward()  # type: ignore[no-untyped-call]
    assert point.grad is not None
    assert point.grad.item() == slope


def test_a_log_ratio_beyond_the_bound_is_clamped_and_passes_no_gradient() -> None:
    new = double(50.0, -50.0, 1.0).requires_grad_()
    rho = ratio(new, double(0.0, 0.0, 0.0), bound=20.0)
    assert rho.tolist() == pytest.approx([math.exp(20), math.exp(-20), math.e], rel=1e-12)
    rho.sum().backward()  # type: ignore[no-untyped-call]
    assert new.grad is not None
    assert new.grad.tolist() == pytest.approx([0.0, 0.0, math.e])


def test_the_policy_term_is_the_clipped_ratio_times_the_raw_score() -> None:
    generator = torch.Generator().manual_seed(1)
    new = torch.randn(3, 7, generator=generator, dtype=DOUBLE)
    old = new + torch.randn(3, 7, generator=generator, dtype=DOUBLE) * 0.5
    mask = torch.rand(3, 7, generator=generator) < 0.7
    rewards = double(-1.0, 0.0, 1.0)
    settings = ObjectiveSettings(clip_low=0.1, clip_high=0.4)
    found = policy_term(new, old, rewards, mask, settings)
    for b in range(3):
        for t in range(7):
            wanted = reference.policy_token(
                new[b, t].item(), old[b, t].item(), rewards[b].item(), 0.1, 0.4
            )
            assert found[b, t].item() == pytest.approx(wanted if mask[b, t] else 0.0, rel=1e-12)


@pytest.mark.parametrize("clamp_at", [1.0, 0.25, None])
def test_the_distillation_term_sums_the_clipped_ratios_of_the_candidates(
    clamp_at: float | None,
) -> None:
    generator = torch.Generator().manual_seed(2)

    def drawn(scale: float) -> torch.Tensor:
        return torch.randn(2, 5, 4, generator=generator, dtype=DOUBLE) * scale

    old = drawn(1.0) - 2
    new, teacher = old + drawn(0.4), old + drawn(1.5)
    counts = torch.rand(2, 5, 4, generator=generator) < 0.6
    counts[0, 0] = False
    mask = torch.tensor([[True] * 5, [True, False, True, True, False]])
    settings = ObjectiveSettings(difference_clamp=clamp_at)
    found = distillation_term(new, old, teacher, counts, mask, settings)
    assert found[0, 0].item() == 0.0
    for b in range(2):
        for t in range(5):
            wanted = reference.distillation_token(
                new[b, t].tolist(),
                old[b, t].tolist(),
                teacher[b, t].tolist(),
                counts[b, t].tolist(),
                clamp_at,
            )
            assert found[b, t].item() == pytest.approx(wanted if mask[b, t] else 0.0, rel=1e-12)


def test_the_weights_sum_to_one_over_the_support_and_to_nothing_over_none() -> None:
    old = double(-1.0, -2.0, -9.0, -1e30).expand(3, 4)
    counts = torch.tensor(
        [[True, True, True, True], [False, True, False, False], [False, False, False, False]]
    )
    found = weights(old, counts)
    assert found.sum(-1).tolist() == pytest.approx([1.0, 1.0, 0.0])
    assert found[1].tolist() == [0.0, 1.0, 0.0, 0.0]


def test_the_teachers_advantage_is_clamped_before_it_is_weighted() -> None:
    old, teacher = double(-1.0, -1.0), double(-4.0, -0.5)
    every = torch.tensor([True, True])
    assert advantages(old, teacher, every, 1.0).tolist() == pytest.approx([-0.5, 0.25])
    assert advantages(old, teacher, every, None).tolist() == pytest.approx([-1.5, 0.25])


def test_the_candidates_are_the_policys_the_teachers_or_those_of_both() -> None:
    student = torch.tensor([[5, 3, 9, 1], [1, 2, 3, 4]])
    teacher = torch.tensor([[9, 8, 5, 7], [5, 6, 7, 8]])
    assert candidates(student, teacher, "student")[0].tolist() == student.tolist()
    ids, counts = candidates(student, teacher, "teacher")
    assert ids.tolist() == teacher.tolist()
    assert counts.all()
    ids, counts = candidates(student, teacher, "overlap")
    assert ids.tolist() == student.tolist()
    assert counts.tolist() == [[True, False, True, False], [False] * 4]


@pytest.mark.parametrize("kind", ["k1", "k2", "k3"])
def test_the_penalty_is_schulmans_estimator(kind: Literal["k1", "k2", "k3"]) -> None:
    new, origin = double(-1.0, -0.1, -3.0), double(-2.0, -0.1, -0.2)
    mask = torch.tensor([True, True, False])
    found = kl_estimate(new, origin, mask, kind)
    wanted = [reference.estimate(kind, -1.0, -2.0), reference.estimate(kind, -0.1, -0.1), 0.0]
    assert found.tolist() == pytest.approx(wanted, abs=1e-15)


@pytest.mark.parametrize("kind", ["k1", "k2", "k3"])
@pytest.mark.parametrize(("now", "then"), [(-0.1, -40.1), (-40.1, -0.1)])
def test_the_penalty_is_exact_and_pulls_however_far_the_policy_has_gone(
    kind: Literal["k1", "k2", "k3"], now: float, then: float
) -> None:
    new = double(now).requires_grad_()
    mask = torch.tensor([True])
    found = kl_estimate(new, double(then), mask, kind)
    assert found.item() == pytest.approx(reference.estimate(kind, now, then), rel=1e-12)
    found.backward()  # type: ignore[no-untyped-call]
    assert new.grad is not None
    assert new.grad.abs().item() > 0.5
    # A watch compares a number that is never infinite.
    bounded = kl_estimate(double(-900.0), double(-0.1), mask, kind, bound=20.0)
    assert bounded.isfinite().all()


def test_the_coarse_divergence_lumps_all_other_tokens_into_one() -> None:
    policy, origin = double(0.5, 0.3, 0.1, 0.1), double(0.2, 0.2, 0.5, 0.1)
    found = coarse_kl(policy[:2].log(), origin[:2].log()).item()
    wanted = 0.5 * math.log(0.5 / 0.2) + 0.3 * math.log(0.3 / 0.2) + 0.2 * math.log(0.2 / 0.6)
    assert found == pytest.approx(wanted, rel=1e-12)
    whole = sum(p * math.log(p / q) for p, q in zip(policy.tolist(), origin.tolist(), strict=True))
    assert found < whole
    sure = torch.tensor([0.0, -40.0])
    assert coarse_kl(sure, sure).item() == 0
    assert coarse_kl(sure, torch.tensor([-40.0, 0.0])).isfinite()


@pytest.mark.parametrize("extreme", EXTREMES)
def test_a_masked_token_of_any_value_leaves_terms_and_gradients_finite(extreme: float) -> None:
    mask = torch.tensor([[True, False]])
    new = torch.tensor([[-1.0, extreme]], requires_grad=True)
    other = torch.tensor([[-1.5, -extreme]])
    rewards = torch.tensor([1.0])
    spread = new.unsqueeze(-1).expand(1, 2, 3)
    also = other.unsqueeze(-1).expand(1, 2, 3)
    counts = torch.ones(1, 2, 3, dtype=torch.bool)
    for term in (
        policy_term(new, other, rewards, mask, SETTINGS),
        distillation_term(spread, also, also + 1, counts, mask, SETTINGS),
        *(kl_estimate(new, other, mask, kind, bound=20.0) for kind in ("k1", "k2", "k3")),
    ):
        new.grad = None
        term.sum().backward(retain_graph=True)  # type: ignore[no-untyped-call]
        assert term.isfinite().all()
        assert term[0, 1] == 0
        assert new.grad is not None
        assert new.grad.isfinite().all()
        assert new.grad[0, 1] == 0


@pytest.mark.parametrize("extreme", EXTREMES)
def test_a_candidate_outside_the_support_of_any_value_has_no_influence(extreme: float) -> None:
    new = torch.tensor([[[-1.0, extreme]]], requires_grad=True)
    old = torch.tensor([[[-1.2, -extreme]]])
    counts = torch.tensor([[[True, False]]])
    mask = torch.tensor([[True]])
    found = distillation_term(new, old, old + 0.5, counts, mask, SETTINGS)
    found.sum().backward()  # type: ignore[no-untyped-call]
    assert found.item() == pytest.approx(reference.clip(math.exp(0.2), 0.5), rel=1e-6)
    assert new.grad is not None
    assert new.grad[0, 0, 1] == 0
    assert new.grad.isfinite().all()


@pytest.mark.parametrize("kind", ["policy", "distillation", "k1", "k2", "k3"])
def test_gradients_agree_with_finite_differences_away_from_the_kinks(kind: str) -> None:
    generator = torch.Generator().manual_seed(3)
    old = torch.randn(2, 3, 4, generator=generator, dtype=DOUBLE) - 3
    # Ratios inside the range, below it and above it, none at a bound.
    steps = double(-0.6, -0.1, 0.05, 0.6)[torch.randint(0, 4, (2, 3, 4), generator=generator)]
    teacher = old + double(-2.0, 0.3, 2.0, -0.4)
    counts = torch.ones(2, 3, 4, dtype=torch.bool)
    counts[0, 1] = False
    counts[1, 0, 2] = False
    mask = torch.tensor([[True, True, False], [True, True, True]])
    rewards = double(-1.0, 1.0)

    def term(new: torch.Tensor) -> torch.Tensor:
        if kind == "policy":
            return policy_term(new[..., 0], old[..., 0], rewards, mask, SETTINGS)
        if kind == "distillation":
            return distillation_term(new, old, teacher, counts, mask, SETTINGS)
        return kl_estimate(new[..., 0], old[..., 1], mask, kind, bound=20.0)  # type: ignore[arg-type]

    new = (old + steps).requires_grad_()
    assert torch.autograd.gradcheck(term, new)
