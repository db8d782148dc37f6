"""Enlarging feature maps by convolution and pixel shuffle."""

from torch import nn

from scumble.errors import NetworkError

# One factor per step: x4 is reached in two steps of x2.
STEPS = {2: (2,), 3: (3,), 4: (2, 2)}


def upsampler(
    features: int, scale: int, activation: type[nn.Module] | None = None
) -> nn.Sequential:
    """Return layers that enlarge ``features`` channels ``scale`` times in height and width."""
    check_scale(scale)
    layers: list[nn.Module] = []
    for factor in STEPS[scale]:
        layers.append(nn.Conv2d(features, features * factor**2, 3, padding=1))
        if activation is not None:
            layers.append(activation())
        layers.append(nn.PixelShuffle(factor))
    return nn.Sequential(*layers)


def check_scale(scale: int) -> None:
    """Refuse scales that the networks were not made for."""
    if scale not in STEPS:
        raise NetworkError(f"a scale is 2, 3 or 4, got {scale}")
