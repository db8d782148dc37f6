import pytest
import torch

from scumble.recipe import TrainSection
from scumble.training.ema import Ema
from scumble.training.schedule import learning_rate


def test_the_papers_schedule_halves_once_at_two_thirds():
    train = TrainSection(steps=300, lr=1e-4)
    rates = [learning_rate(train, step) for step in range(300)]
    assert rates[:200] == [1e-4] * 200
    assert rates[200:] == [5e-5] * 100


def test_a_cosine_falls_from_the_full_rate_to_a_hundredth():
    train = TrainSection(steps=100, lr=1.0, schedule="cosine")
    rates = [learning_rate(train, step) for step in range(101)]
    assert rates[0] == 1.0
    assert rates[50] == pytest.approx(0.505)
    assert rates[100] == pytest.approx(0.01)
    assert rates == sorted(rates, reverse=True)


def test_a_warm_up_rises_to_the_full_rate():
    train = TrainSection(steps=100, lr=1.0, warmup=4)
    assert [learning_rate(train, step) for step in range(5)] == [0.25, 0.5, 0.75, 1.0, 1.0]


def test_the_average_follows_the_weights():
    network = torch.nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        network.weight.fill_(1.0)
    ema = Ema(network, decay=0.75)
    with torch.no_grad():
        network.weight.fill_(5.0)
    ema.update()
    assert ema.averaged(network).weight.item() == 2.0
    assert network.weight.item() == 5.0
