"""A hash of all that decides which operators a network runs: its code and numbers, not weights."""

import builtins
import enum
import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, cast

import torch
from torch import Tensor, nn

from scumble.version import __version__

FORMAT = 1

_OF_EVERY_MODULE = {*vars(nn.Module())} - {"training"}
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class _Unknown(Exception):  # noqa: N818 (no error: a network that nothing is remembered of)
    """An object that may hold anything."""


def fingerprint(network: nn.Module) -> str | None:
    """Return a hash that changes when a network might run other operators.

    None if it holds objects, or hooks, of which nobody knows what they do. Weights count by name,
    shape and type only. Not all that code can reach is seen, such as classes that it makes objects
    of: whoever uses the hash still has to compare results.
    """
    digest = hashlib.sha256()
    try:
        for part in _parts(network):
            digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    except (_Unknown, RecursionError, RuntimeError, ValueError):  # or an object that resists
        return None
    return digest.hexdigest()


def _parts(network: nn.Module) -> Iterator[str]:
    yield f"{FORMAT} {__version__} {torch.__version__} {sys.version}"
    yield repr(network)
    first_names: dict[int, str] = {}
    for name, tensor in _tensors(network):
        shared = first_names.setdefault(id(tensor), name)
        yield f"{name} {shared} {tuple(tensor.shape)} {tensor.dtype}"
    described = _Described()
    named = cast(Any, network).named_modules(remove_duplicate=False)
    for name, module in cast(Iterable[tuple[str, nn.Module]], named):
        if any(getattr(module, hooks) for hooks in _HOOKS):
            raise _Unknown
        yield f"{name} {first_names.setdefault(id(module), name)}"
        yield from described.of_class(type(module))
        own = {key: value for key, value in vars(module).items() if key not in _OF_EVERY_MODULE}
        yield from described.of(own)


def _tensors(network: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from network.named_parameters(remove_duplicate=False)
    yield from network.named_buffers(remove_duplicate=False)


class _Described:
    """Objects as text; functions and classes once."""

    def __init__(self) -> None:
        self.seen: set[object] = set()

    def of(self, value: Any) -> Iterator[str]:
        """Yield all that an object is made of."""
        match value:
            case None | bool() | int() | float() | complex() | str() | bytes():
                yield f"{type(value).__name__} {value!r}"
            case enum.Enum() | torch.dtype() | torch.device() | torch.memory_format() | range():
                yield repr(value)
            case tuple() | list():
                yield f"{len(cast(list[Any], value))} items"
                yield from self._each(cast(list[Any], value))
            case set() | frozenset():
                yield from sorted(" ".join(self.of(one)) for one in cast(set[Any], value))
            case Mapping():
                items = cast(Mapping[Any, Any], value).items()
                yield f"{len(items)} items"
                yield from self._each(part for item in items for part in item)
            case Tensor():
                flat = value.detach().cpu().contiguous().flatten()
                numbers = flat.view(torch.uint8).numpy().tobytes()
                yield f"{tuple(value.shape)} {value.dtype} {hashlib.sha256(numbers).hexdigest()}"
            case partial():
                yield from self.of((value.func, value.args, value.keywords))
            case FunctionType():
                yield from self._function(value)
            case type():
                yield from self.of_class(value)
            case CodeType():
                yield from self._code(value)
            case staticmethod() | classmethod():
                yield from self.of(cast(Any, value).__func__)
            case property():
                yield from self._each((value.fget, value.fset))
            case BuiltinFunctionType() | ModuleType():
                yield f"{value.__name__} {getattr(value, '__module__', None)}"
            case _ if is_dataclass(value):
                yield from self.of_class(type(value))
                yield from self._each(getattr(value, field.name) for field in fields(value))
            case _:
                raise _Unknown

    def _each(self, values: Iterable[object]) -> Iterator[str]:
        for value in values:
            yield from self.of(value)

    def of_class(self, kind: type) -> Iterator[str]:
        """Yield the code of a class and of those it derives from, up to PyTorch's own."""
        yield f"{kind.__module__}.{kind.__qualname__}"
        for ancestor in kind.__mro__:
            if ancestor in self.seen or _told_by_version(ancestor):
                continue
            self.seen.add(ancestor)
            made = "__dataclass_fields__" in vars(ancestor)  # its methods are, of its fields
            for name, value in vars(ancestor).items():
                own = isinstance(value, FunctionType) and not made
                if own or not name.startswith(("__", "_abc_")):
                    yield name
                    yield from self.of(value)

    def _function(self, function: FunctionType) -> Iterator[str]:
        yield f"{function.__module__}.{function.__qualname__}"
        if function in self.seen or _told_by_version(function):
            return
        self.seen.add(function)
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        yield from self._each((function.__code__, function.__defaults__, cells))
        yield from self.of(function.__kwdefaults__)
        for name in function.__code__.co_names:
            named = function.__globals__.get(name)
            if isinstance(named, FunctionType | bool | int | float | str | tuple):
                yield name
                yield from self.of(named)

    def _code(self, code: CodeType) -> Iterator[str]:
        yield f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {code.co_freevars}"
        yield from self._each(code.co_consts)


def _told_by_version(value: type | FunctionType) -> bool:
    """Return whether something is Python's or PyTorch's own."""
    home = str(value.__module__).partition(".")[0]
    if home == "builtins":  # or so it says: code made from text does
        return getattr(builtins, value.__name__, None) is value
    return home == "torch" or home in sys.stdlib_module_names
