"""The hash of a network's code: what changes it and what does not."""

import copy
import enum
import functools
import math
from abc import ABC
from dataclasses import dataclass
from typing import Generic, TypeVar

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import scumble
from scumble.engines.cpu.fingerprint import fingerprint

FACTOR = 2
T = TypeVar("T")


def doubled(x):
    return x * FACTOR


@dataclass(frozen=True)
class Settings:
    slope: float

    def double(self):
        return self.slope * 2


class Colour(enum.Enum):
    RED = 1


class Block(nn.Module):
    scale = 1.5

    def __init__(self, **own):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        for name, value in own.items():
            setattr(self, name, value)

    def forward(self, x):
        return self.shown(self.conv(x)) * self.scale

    def shown(self, x):
        return doubled(x)


def of(code, **names):
    """Return a class whose ``forward`` is the given code."""
    space = {"nn": nn, "F": F, "math": math, **names}
    text = "class Net(nn.Module):\n    def forward(self, x):\n        " + code
    exec(text, space)
    return space["Net"]()


def test_the_same_network_has_the_same_fingerprint():
    network = scumble.build("carn-x2", features=8)
    assert fingerprint(network) is not None
    assert fingerprint(network) == fingerprint(copy.deepcopy(network))
    assert fingerprint(network) == fingerprint(scumble.build("carn-x2", features=8))


def test_weights_do_not_change_it():
    network = Block()
    before = fingerprint(network)
    with torch.no_grad():
        network.conv.weight.zero_()
    assert fingerprint(network) == before


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("return x + 1", "return x + 2"),
        ("return x + 1", "return x - 1"),
        ("return F.relu(x)", "return F.gelu(x)"),
        ("return [y for y in (x, x + 1)][0]", "return [y for y in (x, x + 2)][0]"),
        ("return (lambda y: y + 1)(x)", "return (lambda y: y + 2)(x)"),
        ("return x if 'a' in {'a', 'b'} else -x", "return x if 'a' in {'c', 'b'} else -x"),
    ],
)
def test_code_changes_it(one, other):
    assert fingerprint(of(one)) == fingerprint(of(one))
    assert fingerprint(of(one)) != fingerprint(of(other))


def test_constants_and_functions_that_code_names_change_it():
    assert fingerprint(of("return x * K", K=2)) != fingerprint(of("return x * K", K=3))
    one = of("return f(x)", f=lambda x: x + 1)
    assert fingerprint(one) != fingerprint(of("return f(x)", f=lambda x: x + 2))


def closed_over(value):
    return lambda x: x * value


def test_defaults_and_closures_change_it():
    assert fingerprint(Block(f=closed_over(1))) != fingerprint(Block(f=closed_over(2)))
    one = Block(f=functools.partial(doubled, 1))
    assert fingerprint(one) != fingerprint(Block(f=functools.partial(doubled, 2)))


def test_a_method_or_a_number_of_a_class_changes_it(monkeypatch):
    before = fingerprint(Block())
    monkeypatch.setattr(Block, "shown", lambda self, x: x)
    changed = fingerprint(Block())
    assert changed != before
    monkeypatch.setattr(Block, "scale", 2.5)
    assert fingerprint(Block()) not in (before, changed)


def test_a_method_of_an_ancestor_changes_it(monkeypatch):
    class Child(Block):
        pass

    before = fingerprint(Child())
    monkeypatch.setattr(Block, "shown", lambda self, x: x)
    assert fingerprint(Child()) != before


OWN = [
    (1, 2),
    (1, 1.0),
    (1, True),
    ("a", "b"),
    (None, 0),
    ((1, 2), (2, 1)),
    ([1], [1, 1]),
    ([[1], 2], [[1, 2]]),
    ({"a": 1}, {"a": 2}),
    ({"a": 1}, {"b": 1}),
    ({1, 2}, {1, 3}),
    (Settings(0.1), Settings(0.2)),
    (Colour.RED, None),
    (torch.float32, torch.float64),
    (range(2), range(3)),
    (torch.relu, torch.sigmoid),
    (F.relu, F.gelu),
    (nn.ReLU, nn.GELU),
    (int, float),
    (Colour, Settings),
    (torch.zeros(2), torch.ones(2)),
    (torch.zeros(2), torch.zeros(2, 1)),
    (torch.zeros(2), torch.zeros(2, dtype=torch.bfloat16)),
]


@pytest.mark.parametrize(("one", "other"), OWN, ids=range(len(OWN)))
def test_what_a_module_has_of_its_own_changes_it(one, other):
    assert fingerprint(Block(own=one)) is not None
    assert fingerprint(Block(own=one)) == fingerprint(Block(own=one))
    assert fingerprint(Block(own=one)) != fingerprint(Block(own=other))


def test_shapes_types_and_names_of_tensors_change_it():
    def network(buffer, name="buffer"):
        block = Block()
        block.register_buffer(name, buffer, persistent=False)
        return fingerprint(block)

    prints = {
        network(torch.zeros(2)),
        network(torch.zeros(2, 1)),
        network(torch.zeros(2, dtype=torch.float64)),
        network(torch.zeros(2), "other"),
        fingerprint(Block()),
    }
    assert len(prints) == 5


def test_sharing_a_layer_changes_it():
    one, other = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1)
    assert fingerprint(nn.Sequential(one, one)) != fingerprint(nn.Sequential(one, other))
    tied = copy.deepcopy(other)
    tied.weight = one.weight
    assert fingerprint(nn.Sequential(one, tied)) != fingerprint(nn.Sequential(one, other))


def test_the_options_of_a_layer_change_it():
    assert fingerprint(nn.Conv2d(3, 3, 3)) != fingerprint(nn.Conv2d(3, 3, 3, stride=2))
    assert fingerprint(nn.LeakyReLU(0.1)) != fingerprint(nn.LeakyReLU(0.2))


class Odd:
    """It may hold anything."""


def endless():
    several = []
    several.append(several)
    return several


@pytest.mark.parametrize(
    "own",
    [Odd(), [nn.ReLU()], Block().forward, endless(), torch.zeros(2).to_sparse(), torch.Generator()],
)
def test_objects_that_nobody_knows_leave_it_open(own):
    assert fingerprint(Block(own=own)) is None


def test_ancestors_of_python_s_own_are_known():
    class Abstract(Block, Generic[T], ABC):
        pass

    assert fingerprint(Abstract()) is not None


def test_hooks_leave_it_open():
    for register in ("register_forward_hook", "register_forward_pre_hook"):
        block = Block()
        getattr(block.conv, register)(lambda *_: None)
        assert fingerprint(block) is None
