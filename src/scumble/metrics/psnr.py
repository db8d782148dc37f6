"""Peak signal-to-noise ratio."""

import math

from torch import Tensor

from scumble.metrics.pair import as_pair


def psnr(restored: Tensor, clean: Tensor, peak: float = 255) -> float:
    """Return the peak signal-to-noise ratio in dB; infinite for equal pictures.

    >>> import torch
    >>> psnr(torch.zeros(1, 2, 2), torch.full((1, 2, 2), 25.5))
    20.0
    """
    restored, clean = as_pair(restored, clean)
    error = (restored - clean).square().mean().item()
    return math.inf if error == 0 else 10 * math.log10(peak**2 / error)
