"""Weights in files of torch's own, which are pickles: no code in them is run."""

import pickle
import textwrap
import warnings
from io import BytesIO
from pathlib import Path

import torch
from torch import Tensor

from scumble.sealed import read_bytes, refusal
from scumble.state_dicts import oddity

ENDINGS = (".pth", ".pt", ".ckpt")

# Where training scripts of others keep the state dict inside their file.
_NESTS = ("params_ema", "params", "state_dict", "model")


def read_torch(path: Path) -> dict[str, Tensor]:
    """Return the state dict in a file of torch's, after checking that it holds plain tensors."""
    raw = read_bytes(path)
    if not raw:
        raise refusal(f"{path} is not a whole file of torch's: it is empty")
    state = _state_dict(_content(path, raw))
    if state is None:
        raise refusal(f"{path} needs to hold a state dict of tensors, got something else")
    for key, value in state.items():
        found = oddity(value) if isinstance(key, str) else f"a key that is a {type(key).__name__}"
        if found:
            raise refusal(f"{path} needs to hold plain tensors by name, got {found} at {key!r}")
        # A damaged size makes torch grow the memory behind a tensor, and leave it unwritten.
        if value.untyped_storage().nbytes() > len(raw):
            raise refusal(f"{path} is not a whole file of torch's: {key!r} is larger than it")
    return state


def _content(path: Path, raw: bytes) -> object:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about unusual pickles; what matters is refused below
            return torch.load(BytesIO(raw), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise refusal(
            f"{path} is damaged or holds more than tensors, such as code to run; "
            f"nothing of it was executed; save its state_dict instead"
        ) from error
    # This parser is not ours, and damaged files make it fail in every way there is: AssertionError,
    # IndexError, struct.error and more were seen. None of ours runs inside.
    except Exception as error:
        raise refusal(f"{path} is not a whole file of torch's: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """Return the first sentence of a long message; the kind of error if it needs that to speak."""
    said = " ".join(str(error).split()).partition(". ")[0].removesuffix(".")
    if not isinstance(error, RuntimeError) or not said:
        said = f"{type(error).__name__} {said}".strip()
    return textwrap.shorten(said, 160, placeholder=" …")


def _state_dict(content: object) -> dict[str, Tensor] | None:
    """Return the state dict, which may lie one level down; None if there is none."""
    if isinstance(content, dict):
        nest = next((name for name in _NESTS if name in content), None)
        content = content if nest is None else content[nest]
    return content if isinstance(content, dict) else None
