"""Running what was captured of a network, and comparing it with the network."""

import copy

import torch
from torch import Tensor, nn

from scumble.engines.cpu.capture import capture
from scumble.engines.cpu.pieces import Captured, NativePiece, TorchPiece
from scumble.engines.graph import sizes
from scumble.engines.interpret import interpret


class Does(nn.Module):
    """A network that does what a function says, with the parts that it is given."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.function(self, x)


def run(captured: Captured, picture: Tensor) -> Tensor:
    """Return what the pieces make of a picture, one after the other."""
    values = {captured.input: picture}
    for piece in captured.pieces:
        if isinstance(piece, NativePiece):
            given = {name: values[name] for name in piece.graph.inputs}
            values |= interpret(piece.graph, piece.weights, given)
            check_sizes(piece, given, values)
        else:
            given = [values[name] for name in piece.inputs]
            values |= dict(zip(piece.outputs, piece.run(*given), strict=True))
    return values[captured.output]


def check_sizes(piece: NativePiece, given: dict[str, Tensor], values: dict[str, Tensor]) -> None:
    found = sizes(piece.graph, {name: tuple(one.shape[2:]) for name, one in given.items()})
    for name in piece.graph.outputs:
        assert tuple(values[name].shape[1:]) == found[name]


@torch.no_grad()
def assert_same(captured: Captured, network: nn.Module, *sides: tuple[int, int]) -> None:
    """Check pieces against the network, on pictures of some heights and widths."""
    network = copy.deepcopy(network).eval()
    for height, width in sides or ((33, 47), (64, 48), (18, 16)):
        assert captured.holds(height, width)
        picture = torch.rand(1, captured.channels, height, width) - 0.2
        torch.testing.assert_close(run(captured, picture), network(picture.clone()))


def captured_same(network: nn.Module, *sides: tuple[int, int]) -> Captured:
    """Return what was captured of a network, after checking that it does the same."""
    captured = capture(network)
    assert_same(captured, network, *sides)
    return captured


def only_graph(captured: Captured) -> NativePiece:
    """Return the one piece of a network that the graph expresses as a whole."""
    (piece,) = captured.pieces
    assert isinstance(piece, NativePiece)
    return piece


def operations(captured: Captured) -> list[str]:
    """Return the names of the operations of a network that is one piece."""
    return [type(node.operation).__name__ for node in only_graph(captured).graph.nodes]


def reasons(captured: Captured) -> list[str]:
    """Return why parts of a network are left to PyTorch."""
    return [piece.reason for piece in captured.pieces if isinstance(piece, TorchPiece)]
