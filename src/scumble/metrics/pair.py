"""Two pictures that are compared value by value."""

from torch import Tensor

from scumble.errors import MetricError


def as_pair(restored: Tensor, clean: Tensor) -> tuple[Tensor, Tensor]:
    """Return both pictures in float64, or refuse two of different shape."""
    if restored.shape != clean.shape:
        raise MetricError(
            f"pictures to compare need the same shape, "
            f"got {list(restored.shape)} and {list(clean.shape)}"
        )
    return restored.double(), clean.double()
