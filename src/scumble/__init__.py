"""Scumble: make image-restoration networks small and fast with learned N:M sparsity."""

from importlib import import_module
from typing import TYPE_CHECKING

from scumble.version import __version__

if TYPE_CHECKING:
    from scumble.checkpoint import load, read_info, save
    from scumble.core.budget import Budget
    from scumble.core.pattern import Pattern
    from scumble.engines import compile
    from scumble.errors import ScumbleError
    from scumble.exports import export
    from scumble.inspection import inspect
    from scumble.methods import SLS, Filter, OneShot, SrSte, finalize, sparsify
    from scumble.models import build
    from scumble.restore import Restorer

# Each name is imported on first use, so that `scumble --help` does not wait for torch.
_HOMES = {
    "Budget": "scumble.core.budget",
    "Filter": "scumble.methods",
    "OneShot": "scumble.methods",
    "Pattern": "scumble.core.pattern",
    "Restorer": "scumble.restore",
    "SLS": "scumble.methods",
    "ScumbleError": "scumble.errors",
    "SrSte": "scumble.methods",
    "build": "scumble.models",
    "compile": "scumble.engines",
    "export": "scumble.exports",
    "finalize": "scumble.methods",
    "inspect": "scumble.inspection",
    "load": "scumble.checkpoint",
    "read_info": "scumble.checkpoint",
    "save": "scumble.checkpoint",
    "sparsify": "scumble.methods",
}

__all__ = [
    "SLS",
    "Budget",
    "Filter",
    "OneShot",
    "Pattern",
    "Restorer",
    "ScumbleError",
    "SrSte",
    "__version__",
    "build",
    "compile",
    "export",
    "finalize",
    "inspect",
    "load",
    "read_info",
    "save",
    "sparsify",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'scumble' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
