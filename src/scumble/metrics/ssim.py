"""Structural similarity: Wang et al., "Image Quality Assessment", 2004."""

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from scumble.errors import MetricError
from scumble.metrics.pair import as_pair

WINDOW = 11  # pixels, in height and width
SIGMA = 1.5  # of the Gaussian weights in the window, in pixels
K1, K2 = 0.01, 0.03  # keep the two ratios finite where a picture is black or flat


def ssim(
    restored: Shaped[Tensor, "channels h w"],
    clean: Shaped[Tensor, "channels h w"],
    peak: float = 255,
) -> float:
    """Return the mean structural similarity of all channels; 1 for equal pictures.

    Only windows that lie wholly inside of the picture count.
    """
    restored, clean = as_pair(restored, clean)
    height, width = clean.shape[-2:]
    if min(height, width) < WINDOW:
        raise MetricError(
            f"SSIM needs pictures of at least {WINDOW}x{WINDOW} pixels, got {width}x{height}"
        )
    mean_r, mean_c = _blur(restored), _blur(clean)
    variances = _blur(restored.square() + clean.square()) - mean_r.square() - mean_c.square()
    covariance = _blur(restored * clean) - mean_r * mean_c
    dark, flat = (K1 * peak) ** 2, (K2 * peak) ** 2
    brightness = (2 * mean_r * mean_c + dark) / (mean_r.square() + mean_c.square() + dark)
    structure = (2 * covariance + flat) / (variances + flat)
    return (brightness * structure).mean().item()


def _blur(image: Float[Tensor, "*batch h w"]) -> Float[Tensor, "*batch valid_h valid_w"]:
    """Return the Gaussian mean of every window."""
    offsets = torch.arange(WINDOW, dtype=image.dtype) - WINDOW // 2
    weights = torch.exp(-offsets.square() / (2 * SIGMA**2))
    weights /= weights.sum()
    # A Gaussian is separable: first down the columns, then along the rows.
    for dim in (-2, -1):
        places = image.shape[dim] - WINDOW + 1
        blurred = torch.zeros_like(image.narrow(dim, 0, places))
        for start, weight in enumerate(weights.tolist()):
            blurred.add_(image.narrow(dim, start, places), alpha=weight)
        image = blurred
    return image
