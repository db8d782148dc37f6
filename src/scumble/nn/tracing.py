"""What a network costs, found by running it on shapes alone."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.conv import _ConvNd
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.hooks import RemovableHandle

from scumble.core.cost import LayerCost, NetworkCost
from scumble.core.pattern import Pattern
from scumble.errors import NetworkError
from scumble.nn.gate_table import GateTable
from scumble.nn.surgery import patterns

aten = torch.ops.aten

# What the paper's counter adds up besides convolutions: these, where they are modules. It cannot
# see a functional call, such as the activation behind each residual sum of CARN.
COUNTED_ACTIVATIONS = (nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.ELU)


def trace(network: nn.Module, size: tuple[int, int]) -> NetworkCost:
    """Return the cost of ``network`` on one RGB picture of height x width; nothing is computed."""
    device = next((p.device for p in network.parameters()), torch.device("cpu"))
    record = _Record(patterns(network))
    try:
        with (
            torch.no_grad(),
            sdpa_kernel(SDPBackend.MATH),
            _quiet("torch._subclasses.fake_tensor"),
            FakeTensorMode(allow_non_fake_inputs=True),
            _evaluating(network),
            _following(network, record),
            record,
        ):
            network(torch.empty(1, 3, *size, device=device))
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise NetworkError(
            f"{type(network).__name__} cannot be run on an RGB picture of "
            f"{size[1]}x{size[0]}: {reason}"
        ) from error
    layers = tuple(record.layers.values())
    total = sum(parameter.numel() for parameter in network.parameters())
    in_layers = sum(layer.dense_parameters for layer in layers)
    return NetworkCost(layers, record.activations, total - in_layers - _scores(network))


def _scores(network: nn.Module) -> int:
    """Return how many parameters only serve the search for patterns."""
    tables = (module for module in network.modules() if isinstance(module, GateTable))
    return sum(parameter.numel() for table in tables for parameter in table.parameters())


class _Record(TorchDispatchMode):
    """Writes down every product of a weight while a network runs."""

    def __init__(self, patterns: dict[str, Pattern]) -> None:
        super().__init__()
        self.patterns = patterns
        self.layers: dict[tuple[str, tuple[int, ...]], LayerCost] = {}
        self.activations = 0
        self.inside: list[tuple[str, nn.Module]] = []

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        match func.overloadpacket:
            case aten.convolution:
                self._convolution(args[0], args[1], args[2], bool(args[6]), result)
            case aten.mm | aten.bmm:
                self._product(args[0], args[1])
            case aten.addmm | aten.baddbmm:
                self._product(args[1], args[2])
            case _:
                pass
        return result

    def _convolution(
        self, image: Tensor, weight: Tensor, bias: Tensor | None, transposed: bool, result: Tensor
    ) -> None:
        name, module = self.inside[-1]
        learned = isinstance(module, _ConvNd) or isinstance(weight, nn.Parameter)
        kind = "conv_transpose" if transposed else "conv" if learned else "dynamic_conv"
        grid = image if transposed else result
        positions = grid.shape[0] * prod(grid.shape[2:])
        biases = 0 if bias is None else bias.numel()
        self._add(
            LayerCost(name, kind, tuple(weight.shape), positions, biases, self.patterns.get(name))
        )

    def _product(self, left: Tensor, right: Tensor) -> None:
        name, module = self.inside[-1]
        shape, positions = (right.shape[-1], right.shape[-2]), prod(left.shape[:-1])
        if isinstance(module, nn.Linear):
            biases = 0 if module.bias is None else module.bias.numel()
            self._add(LayerCost(name, "linear", shape, positions, biases))
        else:
            self._add(LayerCost(name, "matmul", shape, positions, 0))

    def _add(self, layer: LayerCost) -> None:
        key = layer.name, layer.shape
        before = self.layers.get(key)
        positions = layer.positions + (before.positions if before else 0)
        self.layers[key] = replace(layer, positions=positions)


@contextmanager
def _following(network: nn.Module, record: _Record) -> Iterator[None]:
    """Keep ``record`` informed of the module that runs and of what activations put out."""
    hooks: list[RemovableHandle] = []

    def enter(name: str, module: nn.Module) -> Callable[..., None]:
        return lambda *_: record.inside.append((name, module))

    def leave(module: nn.Module, _: object, result: object) -> None:
        record.inside.pop()
        if isinstance(module, COUNTED_ACTIVATIONS) and isinstance(result, Tensor):
            record.activations += result.numel()

    try:
        for name, module in network.named_modules():
            hooks.append(module.register_forward_pre_hook(enter(name, module)))
            hooks.append(module.register_forward_hook(leave))
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Keep a logger from printing the traceback of an error that we report ourselves."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def _evaluating(network: nn.Module) -> Iterator[None]:
    """Put every module into evaluation mode, and afterwards back into its own."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
