"""All machine code of this process: made once, loaded once, found by name."""

import threading
from functools import cache
from typing import Protocol

from scumble.engines.cpu.cache import build_key, recall, remember
from scumble.engines.cpu.compiler import Library, to_object
from scumble.engines.cpu.target import Target


class Kernel(Protocol):
    """Something that can say its own code."""

    @property
    def name(self) -> str:
        """Return a name that says all that the code depends on, but the target."""
        ...

    def assembly(self, target: Target) -> str:
        """Return LLVM assembly of one function of that name."""
        ...


class Kernels:
    """The kernels for one target."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._library = Library(target)
        self._known: dict[str, int] = {}
        self._lock = threading.Lock()

    def address(self, kernel: Kernel) -> int:
        """Return where a kernel's function is, after making it if need be."""
        with self._lock:
            found = self._known.get(kernel.name)
            if found is None:
                self._library.add([self._code(kernel)])
                found = self._known[kernel.name] = self._library.function(kernel.name)
            return found

    def _code(self, kernel: Kernel) -> bytes:
        """Return a kernel's object file, as remembered or new."""
        name = f"code-{build_key(self.target)}/{kernel.name}.o"
        code = recall(name)
        if code is None:
            code = to_object(kernel.assembly(self.target), self.target)
            remember(name, code)
        return code


@cache
def kernels(target: Target) -> Kernels:
    """Return the kernels of this process for a target."""
    return Kernels(target)
