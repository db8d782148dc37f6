"""LPIPS: Zhang et al., "The Unreasonable Effectiveness of Deep Features", 2018; version 0.1."""

from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from scumble.errors import CheckpointError, MetricError
from scumble.foreign import read_torch
from scumble.state_dicts import differences, not_finite

# Of the pictures on which AlexNet was trained, in -1..1.
MEAN = (-0.030, -0.088, -0.188)
SPREAD = (0.458, 0.448, 0.450)

# After each of these of AlexNet's layers, features are compared: the five activations.
STAGES = (1, 4, 7, 9, 11)
FEATURES = (64, 192, 384, 256, 256)

# Below this, no place is left after AlexNet's stride and its two poolings.
SMALLEST = 31


class Lpips(nn.Module):
    """How different two pictures look, by the features of AlexNet; 0 for equal ones.

    Module names are torchvision's, so that the published weights load as they are.
    """

    mean: Tensor
    spread: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(MEAN).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("spread", torch.tensor(SPREAD).view(1, 3, 1, 1), persistent=False)
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 11, stride=4, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(64, 192, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(192, 384, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(384, 256, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(256, 256, 3, padding=1),
            nn.ReLU(),
        )
        for stage, width in enumerate(FEATURES):
            self.add_module(f"lin{stage}", nn.Conv2d(width, 1, 1, bias=False))

    @classmethod
    def from_file(cls, path: Path) -> "Lpips":
        """Return the metric with the weights of a ``.pth`` file, frozen."""
        metric, weights = cls(), _read(path)
        told = differences(weights, metric.state_dict())
        if told:
            raise CheckpointError(
                f"LPIPS needs AlexNet's five convolutions and five linear layers, "
                f"but {path} has other weights: {told}"
            )
        broken = not_finite(weights)
        if broken:
            raise CheckpointError(f"LPIPS needs finite weights, but {path} has others in {broken}")
        metric.load_state_dict(weights)
        return metric.eval().requires_grad_(False)

    def forward(
        self, restored: Float[Tensor, "b 3 h w"], clean: Float[Tensor, "b 3 h w"]
    ) -> Float[Tensor, " b"]:
        """Return the distance of each pair of RGB pictures in 0..1."""
        if restored.shape != clean.shape or restored.ndim != 4 or restored.shape[1] != 3:
            raise MetricError(
                f"LPIPS needs two batches of RGB pictures [B, 3, H, W] of the same shape, "
                f"got {list(restored.shape)} and {list(clean.shape)}"
            )
        height, width = clean.shape[2:]
        if min(height, width) < SMALLEST:
            raise MetricError(
                f"LPIPS needs pictures of at least {SMALLEST}x{SMALLEST} pixels, "
                f"got {width}x{height}"
            )
        total = restored.new_zeros(len(restored))
        for stage, (seen, wanted) in enumerate(
            zip(self._directions(restored), self._directions(clean), strict=True)
        ):
            weighed = self.get_submodule(f"lin{stage}")((seen - wanted).square())
            total = total + weighed.mean(dim=(1, 2, 3))
        return total

    def _directions(self, image: Tensor) -> list[Tensor]:
        """Return the features of every stage, scaled to length 1 at every place."""
        x = (2 * image - 1 - self.mean) / self.spread
        stages: list[Tensor] = []
        for index, layer in enumerate(self.features):
            x = layer(x)
            if index in STAGES:
                length = torch.linalg.vector_norm(x, dim=1, keepdim=True)
                stages.append(x / (length + 1e-10))
        return stages


def _read(path: Path) -> dict[str, Tensor]:
    """Return the tensors in a ``.pth`` file by name."""
    try:
        return read_torch(path)
    except CheckpointError as error:
        raise CheckpointError(f"the weights of LPIPS: {error}") from error
