"""Running a few calls of a captured network in PyTorch."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves

from scumble.engines.cpu.calls import Scope


def is_number(node: fx.Node) -> bool:
    """Return whether a call gives numbers, such as a height, and no tensors."""
    return not any(isinstance(leaf, Tensor) for leaf in tree_leaves(node.meta.get("val")))


def values_behind(node: fx.Node, scope: Scope) -> Iterator[fx.Node]:
    """Yield the values that a call needs, also those of which it only needs the size."""
    for given in node.all_input_nodes:
        if given in scope.program.constants:
            continue
        if is_number(given):
            yield from values_behind(given, scope)
        else:
            yield scope.resolved(given)


class TorchRun:
    """Calls to run one after the other, from some values to others, all known by name."""

    def __init__(
        self,
        calls: Sequence[fx.Node],
        scope: Scope,
        inputs: Sequence[str],
        outputs: Sequence[str],
    ) -> None:
        self.inputs, self.outputs = inputs, outputs
        self._same = scope.same
        self._calls = [*_with_numbers(calls, scope)]
        self._constants: dict[str, Any] = {}
        for call in self._calls:
            for given in call.all_input_nodes:
                if given in scope.program.constants:
                    self._constants[given.name] = scope.program.constants[given].value
        self._last_uses = _last_uses(self._calls, self._name, {*outputs, *self._constants})

    def __call__(self, *values: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs that the calls make of the inputs."""
        known: dict[str, Any] = dict(self._constants)
        # What was captured was captured of values in one piece of memory.
        known |= {name: one.contiguous() for name, one in zip(self.inputs, values, strict=True)}
        with torch.no_grad():
            for call, finished in zip(self._calls, self._last_uses, strict=True):
                given = map_arg((call.args, call.kwargs), lambda one: known[self._name(one)])
                known[call.name] = call.target(*given[0], **given[1])  # pyright: ignore
                for name in finished:
                    del known[name]
        taken = {_memory(value) for value in values}
        results = (known[name].contiguous() for name in self.outputs)
        return tuple(one.clone() if _memory(one) in taken else one for one in results)

    def _name(self, node: fx.Node) -> str:
        return self._same.get(node, node).name


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _with_numbers(calls: Sequence[fx.Node], scope: Scope) -> Iterator[fx.Node]:
    """Yield the calls, each after those that compute the numbers it needs."""
    done: set[fx.Node] = set()

    def numbers(node: fx.Node) -> Iterator[fx.Node]:
        for given in node.all_input_nodes:
            known = given in done or given in scope.program.constants
            if not known and is_number(given):
                yield from numbers(given)
                done.add(given)
                yield given

    for call in calls:
        yield from numbers(call)
        yield call


def _last_uses(
    calls: Sequence[fx.Node], name_of: Callable[[fx.Node], str], kept: Collection[str]
) -> list[list[str]]:
    """Return for every call the values that nobody needs after it."""
    seen = {*kept}
    found: list[list[str]] = []
    for call in reversed(calls):
        names = dict.fromkeys([call.name, *map(name_of, call.all_input_nodes)])
        found.append([name for name in names if name not in seen])
        seen.update(names)
    return found[::-1]
