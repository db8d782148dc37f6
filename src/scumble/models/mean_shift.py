"""The mean colour of the training pictures, taken off before a network and put back after."""

import torch
from torch import Tensor, nn

# DIV2K's mean red, green and blue, as the published EDSR and CARN use it.
MEAN_COLOUR = (0.4488, 0.4371, 0.4040)


class MeanShift(nn.Module):
    """Adds ``sign`` times the mean colour."""

    mean: Tensor

    def __init__(self, sign: int) -> None:
        super().__init__()
        mean = sign * torch.tensor(MEAN_COLOUR).view(1, 3, 1, 1)
        self.register_buffer("mean", mean, persistent=False)

    def forward(self, image: Tensor) -> Tensor:
        """Return the shifted picture."""
        return image + self.mean
