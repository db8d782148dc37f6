"""Our mathematics beside the authors' own sparse convolution."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from scumble.core.cost import gated_macs, macs, macs_per_rank
from scumble.core.gates import gates, priorities
from scumble.core.ranks import rank_in_group
from scumble.core.units import gated_sum

TOLERANCE = 1e-5  # of the largest value


@pytest.fixture(params=range(6))
def case(request, data) -> dict[str, torch.Tensor]:
    stored = np.load(data / "golden" / "sls_layer.npz")
    prefix = f"{request.param}/"
    return {
        key.removeprefix(prefix): torch.from_numpy(stored[key])
        for key in stored.files
        if key.startswith(prefix)
    }


def assert_close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    largest = theirs.abs().max().item()
    torch.testing.assert_close(ours, theirs, rtol=0, atol=TOLERANCE * largest)


def test_outputs_and_gradients_are_the_authors(case):
    m = int(case["m"])
    weight, scores, x = (case[key].requires_grad_() for key in ("weight", "scores", "x"))
    opened = gates(priorities(scores))
    masked = gated_sum(weight, opened, rank_in_group(weight, m))
    y = F.conv2d(x, masked, case["bias"], padding=weight.shape[-1] // 2)
    (y * case["gy"]).sum().backward()
    assert int(opened.sum()) == int(case["n"])
    assert_close(y, case["y"])
    assert_close(weight.grad, case["grad_weight"])
    assert_close(scores.grad, case["grad_scores"])
    assert_close(x.grad, case["grad_x"])


def test_costs_and_their_gradients_are_the_authors(case):
    m, shape = int(case["m"]), case["weight"].shape
    positions = case["y"].shape[2] * case["y"].shape[3]
    scores = case["scores"].requires_grad_()
    ranks = torch.tensor([macs_per_rank(shape, positions, m)], dtype=torch.float32)
    cost = gated_macs(gates(priorities(scores)).unsqueeze(0), ranks)
    cost.backward()
    assert macs(shape, positions) == int(case["cost_dense"])
    assert cost.item() == case["cost"].item()
    assert_close(scores.grad, case["grad_cost_scores"])
