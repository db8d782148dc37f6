import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from scumble.core.gates import SCORE_CEILING, gates, priorities

scores = st.lists(st.floats(-0.5, 1.5, width=32), min_size=1, max_size=31).map(torch.tensor)
paper_scores = st.lists(st.floats(0, 1, width=32), min_size=1, max_size=31).map(torch.tensor)


def test_a_priority_is_the_product_of_the_scores_before_it():
    found = priorities(torch.tensor([0.5, 1.0, 0.5]))
    assert found.tolist() == [1.0, 0.5, 0.5, 0.25]


def test_a_gate_opens_above_the_threshold_not_at_it():
    assert gates(torch.tensor([1.0, 0.5, 0.4])).tolist() == [1, 0, 0]
    assert gates(torch.tensor([1.0, 0.50001])).tolist() == [1, 1]


@given(paper_scores)
def test_priorities_never_rise_with_rank_in_the_paper(scores):
    found = priorities(scores, ceiling=1.0)
    assert bool((found[1:] <= found[:-1]).all())


@given(scores)
def test_gates_are_zero_or_one_and_never_rise_with_rank(scores):
    found = gates(priorities(scores))
    assert found[0] == 1
    assert set(found.tolist()) <= {0.0, 1.0}
    assert bool((found[1:] <= found[:-1]).all())


def test_a_gate_stays_closed_behind_a_closed_one():
    # The authors' ceiling lifts the priority back over the threshold: 0.49 x 1.03 > 0.5.
    found = priorities(torch.tensor([0.49, 1.03]))
    assert found[2] > 0.5
    assert gates(found).tolist() == [1, 0, 0]


def test_gates_are_hard_forward_and_soft_backward():
    soft = torch.tensor([1.0, 0.9, 0.1], requires_grad=True)
    upstream = torch.tensor([1.0, 2.0, 3.0])
    hard = gates(soft)
    assert hard.tolist() == [1, 1, 0]
    assert torch.autograd.grad(hard, soft, upstream)[0].tolist() == [1, 2, 3]


@given(st.lists(st.floats(0.125, 1, width=32), min_size=1, max_size=31).map(torch.tensor))
def test_gradients_of_priorities_are_those_of_torch(scores):
    ours, plain = (scores.double().requires_grad_() for _ in range(2))
    upstream = torch.rand(len(scores) + 1, dtype=torch.float64)
    priorities(ours).backward(upstream)
    plain.clamp(0, SCORE_CEILING).cumprod(0).backward(upstream[1:])
    torch.testing.assert_close(ours.grad, plain.grad)


def test_gradients_are_exact_at_zeros():
    scores = torch.tensor([[0.5, 0.0, 0.25, 0.0], [0.0, 0.5, 0.5, 1.0]], requires_grad=True)
    plain = scores.detach().clone().requires_grad_()
    upstream = torch.tensor([[1.0, 2, 3, 4, 5], [5.0, 4, 3, 2, 1]])
    priorities(scores).backward(upstream)
    plain.cumprod(1).backward(upstream[:, 1:])
    assert torch.equal(scores.grad, plain.grad)


def test_a_score_outside_its_range_gets_no_gradient():
    scores = torch.tensor([0.9, 1.04, -0.1], requires_grad=True)
    priorities(scores).sum().backward()
    assert (scores.grad != 0).tolist() == [True, False, False]


def test_without_order_every_score_is_a_priority_and_every_gate_stands_for_itself():
    scores = torch.tensor([0.4, 0.9, 1.5], requires_grad=True)
    found = priorities(scores, ceiling=1.0, ordered=False)
    assert found.tolist() == pytest.approx([1.0, 0.4, 0.9, 1.0])
    hard = gates(found, ordered=False)
    assert hard.tolist() == [1, 0, 1, 1]
    hard.backward(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    assert scores.grad.tolist() == [2, 3, 0]
