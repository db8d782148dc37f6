"""A trained network that another one learns from, beside the photos."""

import hashlib
from pathlib import Path

import torch
from torch import Tensor, nn

from scumble.checkpoint import load
from scumble.errors import CheckpointError, RecipeError
from scumble.foreign import ENDINGS
from scumble.models import spec_of
from scumble.recipe import TrainSection


class Teacher:
    """Says what a trained network makes of degraded pictures."""

    def __init__(self, network: nn.Module, share: float) -> None:
        self.network = network.eval().requires_grad_(False)
        self.share = share  # of the loss; the photos have the rest

    def __call__(self, degraded: Tensor) -> Tensor:
        """Return the pictures to learn from."""
        with torch.no_grad():
            return self.network(degraded)

    @property
    def digest(self) -> str:
        """Return what changes with any of its weights."""
        digest = hashlib.sha256()
        for name, tensor in self.network.state_dict().items():
            numbers = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
            digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
            digest.update(numbers.numpy().tobytes())
        return digest.hexdigest()


def read_teacher(train: TrainSection, scale: int, device: torch.device) -> Teacher | None:
    """Return the teacher that a recipe names; None if it names none."""
    start = train.teacher
    if start is None:
        return None
    if Path(start).suffix in ENDINGS:
        raise RecipeError(
            f"train.teacher needs a file that says which network it holds, got {start}; "
            f"load it into its network, and scumble.save that"
        )
    try:
        network = load(start)
    except CheckpointError as error:
        raise RecipeError(
            f"train.teacher: {error}; give a trained network by --set train.teacher=FILE"
        ) from error
    spec = spec_of(network)
    assert spec is not None
    if spec.arguments["scale"] != scale:
        raise RecipeError(
            f"train.teacher needs to enlarge pictures {scale} times, as the network does, "
            f"but {start} enlarges {spec.arguments['scale']} times"
        )
    network = network.float().to(device).to(memory_format=torch.channels_last)  # pyright: ignore
    return Teacher(network, train.teaching)
