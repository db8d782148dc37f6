"""Brightness apart from colour."""

from jaxtyping import Float
from torch import Tensor


def luma(rgb: Float[Tensor, "*batch 3 h w"]) -> Float[Tensor, "*batch 1 h w"]:
    """Return Y of BT.601 in studio range, 16 to 235, of red, green and blue in 0..255.

    These are the digits of MATLAB's ``rgb2ycbcr``, in which super-resolution is scored; unlike
    MATLAB on 8-bit pictures, nothing is rounded.

    >>> import torch
    >>> luma(torch.full((3, 1, 1), 255.0)).item()
    235.0
    """
    red, green, blue = rgb.split(1, dim=-3)
    return 16 + (65.481 * red + 128.553 * green + 24.966 * blue) / 255
