"""Whole networks against PyTorch: every network, pattern, vector width and odd size."""

import itertools

import pytest
import torch
from torch import Tensor, nn

import scumble
from scumble.bench import prune_layers
from scumble.engines.cpu.target import VARIABLE, available
from scumble.nn.surgery import choose

pytestmark = pytest.mark.slow


LARGEST_ERROR = 1e-5  # of the range of the output

NETWORKS = {
    "edsr": {"features": 32, "blocks": 2},
    "carn": {"features": 32},
    "rfdn": {"features": 32, "attention": 8, "blocks": 2},
}
PATTERNS = ("dense", "1:32", "2:32", "4:32", "mixed", "2:4")
# Smaller and larger than a vector, a tile and a block of rows; nothing divides them all.
SIZES = ((1, 1), (1, 7), (2, 3), (5, 1), (17, 16), (33, 15), (31, 64), (97, 101))
SMALLEST = {"edsr": 1, "carn": 1, "rfdn": 15}  # a side that the network runs on


def lively(name: str, **arguments: int) -> nn.Module:
    """A network whose layers all matter: fresh ones make pictures of nearly one colour."""
    network = scumble.build(name, **arguments)
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=1.2 * max(1, parameter[0].numel()) ** -0.5)
    return network.eval()


def pruned(network: nn.Module, pattern: str) -> nn.Module:
    if pattern == "dense":
        return network
    if pattern == "mixed":
        layers = len(choose(network, 32))
        return prune_layers(network, [1 + 10 * layer % 32 for layer in range(layers)])
    n, m = map(int, pattern.split(":"))
    return prune_layers(network, [n] * len(choose(network, m)), m)


def picture(kind: int, height: int, width: int) -> Tensor:
    """One or two pictures, in memory as they come: plain, channels last, cut out, mirrored."""
    match kind % 4:
        case 0:
            return torch.rand(1, 3, height, width)
        case 1:
            return torch.rand(2, 3, height, width).contiguous(memory_format=torch.channels_last)
        case 2:
            return torch.rand(1, 4, 2 * height + 1, width + 3)[:, 1:, ::2][:, :, :height, 2:-1]
        case _:
            return torch.rand(2, 3, width, height).transpose(2, 3)


@torch.no_grad()
def error(engine, network: nn.Module, given: Tensor) -> float:
    before = given.clone()
    made, wanted = engine(given), network(given)
    assert made.shape == wanted.shape
    assert made.dtype == torch.float32
    assert torch.equal(given, before)
    return float((made - wanted).abs().max() / (wanted.max() - wanted.min()))


CASES = [
    pytest.param(index, name, scale, pattern, id=f"{name}-x{scale}-{pattern}")
    for index, ((name, scale), pattern) in enumerate(
        itertools.product(itertools.product(NETWORKS, (2, 3, 4)), PATTERNS)
    )
]


@pytest.mark.parametrize(("index", "name", "scale", "pattern"), CASES)
def test_an_engine_makes_what_the_network_makes(index, name, scale, pattern, monkeypatch):
    # Widths take turns along networks and along patterns, threads and halves of the sizes faster.
    widths = available()
    row, column = divmod(index, len(PATTERNS))
    monkeypatch.setenv(VARIABLE, widths[(row + column) % len(widths)].name)
    network = pruned(lively(f"{name}-x{scale}", **NETWORKS[name]), pattern)
    engine = scumble.compile(network, "cpu", threads=1 + (row + column // 3) % 2)
    for kind, (height, width) in enumerate(SIZES[(row + column) % 2 :: 2], start=index):
        sides = [max(side, SMALLEST[name]) for side in (height, width)]
        found = error(engine, network, picture(kind, *sides))
        assert found <= LARGEST_ERROR, sides


@pytest.mark.parametrize("width", available(), ids=lambda one: one.name)
@pytest.mark.parametrize(
    ("name", "pattern", "size"),
    [("edsr-x4", "mixed", (97, 101)), ("carn-x3", "2:32", (31, 64)), ("rfdn-x2", "1:32", (64, 49))],
)
def test_full_networks_are_as_exact(name, pattern, size, width, monkeypatch):
    monkeypatch.setenv(VARIABLE, width.name)
    network = pruned(lively(name), pattern)
    engine = scumble.compile(network, "cpu", threads=2)
    assert error(engine, network, picture(0, *size)) <= LARGEST_ERROR


@pytest.mark.parametrize(
    ("name", "arguments", "size"),
    [
        ("edsr-x2", {"features": 8, "blocks": 1}, (517, 1031)),
        ("rfdn-x2", {"features": 8, "attention": 4, "blocks": 1}, (1031, 517)),
        ("carn-x2", {"features": 32}, (3, 3001)),
        ("edsr-x3", {"features": 32, "blocks": 1}, (2003, 5)),
    ],
)
def test_large_and_narrow_pictures_are_as_exact(name, arguments, size):
    network = pruned(lively(name, **arguments), "2:4")
    engine = scumble.compile(network, "cpu", threads=2)
    assert error(engine, network, picture(0, *size)) <= LARGEST_ERROR


def test_sizes_may_come_in_any_order():
    network = pruned(lively("carn-x2", features=32), "2:32")
    engine = scumble.compile(network, "cpu", threads=2)
    given = [picture(kind, *size) for kind, size in enumerate(SIZES)]
    first = [engine(one) for one in given]
    for at in (7, 0, 3, 7, 1, 6, 0, 2):
        assert torch.equal(engine(given[at]), first[at])


def test_an_engine_keeps_the_weights_that_it_was_compiled_with():
    network = lively("edsr-x2", features=32, blocks=1)
    engine = scumble.compile(network, "cpu", threads=1)
    given = picture(0, 9, 11)
    before = engine(given)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
    assert torch.equal(engine(given), before)


@pytest.mark.parametrize("number", [torch.nan, torch.inf])
@pytest.mark.parametrize(
    ("name", "width"),
    [pytest.param(*pair, id=pair[0]) for pair in zip(NETWORKS, itertools.cycle(available()))],
)
@torch.no_grad()
def test_numbers_that_are_none_spread_as_in_pytorch(name, number, width, monkeypatch):
    monkeypatch.setenv(VARIABLE, width.name)
    network = lively(f"{name}-x2", **NETWORKS[name])
    given = picture(0, 40, 71)
    given[0, 1, 20, 33] = number
    made = scumble.compile(network, "cpu", threads=2)(given)
    wanted = network.double()(given.double())  # plain sums: Winograd's would spread it further
    assert torch.equal(made.isnan(), wanted.isnan())
    assert torch.equal(made.isinf(), wanted.isinf())


def test_a_number_that_is_none_does_not_vanish_in_a_pruned_network():
    network = pruned(lively("edsr-x2", features=32, blocks=2), "1:32")
    given = picture(0, 20, 20)
    given[0, 1, 10, 10] = torch.nan
    made = scumble.compile(network, "cpu", threads=1)(given)
    assert made[0, :, 20:22, 20:22].isnan().all()
