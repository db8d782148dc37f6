"""The formats that networks are exported to."""

from abc import ABC, abstractmethod
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from torch import nn

from scumble.errors import ExportError
from scumble.exports.comparison import Run
from scumble.exports.facts import Facts
from scumble.registry import Registry


class Format(ABC):
    """One way to write a network for other programs."""

    name: ClassVar[str]
    endings: ClassVar[tuple[str, ...]]  # the first is the usual one
    to_write: ClassVar[tuple[str, ...]] = ()  # libraries that it takes
    to_verify: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def content(self, network: nn.Module, facts: Facts) -> bytes:
        """Return the file of a network in float32 on the CPU, which is ready to evaluate."""

    @abstractmethod
    def opened(self, content: bytes, network: nn.Module) -> Run:
        """Return what is in a file, ready to run; ``network`` is an equal one to be filled."""

    def check_libraries(self, verify: bool) -> None:
        """Refuse what would take a library that is not installed."""
        for libraries, work in ((self.to_write, "exporting to"), (self.to_verify, "verifying")):
            for library in libraries if verify or libraries is self.to_write else ():
                if find_spec(library) is None:
                    raise ExportError(
                        f"{work} {self.name} needs {library}, which is not installed; "
                        f"pip install scumble[export]"
                    )


FORMATS: Registry[Format] = Registry("format")


def format_for(path: Path, name: str | None) -> Format:
    """Return the format that was named, which has to fit the file's ending, or that it tells."""
    if name is None:
        found = next((FORMATS[one] for one in FORMATS if _fits(FORMATS[one], path)), None)
        if found is None:
            endings = [ending for one in FORMATS for ending in FORMATS[one].endings]
            raise ExportError(f"{path} needs to end in {_either(endings)}; name it so")
        return found
    wanted = FORMATS[name]
    if not _fits(wanted, path):
        raise ExportError(
            f"{path} needs to end in {_either(wanted.endings)} to hold format {name}; "
            f"name it so, or choose another format"
        )
    return wanted


def _fits(one: Format, path: Path) -> bool:
    return path.suffix.lower() in one.endings


def _either(words: list[str] | tuple[str, ...]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
