"""Where to compute."""

import torch

from scumble.errors import NetworkError


def pick_device(name: str | None = None) -> torch.device:
    """Return the device of that name; without one, cuda where there is one, else cpu."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise NetworkError(f"a device is cpu or cuda, got {name!r}") from error
    if device.type not in ("cpu", "cuda"):
        raise NetworkError(f"a device is cpu or cuda, got {name!r}")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise NetworkError("cuda was asked for, and there is no CUDA device; use cpu")
    return device
